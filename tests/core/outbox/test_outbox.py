"""Who is told of a request, and when: batches and urgency."""

import pytest

from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.guard_events import Paused
from safetyd.core.events.request_events import Cancelled, Superseded
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
    refs,
    requested,
)
from tests.story import at, tick


@pytest.mark.req("S3.37", "K4")
def test_requests_of_one_interval_are_one_message() -> None:
    post = OutboxStory()
    first, second = post.asks(0, "p1"), post.asks(40, "p2")

    assert post.ticks(59) == []
    (due,) = post.ticks(60)

    assert due.items == (requested(first), requested(second))
    assert (due.recipient, due.channel, due.urgency) == ("alice", "mail", "normal")
    assert due.delivery.startswith("dlv_")
    assert post.ticks(61) == []


@pytest.mark.req("S3.29")
def test_everybody_hears_on_every_channel_of_theirs_at_once() -> None:
    bob = Recipient(name="bob", channels=("phone", "gone"))
    post = OutboxStory(config(BOTH, recipients=(alice(BOTH), bob)))
    post.asks(0)

    dues = post.ticks(60)

    assert [(due.recipient, due.channel) for due in dues] == [
        ("alice", "mail"),
        ("alice", "phone"),
        ("bob", "phone"),
    ]
    assert len({due.delivery for due in dues}) == 3


def test_nobody_hears_of_an_agent_that_is_not_theirs() -> None:
    bob = Recipient(name="bob", channels=("mail",), agents=("shop-*",))
    post = OutboxStory(config(recipients=(alice(agents=("code",)), bob)))
    post.asks(0, "p1", "code")
    post.asks(0, "p2", "shop-1")
    unheard = post.asks(0, "p3", "else")

    dues = post.ticks(60)

    assert [due.recipient for due in dues] == ["alice", "bob"]
    assert not post.outbox.undeliverable(unheard)


def test_what_is_answered_before_is_not_told() -> None:
    post = OutboxStory()
    first, second = post.asks(0, "p1"), post.asks(1, "p2")
    post.answers(2, first, "denied")
    post.happens(
        Superseded(at=at(3), t=3.0, request_id=second, agent="code", by_id="p3"),
        Cancelled(at=at(3), t=3.0, request_id=second, by="bob", via="cli"),
    )

    assert post.ticks(60) == []
    assert post.waiting() == []


def test_what_joins_a_request_is_not_told_again() -> None:
    post = OutboxStory()
    ref = post.asks(0)
    post.happens(decided(1, 1, joins=True), decided(1, 1))

    (due,) = post.ticks(60)

    assert refs(due) == [ref]


@pytest.mark.req("S3.37")
def test_without_an_interval_everything_is_told_at_once() -> None:
    post = OutboxStory(config(batch_interval_s=0.0))

    (due,) = post.asked(0)
    post.tells(1, due)

    assert len(post.asked(1, "p2")) == 1


def test_a_leading_batch_begins_with_a_message() -> None:
    post = OutboxStory(config(batch_mode="leading"))

    (first,) = post.asked(0, "p1")
    assert post.asked(10, "p2") == []
    post.tells(11, first)
    post.asks(20, "p3")

    assert post.ticks(59) == []
    (second,) = post.ticks(60)
    assert len(second.items) == 2


def test_what_ends_soon_is_told_soon() -> None:
    post = OutboxStory(config(batch_interval_s=600.0))
    post.asks(0, "p1", lasts=8 * MINUTE)

    assert post.ticks(6 * MINUTE - 1) == []
    assert len(post.ticks(6 * MINUTE)) == 1


def test_what_ends_at_once_is_told_at_once() -> None:
    post = OutboxStory()

    assert len(post.asked(0, lasts=MINUTE)) == 1


def test_of_a_long_time_a_quarter_is_left_for_an_answer() -> None:
    post = OutboxStory(config(batch_interval_s=10 * HOUR, recipients=(alice(quiet=AWAKE),)))
    post.asks(0, lasts=4 * HOUR)

    assert post.ticks(3 * HOUR - 1) == []
    assert len(post.ticks(3 * HOUR)) == 1


@pytest.mark.req("S3.37")
def test_a_message_shows_twenty_things_and_the_next_one_the_rest() -> None:
    post = OutboxStory(config(recipients=(alice(agents=("*",)),)))
    asked = [post.asks(n / 10, f"p{n}", f"a{n}") for n in range(24)]
    calm = post.asks(3, "low", "b", urgency="low")

    (due,) = post.tells_at(70)
    (later,) = post.tells_at(130)

    assert (refs(due), due.more, due.left) == (asked[:20], 0, 5)
    assert (refs(later), later.more, later.left) == ([*asked[20:], calm], 0, 0)
    assert post.waiting() == []


def test_what_is_over_but_not_yet_said_to_be_is_not_told() -> None:
    post = OutboxStory(config(batch_interval_s=600.0))
    post.asks(0, "p1", lasts=2 * HOUR)
    (first,) = post.ticks(600)
    late, later = post.asks(700, "p2", lasts=HOUR), post.asks(700, "p3", lasts=DAY)

    events = post.happens(tick(700 + HOUR))
    (due,) = post.tells(700 + HOUR, first)

    assert any(event.__class__.__name__ == "Expired" for event in events)
    assert refs(due) == [later]
    assert late not in refs(due)


def test_a_lane_with_nothing_but_what_is_over_sends_nothing() -> None:
    post = OutboxStory(config(batch_interval_s=600.0))
    post.asks(0, "p1")
    (first,) = post.ticks(600)
    post.asks(700, "p2", lasts=10 * MINUTE)

    dues = post.tells(700 + 10 * MINUTE, first)

    assert dues == []


@pytest.mark.req("S3.38", "K4")
def test_what_is_urgent_is_told_in_the_same_step() -> None:
    post = OutboxStory()
    calm = post.asks(0, "p1")

    (due,) = post.asked(1, "p2", urgency="high")

    assert (due.urgency, kinds([due]), due.expires) == ("high", ["request"], at(1 + DAY))
    assert refs(due) != [calm]
    assert refs(post.ticks(60)[0]) == [calm]


def test_too_many_urgent_messages_become_one_a_minute() -> None:
    post = OutboxStory()
    for n in range(5):
        post.tells(n, *post.asked(n, f"p{n}", "a", urgency="high"))
    assert post.asked(5, "p5", "a", urgency="high") == []
    assert post.asked(6, "p6", "a", urgency="high") == []

    assert post.ticks(63) == []
    (due,) = post.ticks(64)

    assert len(due.items) == 2
    post.tells(65, due)
    assert len(post.asked(64 + 5 * MINUTE, "p7", "a", urgency="high")) == 1


def test_no_more_than_five_urgent_messages_are_under_way() -> None:
    post = OutboxStory()
    dues = [post.asked(n * 100, f"p{n}", "a", urgency="high")[0] for n in range(5)]
    assert post.asked(600, "p5", "a", urgency="high") == []

    after = post.tells(601, dues[0])

    assert len(after) == 1


def test_one_batch_is_under_way_and_what_comes_later_waits() -> None:
    post = OutboxStory()
    post.asks(0, "p1")
    (first,) = post.ticks(60)
    later = post.asks(70, "p2")

    assert post.ticks(HOUR) == []
    (second,) = post.tells(HOUR + 1, first)

    assert refs(second) == [later]
    assert [delivery.id for delivery in post.outbox.open()] == [second.delivery]


def test_two_batches_keep_their_distance_even_if_something_ends_soon() -> None:
    post = OutboxStory()
    post.asks(0, "p1")
    post.tells_at(60)
    post.asks(61, "p2", lasts=2 * MINUTE)

    assert post.ticks(119) == []
    assert len(post.ticks(120)) == 1


@pytest.mark.req("S3.36")
def test_what_is_below_the_least_urgency_is_only_counted() -> None:
    post = OutboxStory(config(min_urgency="normal"))
    calm = post.asks(0, "p1", urgency="low")
    assert post.ticks(60) == []
    post.asks(61, "p2")

    (due,) = post.ticks(121)

    assert (due.held_back, calm in refs(due)) == (1, False)
    post.tells(122, due)
    post.asks(123, "p3")
    assert post.ticks(183)[0].held_back == 0
    assert post.outbox.told(calm) == ()


@pytest.mark.parametrize("step_s", [-HOUR, HOUR])
def test_a_clock_that_is_put_back_or_forward_holds_nothing_up(step_s: float) -> None:
    post = OutboxStory(config(BOTH))
    urgent = post.asks(0, "p1", urgency="high")
    post.answers(1, urgent)
    post.asks(1, "p2")
    stepped = ClockStepped(at=at(2 + step_s), t=2.0, seconds=step_s)
    post.happens(stepped)

    assert post.ticks(60 + step_s) == []
    assert len(post.ticks(61 + step_s)) == 2


def test_a_clock_that_is_put_back_after_a_message_keeps_the_distance() -> None:
    post = OutboxStory()
    post.asks(0, "p1")
    post.tells_at(60)
    post.happens(ClockStepped(at=at(61 - HOUR), t=61.0, seconds=-HOUR))
    post.asks(62 - HOUR, "p2")

    assert post.ticks(121 - HOUR) == []
    assert len(post.ticks(122 - HOUR)) == 1


def test_with_nobody_to_tell_nothing_happens() -> None:
    post = OutboxStory(config(recipients=()))

    post.asks(0)
    pause = Paused(at=at(1), t=1.0, agent="code", source="anomaly", by="safetyd")

    assert post.outbox.idle
    assert len(post.happens(pause, tick(60), tick(NIGHT))) == 1
    assert not OutboxStory(config(ALL)).outbox.idle
