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
    requested,
)
from tests.story import at, tick


def test_people_are_reminded_until_they_answer() -> None:
    story = OutboxStory()
    ref = story.asks(0, lasts=None)
    story.tells_at(60)

    story.happens(tick(15 * MINUTE))
    (first,) = story.tells_at(16 * MINUTE)
    story.happens(tick(HOUR))
    (second,) = story.tells_at(HOUR + MINUTE)
    story.answers(2 * HOUR, ref)
    story.happens(tick(4 * HOUR))

    assert [first.items, second.items] == [(requested(ref, 1),), (requested(ref, 2),)]
    assert story.ticks(4 * HOUR + MINUTE) == []


def test_a_last_call_is_one() -> None:
    story = OutboxStory()
    ref = story.asks(0, lasts=20 * MINUTE)
    story.tells_at(60)

    story.happens(tick(10 * MINUTE))
    (due,) = story.ticks(11 * MINUTE)

    assert due.items == (Item("last_call", ref, 1),)


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
    ref, other = story.asks(1, "p1", lasts=HOUR), story.asks(1, "p2", lasts=None)
    story.happens(tick(1 + 15 * MINUTE), tick(1 + 50 * MINUTE))

    (due,) = story.tells(55 * MINUTE, first)

    assert due.items == (Item("last_call", ref, 2), requested(other))


def test_what_is_under_way_is_not_reminded_of() -> None:
    story = OutboxStory()
    story.asks(0)
    (due,) = story.ticks(60)

    story.happens(tick(15 * MINUTE))

    assert story.tells(16 * MINUTE, due) == []
    assert story.waiting() == []


def test_nobody_is_reminded_right_after_a_message() -> None:
    story = OutboxStory()
    other = story.asks(0, "p0")
    (first,) = story.ticks(60)
    story.asks(70, "p1", lasts=None)
    (second,) = story.tells(70 + 14 * MINUTE, first)
    story.tells(70 + 14 * MINUTE, second)
    story.answers(70 + 14 * MINUTE, other)

    events = story.happens(tick(70 + 15 * MINUTE))

    assert any(isinstance(event, Climbed) for event in events)
    assert story.waiting() == []


def test_of_what_is_urgent_everybody_is_reminded_on_all_channels_and_then_the_backup() -> None:
    bob = Recipient(name="bob", channels=("phone",), agents=())
    people = (alice(BOTH, backup="bob"), bob)
    story = OutboxStory(config(BOTH, recipients=people, strategy="sequential"))

    first = story.asked(0, urgency="high", lasts=None)
    story.tells(1, *first)
    second = story.ticks(5 * MINUTE)
    story.tells(5 * MINUTE + 1, *second)
    third = story.ticks(15 * MINUTE)

    assert channels(first) == ["mail"]
    assert channels(second) == ["mail", "phone"]
    assert [(due.recipient, due.channel) for due in third] == [
        ("alice", "mail"),
        ("alice", "phone"),
        ("bob", "phone"),
    ]
    assert kinds(third) == ["reminder"] * 3


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

    story.happens(tick(3 * HOUR))
    (due,) = story.ticks(3 * HOUR + MINUTE)

    assert due.items == (requested(ref, 1),)
    story.tells(3 * HOUR + MINUTE, due)
    story.happens(tick(4 * HOUR))
    assert story.ticks(4 * HOUR + MINUTE)[0].items == (requested(ref, 2),)


def test_what_is_over_cannot_be_put_off() -> None:
    story = OutboxStory()
    ref = story.asks(0)
    story.answers(1, ref)

    story.happens(Deferred(at=at(2), t=2.0, request_id=ref, by="alice", until=at(3)))

    assert story.happens(tick(3)) == []


def test_at_most_64_steps_come_in_one_tick() -> None:
    story = OutboxStory()
    for n in range(70):
        story.asks(n / 100, f"p{n}", f"a{n}", lasts=None)
    story.tells_at(61)

    taken = [
        len(event.steps)
        for second in range(3)
        for event in story.happens(tick(15 * MINUTE + 1 + second))
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
    ref = story.asks(0, urgency="low", lasts=20 * MINUTE)
    story.tells_at(60)
    story.happens(tick(10 * MINUTE))

    (due,) = story.tells_at(11 * MINUTE)
    again = story.happens(Climbed(at=at(700), t=700.0, steps=(Item("reminder", ref, 2),)))

    assert due.items == (requested(ref, 1),)
    assert len(again) == 1
