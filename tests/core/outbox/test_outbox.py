"""Who is told of a request, and when: batches and urgency."""

import pytest

from safetyd.core.events.guard_events import Paused
from safetyd.core.events.request_events import Cancelled, Superseded
from safetyd.core.outbox.pace import MACHINES, PEOPLE
from safetyd.core.recipients import Recipient
from tests.core.outbox.outbox_story import (
    ALL,
    AWAKE,
    BOTH,
    DAY,
    HOUR,
    MINUTE,
    NIGHT,
    OutboxStory,
    alice,
    config,
    decided,
    kinds,
    recipient,
    refs,
    requested,
)
from tests.story import at, tick


@pytest.mark.req("S3.37", "K4")
def test_requests_of_one_interval_are_one_message() -> None:
    story = OutboxStory()
    first, second = story.asks(0, "p1"), story.asks(40, "p2")

    assert story.ticks(59) == []
    (due,) = story.ticks(60)

    assert due.items == (requested(first), requested(second))
    assert (due.recipient, due.channel, due.urgency) == ("alice", "mail", "normal")
    assert due.delivery.startswith("dlv_")
    assert story.ticks(61) == []


@pytest.mark.req("S3.29")
def test_everybody_hears_on_every_channel_of_theirs_at_once() -> None:
    bob = Recipient(name="bob", channels=("phone", "gone"))
    story = OutboxStory(config(BOTH, recipients=(alice(BOTH), bob)))

    dues = story.asked(0, urgency="high")

    assert [(due.recipient, due.channel) for due in dues] == [
        ("alice", "mail"),
        ("alice", "phone"),
        ("bob", "phone"),
    ]
    assert len({due.delivery for due in dues}) == 3


def test_nobody_hears_of_an_agent_that_is_not_theirs() -> None:
    bob = Recipient(name="bob", channels=("mail",), agents=("shop-*",))
    story = OutboxStory(config(recipients=(alice(agents=("code",)), bob)))
    story.asks(0, "p1", "code")
    story.asks(0, "p2", "shop-1")
    unheard = story.asks(0, "p3", "else")

    dues = story.ticks(60)

    assert [due.recipient for due in dues] == ["alice", "bob"]
    assert not story.outbox.undeliverable(unheard)


def test_what_is_answered_before_is_not_told() -> None:
    story = OutboxStory()
    first, second = story.asks(0, "p1"), story.asks(1, "p2")
    story.answers(2, first, "denied")
    story.happens(
        Superseded(at=at(3), t=3.0, request_id=second, agent="code", by_id="p3"),
        Cancelled(at=at(3), t=3.0, request_id=second, by="bob", via="cli"),
    )

    assert story.ticks(60) == []
    assert story.waiting() == []


def test_what_joins_a_request_is_not_told_again() -> None:
    story = OutboxStory()
    ref = story.asks(0)
    story.happens(decided(1, 1, joins=True), decided(1, 1))

    (due,) = story.ticks(60)

    assert refs(due) == [ref]


@pytest.mark.req("S3.37")
def test_without_an_interval_everything_is_told_at_once() -> None:
    story = OutboxStory(config(batch_interval_s=0.0))

    (due,) = story.asked(0)
    story.tells(1, due)

    assert len(story.asked(1, "p2")) == 1


def test_a_leading_batch_begins_with_a_message() -> None:
    story = OutboxStory(config(batch_mode="leading"))

    (first,) = story.asked(0, "p1")
    assert story.asked(10, "p2") == []
    story.tells(11, first)
    story.asks(20, "p3")

    assert story.ticks(59) == []
    (second,) = story.ticks(60)
    assert len(second.items) == 2


def test_what_ends_soon_is_told_soon() -> None:
    story = OutboxStory(config(batch_interval_s=600.0))
    story.asks(0, "p1", lasts=8 * MINUTE)

    assert story.ticks(6 * MINUTE - 1) == []
    assert len(story.ticks(6 * MINUTE)) == 1


def test_what_ends_at_once_is_told_at_once() -> None:
    story = OutboxStory()

    assert len(story.asked(0, lasts=MINUTE)) == 1


def test_of_a_long_time_a_quarter_is_left_for_an_answer() -> None:
    story = OutboxStory(config(batch_interval_s=10 * HOUR, recipients=(alice(quiet=AWAKE),)))
    story.asks(0, lasts=4 * HOUR)

    assert story.ticks(3 * HOUR - 1) == []
    assert len(story.ticks(3 * HOUR)) == 1


@pytest.mark.req("S3.37")
def test_a_message_has_room_for_a_hundred_items_and_the_next_one_for_the_rest() -> None:
    story = OutboxStory(config(recipients=(alice(agents=("*",)),)))
    asked = [story.asks(n / 100, f"p{n}", f"a{n}") for n in range(104)]
    calm = story.asks(3, "low", "b", urgency="low")

    (due,) = story.tells_at(70)
    (later,) = story.tells_at(130)

    assert (refs(due), due.more, due.left) == (asked[:100], 0, 5)
    assert (refs(later), later.more, later.left) == ([*asked[100:], calm], 0, 0)
    assert story.waiting() == []


def test_what_is_over_but_not_yet_said_to_be_is_not_told() -> None:
    story = OutboxStory(config(batch_interval_s=600.0))
    story.asks(0, "p1", lasts=2 * HOUR)
    (first,) = story.ticks(600)
    late, later = story.asks(700, "p2", lasts=HOUR), story.asks(700, "p3", lasts=DAY)

    events = story.happens(tick(700 + HOUR))
    (due,) = story.tells(700 + HOUR, first)

    assert any(event.__class__.__name__ == "Expired" for event in events)
    assert refs(due) == [later]
    assert late not in refs(due)


def test_a_queue_with_nothing_but_what_is_over_sends_nothing() -> None:
    story = OutboxStory(config(batch_interval_s=600.0))
    story.asks(0, "p1")
    (first,) = story.ticks(600)
    story.asks(700, "p2", lasts=10 * MINUTE)

    dues = story.tells(700 + 10 * MINUTE, first)

    assert dues == []


@pytest.mark.req("S3.38", "K4")
def test_what_is_urgent_is_told_in_the_same_step() -> None:
    story = OutboxStory()
    calm = story.asks(0, "p1")

    (due,) = story.asked(1, "p2", urgency="high")

    assert (due.urgency, kinds([due]), due.expires) == ("high", ["request"], at(1 + DAY))
    assert refs(due) != [calm]
    assert refs(story.ticks(60)[0]) == [calm]


def test_too_many_urgent_messages_of_a_party_share_one_every_twenty_minutes() -> None:
    story = OutboxStory()
    for n in range(PEOPLE.party):
        story.tells(n, *story.asked(n, f"p{n}", "a", urgency="high", inferred=True))
    assert story.asked(5, "p5", "a", urgency="high", inferred=True) == []
    assert story.asked(6, "p6", "a", urgency="high", inferred=True) == []

    assert story.ticks(1 + 20 * MINUTE) == []
    (due,) = story.ticks(2 + 20 * MINUTE)

    assert len(due.items) == 2
    story.tells(3 + 20 * MINUTE, due)
    assert story.asked(40 * MINUTE, "p7", "a", urgency="high", inferred=True) == []
    assert len(story.ticks(2 + 40 * MINUTE)) == 1


def test_a_machine_takes_more_urgent_messages_than_a_person() -> None:
    hook = recipient("everyone", "hook", shared=True)
    story = OutboxStory(config({"hook": "webhook"}, recipients=(hook,)))
    for n in range(MACHINES.party):
        story.tells(n, *story.asked(n, f"p{n}", "a", urgency="high", inferred=True))
    assert story.asked(5, "p5", "a", urgency="high", inferred=True) == []

    assert story.ticks(3 + MINUTE) == []
    assert len(story.ticks(4 + MINUTE)) == 1


def test_no_more_than_five_urgent_messages_of_a_party_are_under_way() -> None:
    story = OutboxStory()
    asks = (story.asked(n * HOUR, f"p{n}", "a", urgency="high", inferred=True) for n in range(5))
    dues = [due for (due,) in asks]
    assert story.asked(5 * HOUR, "p5", "a", urgency="high", inferred=True) == []

    after = story.tells(5 * HOUR + 1, dues[0])

    assert len(after) == 1


def test_one_batch_is_under_way_and_what_comes_later_waits() -> None:
    story = OutboxStory()
    story.asks(0, "p1")
    (first,) = story.ticks(60)
    later = story.asks(70, "p2")

    assert story.ticks(HOUR) == []
    (second,) = story.tells(HOUR + 1, first)

    assert refs(second) == [later]
    assert [delivery.id for delivery in story.outbox.open()] == [second.delivery]


def test_two_batches_keep_their_distance_even_if_something_ends_soon() -> None:
    story = OutboxStory()
    story.asks(0, "p1")
    story.tells_at(60)
    story.asks(61, "p2", lasts=2 * MINUTE)

    assert story.ticks(119) == []
    assert len(story.ticks(120)) == 1


@pytest.mark.req("S3.36")
def test_what_is_below_the_least_urgency_is_only_counted() -> None:
    story = OutboxStory(config(min_urgency="normal"))
    calm = story.asks(0, "p1", urgency="low")
    assert story.ticks(60) == []
    story.asks(61, "p2")

    (due,) = story.ticks(121)

    assert (due.held_back, calm in refs(due)) == (1, False)
    story.tells(122, due)
    story.asks(123, "p3")
    assert story.ticks(183)[0].held_back == 0
    assert story.outbox.told(calm) == ()


def test_with_nobody_to_tell_nothing_happens() -> None:
    story = OutboxStory(config(recipients=()))

    story.asks(0)
    pause = Paused(at=at(1), t=1.0, agent="code", source="anomaly", by="safetyd")

    assert story.outbox.idle
    assert len(story.happens(pause, tick(60), tick(NIGHT))) == 1
    assert not OutboxStory(config(ALL)).outbox.idle
