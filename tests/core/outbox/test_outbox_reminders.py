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
    post = OutboxStory()
    ref = post.asks(0, lasts=None)
    post.tells_at(60)

    post.happens(tick(15 * MINUTE))
    (first,) = post.tells_at(16 * MINUTE)
    post.happens(tick(HOUR))
    (second,) = post.tells_at(HOUR + MINUTE)
    post.answers(2 * HOUR, ref)
    post.happens(tick(4 * HOUR))

    assert [first.items, second.items] == [(requested(ref, 1),), (requested(ref, 2),)]
    assert post.ticks(4 * HOUR + MINUTE) == []


def test_a_last_call_is_one() -> None:
    post = OutboxStory()
    ref = post.asks(0, lasts=20 * MINUTE)
    post.tells_at(60)

    post.happens(tick(10 * MINUTE))
    (due,) = post.ticks(11 * MINUTE)

    assert due.items == (Item("last_call", ref, 1),)


def test_what_still_waits_to_be_told_is_not_reminded_of() -> None:
    post = OutboxStory(config(batch_interval_s=2 * HOUR))
    ref = post.asks(0, lasts=None)
    post.happens(tick(15 * MINUTE), tick(HOUR))

    (due,) = post.ticks(2 * HOUR)

    assert due.items == (requested(ref),)


def test_a_last_call_takes_the_place_of_what_still_waits() -> None:
    post = OutboxStory()
    post.asks(-60, "p0")
    (first,) = post.ticks(0)
    ref, other = post.asks(1, "p1", lasts=HOUR), post.asks(1, "p2", lasts=None)
    post.happens(tick(1 + 15 * MINUTE), tick(1 + 50 * MINUTE))

    (due,) = post.tells(55 * MINUTE, first)

    assert due.items == (Item("last_call", ref, 2), requested(other))


def test_what_is_under_way_is_not_reminded_of() -> None:
    post = OutboxStory()
    post.asks(0)
    (due,) = post.ticks(60)

    post.happens(tick(15 * MINUTE))

    assert post.tells(16 * MINUTE, due) == []
    assert post.waiting() == []


def test_nobody_is_reminded_right_after_a_message() -> None:
    post = OutboxStory()
    other = post.asks(0, "p0")
    (first,) = post.ticks(60)
    post.asks(70, "p1", lasts=None)
    (second,) = post.tells(70 + 14 * MINUTE, first)
    post.tells(70 + 14 * MINUTE, second)
    post.answers(70 + 14 * MINUTE, other)

    events = post.happens(tick(70 + 15 * MINUTE))

    assert any(isinstance(event, Climbed) for event in events)
    assert post.waiting() == []


def test_of_what_is_urgent_everybody_is_reminded_on_all_channels_and_then_the_backup() -> None:
    bob = Recipient(name="bob", channels=("phone",), agents=())
    people = (alice(BOTH, backup="bob"), bob)
    post = OutboxStory(config(BOTH, recipients=people, strategy="sequential"))

    first = post.asked(0, urgency="high", lasts=None)
    post.tells(1, *first)
    second = post.ticks(5 * MINUTE)
    post.tells(5 * MINUTE + 1, *second)
    third = post.ticks(15 * MINUTE)

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
    post = OutboxStory(config(recipients=(alice(backup="bob"), bob)))
    dues = post.asked(0, urgency="high", lasts=None)
    post.tells(1, *dues)
    post.tells(5 * MINUTE, *post.ticks(5 * MINUTE))

    dues = post.ticks(15 * MINUTE)

    assert [due.recipient for due in dues] == ["alice", "bob"]


def test_nobody_is_reminded_of_what_was_put_off_before_its_time() -> None:
    post = OutboxStory()
    ref = post.asks(0, lasts=None)
    put_off = Deferred(at=at(30), t=30.0, request_id=ref, by="alice", until=at(3 * HOUR))
    post.happens(put_off, put_off)
    assert post.ticks(60) == []
    assert post.ticks(2 * HOUR) == []
    assert post.outbox.unnotified(at(2 * HOUR)) == 0

    post.happens(tick(3 * HOUR))
    (due,) = post.ticks(3 * HOUR + MINUTE)

    assert due.items == (requested(ref, 1),)
    post.tells(3 * HOUR + MINUTE, due)
    post.happens(tick(4 * HOUR))
    assert post.ticks(4 * HOUR + MINUTE)[0].items == (requested(ref, 2),)


def test_what_is_over_cannot_be_put_off() -> None:
    post = OutboxStory()
    ref = post.asks(0)
    post.answers(1, ref)

    post.happens(Deferred(at=at(2), t=2.0, request_id=ref, by="alice", until=at(3)))

    assert post.happens(tick(3)) == []


def test_at_most_64_steps_come_in_one_tick() -> None:
    post = OutboxStory()
    for n in range(70):
        post.asks(n / 100, f"p{n}", f"a{n}", lasts=None)
    post.tells_at(61)

    taken = [
        len(event.steps)
        for second in range(3)
        for event in post.happens(tick(15 * MINUTE + 1 + second))
        if isinstance(event, Climbed)
    ]

    assert taken == [64, 6]


def test_a_step_whose_request_ran_out_meanwhile_is_not_taken() -> None:
    post = OutboxStory()
    post.asks(0, lasts=HOUR)
    post.tells_at(60)

    events = post.happens(tick(2 * HOUR))

    assert not any(isinstance(event, Climbed) for event in events)


def test_a_step_that_was_taken_for_what_is_over_does_nothing() -> None:
    post = OutboxStory()
    ref = post.asks(0)
    post.answers(1, ref)

    events = post.happens(Climbed(at=at(2), t=2.0, steps=(Item("reminder", ref, 1),)))

    assert len(events) == 1


def test_the_last_step_of_a_ladder_is_the_last() -> None:
    post = OutboxStory()
    ref = post.asks(0, urgency="low", lasts=20 * MINUTE)
    post.tells_at(60)
    post.happens(tick(10 * MINUTE))

    (due,) = post.tells_at(11 * MINUTE)
    again = post.happens(Climbed(at=at(700), t=700.0, steps=(Item("reminder", ref, 2),)))

    assert due.items == (requested(ref, 1),)
    assert len(again) == 1
