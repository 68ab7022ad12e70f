"""Reminders of everything that is open, and what comes before the end."""

from datetime import timedelta

import pytest

from safetyd.core.events.notification_events import Due, RoundDue
from safetyd.core.events.request_events import Deferred
from safetyd.core.recipients import QuietHours, TellingConfig
from tests.core.outbox.outbox_story import (
    AWAKE,
    BOTH,
    DAY,
    HOUR,
    MINUTE,
    OutboxStory,
    alice,
    config,
    kinds,
    refs,
    seconds,
)
from tests.core.outbox.test_pace import person, sent
from tests.story import at, resume, stop, tick

# Stories begin at noon.
AFTERNOON = 4 * HOUR
MORNING = 21 * HOUR


def rounds(*people: object, **fields: object) -> TellingConfig:
    usual = {"strategy": "sequential", "rounds": ("09:00", "16:00")}
    if people:
        usual["recipients"] = people  # type: ignore[assignment]
    return config(**{**usual, **fields})  # type: ignore[arg-type]


def reminded(story: OutboxStory, t: float) -> list[Due]:
    """Return what is sent within the first two minutes of a round."""
    return [due for due in sent(story, t, t + 2 * MINUTE, 5) if "reminder" in kinds([due])]


@pytest.mark.req("S3.37")
def test_twice_a_day_one_message_has_everything_that_is_open() -> None:
    story = OutboxStory(rounds())
    open_ = [story.asks(n, f"p{n}", lasts=5 * DAY) for n in range(3)]
    answered = story.asks(3, "p9", lasts=5 * DAY)
    sent(story, 1, HOUR)
    story.answers(HOUR, answered)

    (first,), none, (second,) = (
        reminded(story, AFTERNOON + DAY),
        reminded(story, AFTERNOON + DAY + HOUR),
        reminded(story, MORNING + DAY),
    )

    assert refs(first) == refs(second) == open_
    assert none == []
    assert {item.kind for item in first.items} == {"reminder"}
    assert [item.step for item in second.items] == [2, 2, 2]


def test_a_round_follows_the_clock_of_each_person() -> None:
    tokyo = QuietHours(start="00:00", end="00:00", timezone="Asia/Tokyo")  # 16:00 is 07:00Z
    story = OutboxStory(rounds(person("alice"), person("bob", quiet=tokyo), next_person_s=60.0))
    story.asks(0, lasts=5 * DAY)
    sent(story, 1, HOUR)

    assert [due.recipient for due in reminded(story, 19 * HOUR)] == ["bob"]
    assert [due.recipient for due in reminded(story, MORNING)] == ["alice"]


@pytest.mark.parametrize("why", ["recent", "stopped", "agent stopped", "deferred", "unsent"])
def test_a_round_leaves_out(why: str) -> None:
    story = OutboxStory(rounds())
    t = AFTERNOON + DAY
    ref = story.asks(t - HOUR if why == "recent" else 0, lasts=5 * DAY)
    if why != "unsent":
        sent(story, t - HOUR + 1 if why == "recent" else 1, t - 50 * MINUTE, 30 * MINUTE)
    if why == "stopped":
        story.happens(stop(t - 60))
    if why == "agent stopped":
        story.happens(stop(t - 60, agent="code"))
    if why == "deferred":
        fields = {"request_id": ref, "by": "bob", "until": at(2 * DAY)}
        story.happens(Deferred(at=at(t - 60), t=t - 60, **fields))  # type: ignore[arg-type]

    assert reminded(story, t) == []


def test_after_a_stop_the_next_round_reminds() -> None:
    story = OutboxStory(rounds())
    ref = story.asks(0, lasts=5 * DAY)
    sent(story, 1, HOUR)
    story.happens(stop(2 * HOUR), resume(5 * HOUR))

    assert refs(*reminded(story, MORNING)) == [ref]


def test_no_round_comes_soon_after_a_digest() -> None:
    late = QuietHours(start="23:00", end="08:00")
    story = OutboxStory(rounds(alice(quiet=late)))
    story.asks(0, "p1", lasts=5 * DAY)
    sent(story, 1, HOUR)
    story.asks(12 * HOUR, "p2", lasts=5 * DAY)
    assert sent(story, 20 * HOUR, 20 * HOUR + MINUTE, 5)

    assert reminded(story, MORNING) == []
    assert reminded(story, AFTERNOON + DAY)


def test_a_round_in_quiet_hours_or_long_ago_is_left_out() -> None:
    quiet = QuietHours(start="15:30", end="17:00")
    story = OutboxStory(rounds(alice(quiet=quiet)))
    story.asks(0, lasts=5 * DAY)
    sent(story, 1, HOUR)

    assert reminded(story, AFTERNOON + DAY) == []
    assert reminded(story, MORNING + DAY + 5 * MINUTE) == []


def test_a_round_is_journalled_and_not_repeated_after_a_restart() -> None:
    story = OutboxStory(rounds())
    story.asks(0, lasts=5 * DAY)
    sent(story, 1, HOUR)
    caused = story.happens(tick(MORNING))

    assert [type(event) for event in caused] == [RoundDue, Due]
    assert story.replayed().state() == story.state() == story.restored().state()
    assert story.restored().happens(tick(MORNING + 5)) == []


def test_an_urgent_request_joins_rounds_after_its_own_reminders() -> None:
    story = OutboxStory(rounds(person("alice")))
    story.tells(0, *(first := story.asked(0, urgency="high", lasts=5 * DAY)))
    sent(story, 1, 2 * HOUR, 30)

    assert [refs(due) for due in reminded(story, MORNING)] == [refs(*first)]


def test_rounds_of_people_who_were_removed_are_forgotten() -> None:
    story = OutboxStory(rounds(person("alice"), person("bob"), next_person_s=60.0))
    story.asks(0, lasts=5 * DAY)
    sent(story, 1, HOUR)
    (event,) = (each for each in story.happens(tick(MORNING)) if isinstance(each, RoundDue))
    assert {each.recipient for each in event.rounds} == {"alice", "bob"}
    later = story.restored(rounds(person("alice")))

    assert later.dues(event) == []


@pytest.mark.req("S3.37")
def test_one_last_call_has_everything_that_ends_within_two_hours() -> None:
    story = OutboxStory(rounds(rounds=()))
    ends = [story.asks(n, f"p{n}", lasts=8 * HOUR + n * 20 * MINUTE) for n in range(5)]
    sent(story, 5, HOUR)

    (due,) = sent(story, 7 * HOUR, 7 * HOUR + 10 * MINUTE, 30)

    assert refs(due) == ends[:3]
    assert {item.kind for item in due.items} == {"last_call"}


def test_a_request_that_ends_soon_after_it_was_sent_has_no_last_call() -> None:
    story = OutboxStory(rounds())
    story.asks(0, lasts=3 * HOUR)
    sent(story, 1, HOUR)

    assert sent(story, HOUR, 3 * HOUR, 60) == []


def test_the_next_message_says_that_a_request_has_expired() -> None:
    story = OutboxStory(rounds(rounds=()))
    closed = story.asks(0, "p1", lasts=5 * HOUR)
    sent(story, 1, 5 * MINUTE, 30)
    soon = story.asks(4 * HOUR, "p2", lasts=HOUR)
    sent(story, 4 * HOUR, 4 * HOUR + 10 * MINUTE, 30)
    story.expires(6 * HOUR, closed, soon)
    assert sent(story, 6 * HOUR, 7 * HOUR, 60) == []

    asked = story.asks(8 * HOUR, "p3", lasts=DAY)
    (due,) = sent(story, 8 * HOUR + 1, 8 * HOUR + 10 * MINUTE, 30)

    # Whoever received a request a short time ago knows when it ended.
    assert sorted(refs(due)) == sorted([closed, asked])
    assert story.replayed().state() == story.state() == story.restored().state()


@pytest.mark.parametrize("opens", [False, True])
def test_the_next_channel_follows_if_nobody_opens_the_request(*, opens: bool) -> None:
    from tests.core.outbox.test_pace import opened  # noqa: PLC0415

    who = person("alice", "phone", "mail")
    story = OutboxStory(rounds(who, channels=BOTH, rounds=(), next_channel_s=2 * HOUR))
    story.asks(0, lasts=5 * DAY)
    (first,) = sent(story, 1, HOUR)
    if opens:
        story.happens(opened(HOUR, first), opened(HOUR + 1, first))

    found = sent(story, HOUR + 2, 5 * HOUR, 60)

    assert first.channel == "phone"
    assert [due.channel for due in found] == ["mail"] * (not opens)
    assert all(seconds(due) >= 2 * HOUR for due in found)


def test_next_channels_of_several_requests_share_a_message() -> None:
    who = person("alice", "phone", "mail")
    story = OutboxStory(rounds(who, channels=BOTH, rounds=(), next_channel_s=2 * HOUR))
    for n in range(3):
        story.asks(n * 15 * MINUTE, f"p{n}", lasts=5 * DAY)
        sent(story, n * 15 * MINUTE + 1, (n + 1) * 15 * MINUTE - 1, 30)

    by_mail = [due for due in sent(story, HOUR, 6 * HOUR, 60) if due.channel == "mail"]

    assert [len(refs(due)) for due in by_mail] == [3]


def test_steps_move_with_the_clock() -> None:
    from safetyd.core.events.daemon_events import ClockStepped  # noqa: PLC0415

    who = person("alice", "phone", "mail", quiet=AWAKE)
    story = OutboxStory(rounds(who, channels=BOTH, rounds=(), next_channel_s=2 * HOUR))
    story.asks(0, lasts=5 * DAY)
    sent(story, 1, HOUR)
    by = timedelta(days=1).total_seconds()
    story.happens(ClockStepped(at=at(HOUR + by), t=HOUR, seconds=by))

    assert sent(story, HOUR + by + 1, 2 * HOUR + by - MINUTE, 60) == []
    assert sent(story, 2 * HOUR + by, 3 * HOUR + by, 60)
