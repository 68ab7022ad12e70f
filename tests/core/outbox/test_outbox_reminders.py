"""How people are reminded of what they do not answer."""

from safetyd.core.events.notification_events import Climbed, Item
from safetyd.core.events.request_events import Deferred
from safetyd.core.recipients import Recipient
from tests.core.outbox.outbox_story import (
    BOTH,
    HOUR,
    MINUTE,
    OutboxStory,
    alice,
    channels,
    config,
    kinds,
    refs,
    requested,
)
from tests.story import at, tick


def test_people_are_reminded_of_what_is_urgent_until_they_answer() -> None:
    story = OutboxStory()
    first = story.asked(0, urgency="high", lasts=None)
    ref = refs(first[0])[0]
    story.tells(0, *first)

    assert story.ticks(5 * MINUTE) == []
    (second,) = story.tells_at(15 * MINUTE)
    story.answers(30 * MINUTE, ref)

    assert second.items == (requested(ref, 2),)
    assert story.ticks(HOUR) == []


def test_nobody_is_reminded_of_an_urgency_that_its_agent_did_not_declare() -> None:
    story = OutboxStory()
    story.tells(0, *story.asked(0, urgency="high", inferred=True, lasts=None))

    assert story.dues(tick(5 * MINUTE), tick(15 * MINUTE), tick(HOUR)) == []


def test_an_agent_that_waits_presses() -> None:
    story = OutboxStory()
    story.tells(0, *story.asked(0, urgency="high", inferred=True, wait=True, lasts=None))

    (due,) = story.dues(tick(5 * MINUTE), tick(15 * MINUTE))

    assert kinds([due]) == ["reminder"]


def test_a_last_call_is_one() -> None:
    story = OutboxStory()
    ref = story.asks(0, lasts=6 * HOUR)
    story.tells_at(60)

    (due,) = story.dues(tick(5 * HOUR))

    assert due.items == (Item("last_call", ref, 1),)


def test_everything_that_ends_soon_has_its_last_call_together() -> None:
    story = OutboxStory()
    ids = [story.asks(n, f"p{n}", f"a{n}", lasts=6 * HOUR + n * 20 * MINUTE) for n in range(5)]
    story.tells_at(60)

    (due,) = story.dues(tick(5 * HOUR))

    assert refs(due) == ids[:3]
    assert {*kinds([due])} == {"last_call"}


def test_what_still_waits_to_be_told_is_not_reminded_of() -> None:
    story = OutboxStory(config(batch_interval_s=2 * HOUR))
    ref = story.asks(0, lasts=None)
    story.happens(tick(15 * MINUTE), tick(HOUR))

    (due,) = story.ticks(2 * HOUR)

    assert due.items == (requested(ref),)


def test_a_last_call_is_told_instead_of_what_still_waits() -> None:
    story = OutboxStory()
    story.asks(-60, "p0")
    (first,) = story.ticks(0)
    ref, other = story.asks(1, "p1", lasts=6 * HOUR), story.asks(1, "p2", lasts=None)
    story.happens(tick(1 + 5 * HOUR))

    (due,) = story.tells(5 * HOUR + MINUTE, first)

    assert due.items == (Item("last_call", ref, 1), requested(other))


def test_what_is_under_way_is_not_reminded_of() -> None:
    story = OutboxStory()
    story.asks(0)
    (due,) = story.ticks(60)

    story.happens(tick(15 * MINUTE))

    assert story.tells(16 * MINUTE, due) == []
    assert story.waiting() == []


def test_nobody_is_reminded_right_after_a_message() -> None:
    story = OutboxStory()
    ref = story.asks(0, lasts=None)
    story.tells_at(60)
    story.happens(Deferred(at=at(70), t=70.0, request_id=ref, by="alice", until=at(150)))

    events = story.happens(tick(150))

    assert any(isinstance(event, Climbed) for event in events)
    assert story.waiting() == []


def test_of_what_is_urgent_people_hear_on_the_next_channel_and_then_the_backup_as_well() -> None:
    bob = Recipient(name="bob", channels=("phone",), agents=())
    people = (alice(BOTH, backup="bob"), bob)
    story = OutboxStory(config(BOTH, recipients=people, strategy="sequential"))

    first = story.asked(0, urgency="high", lasts=None)
    story.tells(1, *first)
    second = story.ticks(5 * MINUTE)
    story.tells(5 * MINUTE + 1, *second)
    third = story.ticks(15 * MINUTE)

    assert channels(first) == ["mail"]
    assert channels(second) == ["phone"]
    assert [(due.recipient, due.channel) for due in third] == [("alice", "mail"), ("bob", "phone")]
    assert kinds(third) == ["reminder"] * 2


def test_a_backup_that_heard_anyway_hears_once() -> None:
    bob = Recipient(name="bob", channels=("mail",), backup="nobody")
    story = OutboxStory(config(recipients=(alice(backup="bob"), bob)))
    dues = story.asked(0, urgency="high", lasts=None)
    story.tells(1, *dues)
    story.tells(5 * MINUTE, *story.ticks(5 * MINUTE))

    dues = story.ticks(15 * MINUTE)

    assert [due.recipient for due in dues] == ["alice", "bob"]


def test_nobody_is_reminded_of_what_was_put_off_before_its_time() -> None:
    story = OutboxStory()
    ref = story.asks(0, lasts=None)
    put_off = Deferred(at=at(30), t=30.0, request_id=ref, by="alice", until=at(3 * HOUR))
    story.happens(put_off, put_off)
    assert story.ticks(60) == []
    assert story.ticks(2 * HOUR) == []
    assert story.outbox.unnotified(at(2 * HOUR)) == 0

    dues = story.dues(tick(3 * HOUR), tick(3 * HOUR + MINUTE))

    assert [due.items for due in dues] == [(requested(ref, 1),)]


def test_what_is_over_cannot_be_put_off() -> None:
    story = OutboxStory()
    ref = story.asks(0)
    story.answers(1, ref)

    story.happens(Deferred(at=at(2), t=2.0, request_id=ref, by="alice", until=at(3)))

    assert story.happens(tick(3)) == []


def test_at_most_64_steps_come_in_one_tick() -> None:
    story = OutboxStory()
    for n in range(70):
        story.asks(n / 100, f"p{n}", f"a{n}", lasts=6 * HOUR)
    story.tells_at(61)

    taken = [
        len(event.steps)
        for second in range(3)
        for event in story.happens(tick(5 * HOUR + 1 + second))
        if isinstance(event, Climbed)
    ]

    assert taken == [64, 6]


def test_a_step_whose_request_ran_out_meanwhile_is_not_taken() -> None:
    story = OutboxStory()
    story.asks(0, lasts=HOUR)
    story.tells_at(60)

    events = story.happens(tick(2 * HOUR))

    assert not any(isinstance(event, Climbed) for event in events)


def test_a_step_that_was_taken_for_what_is_over_does_nothing() -> None:
    story = OutboxStory()
    ref = story.asks(0)
    story.answers(1, ref)

    events = story.happens(Climbed(at=at(2), t=2.0, steps=(Item("reminder", ref, 1),)))

    assert len(events) == 1


def test_after_the_last_step_comes_none() -> None:
    story = OutboxStory()
    ref = story.asks(0, urgency="low", lasts=6 * HOUR)
    story.tells_at(60)

    (due,) = story.tells_at(5 * HOUR)
    again = story.happens(
        Climbed(at=at(5 * HOUR + 1), t=5 * HOUR + 1, steps=(Item("last_call", ref, 2),))
    )

    assert due.items == (Item("last_call", ref, 1),)
    assert len(again) == 1
