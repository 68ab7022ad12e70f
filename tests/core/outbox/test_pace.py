"""How long a message waits for the next one."""

from datetime import timedelta
from itertools import pairwise

import pytest

from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.notification_events import Due, LinkOpened
from safetyd.core.outbox.pace import EAGER
from safetyd.core.recipients import QuietHours, Recipient, TellingConfig
from tests.core.outbox.outbox_story import (
    AWAKE,
    DAY,
    HOUR,
    MAIL,
    MINUTE,
    OutboxStory,
    config,
    recipient,
    refs,
    seconds,
)
from tests.story import at

PATIENT = (900.0, 1800.0)


def person(name: str, *channels: str, **fields: object) -> Recipient:
    return recipient(name, *(channels or ("mail",)), **{"quiet": AWAKE, **fields})


def people(*names: str, **fields: object) -> TellingConfig:
    recipients = tuple(person(name) for name in names)
    usual = {"strategy": "sequential", "patience_s": PATIENT, "recipients": recipients}
    return config(**{**usual, **fields})  # type: ignore[arg-type]


def sent(story: OutboxStory, start: float, until: float, step: float = 30) -> list[Due]:
    """Let time pass, deliver what is due, and return it."""
    found, t = list[Due](), start
    while t <= until:
        found += story.tells_at(t)
        t += step
    return found


def opened(t: float, due: Due) -> LinkOpened:
    fields = {"recipient": due.recipient, "request_ids": tuple(refs(due))}
    return LinkOpened(at=at(t), t=t, delivery=due.delivery, **fields)  # type: ignore[arg-type]


@pytest.mark.req("S3.37")
def test_the_first_request_waits_for_a_minute_and_the_next_for_patience() -> None:
    story = OutboxStory(people("alice"))
    story.asks(0, "p1")
    (first,) = sent(story, 1, 5 * MINUTE)
    story.asks(5 * MINUTE, "p2")
    story.asks(10 * MINUTE, "p3")

    (second,) = sent(story, 5 * MINUTE + 1, 30 * MINUTE)

    assert seconds(first) == pytest.approx(61, abs=30)
    # 15 minutes after the first message.
    assert seconds(second) == pytest.approx(16 * MINUTE, abs=30)
    assert len(refs(second)) == 2


@pytest.mark.req("S3.62")
def test_the_request_of_a_waiting_agent_is_sent_within_ten_seconds() -> None:
    story = OutboxStory(people("alice"))
    asked, unanswered = 0.0, 2 * MINUTE
    ref = story.asks(asked, "p1", wait=True)
    (first,) = sent(story, 1, MINUTE, step=1)
    story.answers(MINUTE, ref)
    story.asks(MINUTE + 5, "p2", wait=True)
    story.asks(MINUTE + 8, "p3", agent="other", wait=True)
    (second,) = sent(story, MINUTE + 9, unanswered, step=1)
    story.asks(unanswered, "p4", wait=True)

    (third,) = sent(story, unanswered + 1, 30 * MINUTE)

    assert seconds(first) <= 10
    assert (seconds(second) <= MINUTE + 15, len(refs(second))) == (True, 2)
    # While a message is unanswered, the next one waits for patience.
    assert seconds(third) > 10 * MINUTE


def test_at_night_a_waiting_agent_wakes_nobody() -> None:
    asleep = person("alice", quiet=QuietHours(start="11:00", end="23:00"))
    story = OutboxStory(people(recipients=(asleep,)))
    story.asks(0, "p1", wait=True)

    assert sent(story, 1, HOUR) == []


@pytest.mark.parametrize("how", ["answer", "open"])
def test_an_answer_or_an_opened_link_ends_the_wait(how: str) -> None:
    story = OutboxStory(people("alice"))
    ref = story.asks(0, "p1")
    (first,) = sent(story, 1, 2 * MINUTE)
    story.asks(2 * MINUTE, "p2")
    if how == "answer":
        story.answers(2 * MINUTE + 5, ref)
    else:
        story.happens(opened(2 * MINUTE + 5, first))

    (second,) = sent(story, 2 * MINUTE + 10, 10 * MINUTE)

    assert seconds(second) < 4 * MINUTE


def test_a_link_in_a_message_that_is_not_stored_changes_nothing() -> None:
    story = OutboxStory(people("alice"))
    event = LinkOpened(at=at(0), t=0.0, delivery="dlv_x", recipient="alice", request_ids=("r",))

    assert story.dues(event) == []
    assert story.outbox.find("dlv_x") is None


def test_somebody_who_answers_at_once_gets_two_quick_messages_an_hour() -> None:
    story, found = OutboxStory(people("alice")), list[Due]()
    for n in range(12):
        ref = story.asks(n * 5 * MINUTE, f"p{n}")
        found += sent(story, n * 5 * MINUTE + 1, (n + 1) * 5 * MINUTE - 1)
        story.answers((n + 1) * 5 * MINUTE - 1, ref)

    gaps = [seconds(later) - seconds(one) for one, later in pairwise(found)]
    assert sum(gap < 10 * MINUTE for gap in gaps) == EAGER - 1


def test_nobody_waits_longer_than_the_first_patience_for_a_request_that_is_new() -> None:
    story = OutboxStory(people("alice"))
    story.asks(0, "p1")
    sent(story, 1, 2 * MINUTE)
    story.asks(2 * MINUTE, "p2")
    sent(story, 2 * MINUTE, 20 * MINUTE)
    asked = 20 * MINUTE
    story.asks(asked, "p3")

    (due,) = sent(story, asked + 1, 60 * MINUTE)

    # Two messages are unanswered, so that others would wait for half an hour.
    assert asked < seconds(due) <= asked + 15 * MINUTE


def test_what_somebody_else_received_waits_for_the_full_patience() -> None:
    story = OutboxStory(people("alice", "bob", next_person_s=60.0))
    for n in range(3):
        story.asks(n * 20 * MINUTE, f"p{n}")
        sent(story, n * 20 * MINUTE + 1, (n + 1) * 20 * MINUTE - 1)

    story.asks(HOUR, "p9")
    found = {due.recipient: seconds(due) for due in sent(story, HOUR + 1, 3 * HOUR)}

    first, second = sorted(found.values())
    assert first <= HOUR + 15 * MINUTE
    assert second > first


def test_a_person_can_have_a_patience_of_their_own() -> None:
    story = OutboxStory(
        config(strategy="sequential", recipients=(person("alice", patience_s=(120.0,)),))
    )
    for n in range(3):
        story.asks(n * 10.0, f"p{n}")
    sent(story, 31, 90)
    story.asks(100, "p9")

    (due,) = sent(story, 101, 600)

    assert seconds(due) == pytest.approx(61 + 120, abs=60)


def test_a_phone_is_used_once_an_hour_for_what_somebody_else_received() -> None:
    channels = {**MAIL, "room": "chat"}
    recipients = person("alice"), person("omar", "room")
    story = OutboxStory(
        people("alice", channels=channels, recipients=recipients, next_person_s=HOUR)
    )
    for n in range(36):
        story.asks(n * 5 * MINUTE, f"p{n}")
        sent(story, n * 5 * MINUTE + 1, (n + 1) * 5 * MINUTE - 1)

    by_phone = [d for d in story.outbox.deliveries() if d.channel == "room"]
    by_mail = [d for d in story.outbox.deliveries() if d.channel == "mail"]

    assert 1 <= len(by_phone) <= 3
    assert len(by_mail) >= 9


def test_a_program_does_not_wait_for_patience() -> None:
    channels = {"hook": "webhook"}
    everyone = person("everyone", "hook", shared=True)
    story = OutboxStory(people("alice", channels=channels, recipients=(everyone,)))

    for n in range(5):
        story.asks(n * 100, f"p{n}")
        assert len(sent(story, n * 100 + 1, n * 100 + 99)) == 1


def test_a_deadline_is_stronger_than_patience() -> None:
    story = OutboxStory(people("alice"))
    story.asks(0, "p1")
    sent(story, 1, 2 * MINUTE)
    story.asks(2 * MINUTE, "p2", lasts=8 * MINUTE)

    (due,) = sent(story, 2 * MINUTE + 1, 12 * MINUTE)

    assert seconds(due) <= 8 * MINUTE + 30


def test_a_step_of_the_clock_moves_waits_with_it() -> None:
    story = OutboxStory(people("alice"))
    story.asks(0, "p1")
    sent(story, 1, 2 * MINUTE)
    by = timedelta(hours=2).total_seconds()
    story.happens(ClockStepped(at=at(3 * MINUTE + by), t=3 * MINUTE, seconds=by))
    story.asks(3 * MINUTE + by, "p2")

    assert sent(story, 4 * MINUTE + by, 15 * MINUTE + by) == []
    assert sent(story, 15 * MINUTE + by, 20 * MINUTE + by)


@pytest.mark.req("S3.37", "K4")
@pytest.mark.parametrize("answers", [True, False])
def test_a_whole_day_of_requests_is_at_most_five_mails_an_hour(*, answers: bool) -> None:
    story, found = OutboxStory(people("alice")), list[Due]()
    for n in range(96):
        t = n * 10 * MINUTE
        ref = story.asks(t, f"p{n}", f"agent-{n % 7}", lasts=3 * DAY)
        found += sent(story, t + 1, t + 10 * MINUTE - 1, 60)
        if answers and n % 2:
            story.answers(t + 10 * MINUTE - 1, ref)

    times = [seconds(due) for due in found if due.urgency != "high"]
    assert max(sum(t <= u < t + HOUR for u in times) for t in times) <= 5
    assert len({ref for due in found for ref in refs(due)}) >= 40
