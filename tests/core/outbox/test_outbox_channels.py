"""What channels report, and what follows from it."""

import pytest

from safetyd.core.events.guard_events import AnomalyFound
from safetyd.core.events.notification_events import Due, LinkRevoked, NotTold, Unparked
from tests.core.outbox.outbox_story import (
    BOTH,
    DAY,
    HOUR,
    MINUTE,
    OutboxStory,
    alice,
    announced,
    channels,
    config,
    moved,
    not_told,
    refs,
    requested,
    told,
)
from tests.story import at, tick

ONE_BY_ONE = config(BOTH, strategy="sequential")


def first_due(post: OutboxStory, t: float = 0, **fields: object) -> Due:
    post.asks(t, "p1", "code", **fields)
    (due,) = post.ticks(t + 60)
    return due


def state(post: OutboxStory, due: Due) -> str:
    delivery = post.outbox.find(due.delivery)
    assert delivery is not None
    return delivery.state


def test_what_a_channel_says_is_kept() -> None:
    post = OutboxStory()
    due = first_due(post)
    post.tells(61, due)
    post.tells(90, due, state="delivered")

    (delivery,) = post.outbox.deliveries()

    assert (delivery.state, delivery.provider_id, delivery.attempts) == ("delivered", "x1", 1)
    assert delivery.told_at == at(90)
    assert list(post.outbox.open()) == []
    assert list(post.outbox.deliveries("dead")) == []
    assert post.outbox.told(refs(due)[0]) == (delivery,)


@pytest.mark.parametrize("end", ["dead", "cancelled", "expired"])
def test_what_is_over_stays_over(end: str) -> None:
    post = OutboxStory()
    due = first_due(post)
    post.fails(61, due, end)

    post.tells(62, due)
    post.fails(63, due, "quiet")

    assert state(post, due) == end


def test_what_arrived_cannot_be_lost_and_what_was_only_taken_can() -> None:
    post = OutboxStory(config(BOTH))
    post.asks(0)
    mail, phone = post.ticks(60)
    post.tells(61, mail, state="delivered")
    post.tells(61, phone)

    post.fails(62, mail, "undelivered")
    post.fails(62, phone, "undelivered")

    assert (state(post, mail), state(post, phone)) == ("delivered", "undelivered")


def test_nobody_knows_of_a_message_that_nobody_knows() -> None:
    post = OutboxStory()
    due = Due(
        at=at(0),
        t=0.0,
        delivery="dlv_x",
        recipient="nobody",
        channel="mail",
        urgency="low",
        items=(requested("req_x"),),
    )

    post.happens(
        due,
        told(1, due),
        not_told(2, due),
        Unparked(at=at(3), t=3.0, by="bob", deliveries=("dlv_x",)),
    )

    assert post.outbox.find("dlv_x") is None
    assert post.outbox.revoked("dlv_x", "req_x")


def test_a_parked_message_holds_its_lane_until_it_is_tried_again() -> None:
    post = OutboxStory()
    due = first_due(post)
    post.fails(61, due, "parked")
    post.asks(70, "p2")
    assert post.ticks(HOUR) == []
    assert list(post.outbox.open()) == []

    post.happens(
        Unparked(at=at(HOUR), t=HOUR, by="bob", deliveries=(due.delivery,)),
        Unparked(at=at(HOUR), t=HOUR, by="bob", deliveries=(due.delivery,)),
    )

    assert [delivery.id for delivery in post.outbox.open()] == [due.delivery]
    assert len(post.tells(HOUR + 1, due)) == 1


def test_what_was_given_up_is_told_again_by_the_next_reminder() -> None:
    post = OutboxStory()
    due = first_due(post, lasts=None)
    post.fails(61, due)
    assert post.ticks(10 * MINUTE) == []

    post.happens(tick(15 * MINUTE))

    assert post.ticks(16 * MINUTE)[0].items == (requested(refs(due)[0], 1),)


@pytest.mark.req("S3.29")
def test_one_by_one_the_next_channel_is_used_when_the_first_refuses() -> None:
    post = OutboxStory(ONE_BY_ONE)
    due = first_due(post)
    assert due.channel == "mail"

    (second,) = [*post.fails(61, due), *post.ticks(62)]

    assert (second.channel, refs(second)) == ("phone", refs(due))
    assert not post.outbox.undeliverable(refs(due)[0])
    post.fails(63, second)
    assert post.outbox.undeliverable(refs(due)[0])
    assert post.ticks(5 * MINUTE) == []


def test_one_by_one_what_is_urgent_moves_on_in_the_same_step() -> None:
    post = OutboxStory(ONE_BY_ONE)
    (due,) = post.asked(0, urgency="high")

    (second,) = post.fails(1, due, "parked")

    assert (due.channel, second.channel) == ("mail", "phone")
    assert post.fails(2, due) == []


def test_one_by_one_what_waits_for_the_next_channel_is_not_put_there_twice() -> None:
    post = OutboxStory(ONE_BY_ONE)
    post.happens(announced(0, "note_x", "alert", channels=("phone",)))
    post.asks(0)
    mail, phone = post.ticks(60)
    post.fails(61, mail, "parked")

    post.fails(62, mail)

    (moved_on,) = post.tells(HOUR, phone)
    assert refs(moved_on) == refs(mail)


def test_one_by_one_a_channel_that_is_down_is_passed_over() -> None:
    post = OutboxStory(ONE_BY_ONE)
    post.happens(moved(0, "mail"))
    assert first_due(post, 1).channel == "phone"

    post.happens(moved(100, "mail", up=True))

    post.asks(101, "p2")
    assert channels(post.ticks(161)) == ["mail"]


def test_one_by_one_what_waits_or_is_under_way_leaves_a_channel_that_goes_down() -> None:
    post = OutboxStory(ONE_BY_ONE)
    due = first_due(post)
    waits = post.asks(61, "p2")
    post.happens(announced(62, "note_x", "alert"))

    dues = [*post.dues(moved(63, "mail"), moved(64, "mail")), *post.ticks(65)]

    (batch,) = [each for each in dues if each.urgency == "normal"]
    assert (batch.channel, refs(batch)) == ("phone", [refs(due)[0], "note_x", waits])
    assert ("alice", "mail", 1) in [row[:3] for row in post.waiting()]


def test_one_by_one_with_no_channel_left_it_waits_for_the_first() -> None:
    post = OutboxStory(ONE_BY_ONE)
    post.happens(moved(0, "mail"), moved(0, "phone"))

    due = first_due(post, 1)

    assert due.channel == "mail"
    assert post.outbox.undeliverable(refs(due)[0])
    post.tells(62, due)
    assert not post.outbox.undeliverable(refs(due)[0])


def test_on_all_channels_a_refusal_moves_nothing() -> None:
    post = OutboxStory(config(BOTH))
    post.asks(0)
    mail, phone = post.ticks(60)
    ref = refs(mail)[0]

    assert post.fails(61, mail) == []
    assert not post.outbox.undeliverable(ref)
    post.happens(moved(62, "phone"))
    assert post.outbox.undeliverable(ref)
    post.tells(63, phone)

    assert not post.outbox.undeliverable(ref)
    assert not post.outbox.undeliverable("req_unknown")


def test_a_channel_that_refused_once_may_take_it_later() -> None:
    post = OutboxStory()
    due = first_due(post, lasts=None)
    ref = refs(due)[0]
    post.fails(61, due)
    assert post.outbox.undeliverable(ref)

    post.happens(tick(15 * MINUTE))
    post.tells_at(16 * MINUTE)

    assert not post.outbox.undeliverable(ref)
    assert post.outbox.unnotified(at(DAY)) == 0


def test_what_was_answered_is_not_moved_on() -> None:
    post = OutboxStory(ONE_BY_ONE)
    due = first_due(post)
    post.answers(61, refs(due)[0])

    assert post.fails(62, due) == []
    assert post.waiting() == []


def test_only_what_is_still_pending_would_be_sent() -> None:
    post = OutboxStory()
    first, second = post.asks(0, "p1"), post.asks(1, "p2")
    (due,) = post.ticks(60)
    post.answers(61, first)
    delivery = post.outbox.find(due.delivery)
    assert delivery is not None

    assert post.outbox.pending(delivery) == (requested(second),)


def test_nobody_knew_of_it_though_somebody_should() -> None:
    post = OutboxStory()
    post.asks(0, "p1")
    (due,) = post.ticks(60)

    assert post.outbox.unnotified(at(3 * MINUTE)) == 0
    assert post.outbox.unnotified(at(3 * MINUTE + 1)) == 1
    post.tells(3 * MINUTE + 2, due)

    assert post.outbox.unnotified(at(HOUR)) == 0


def test_a_failure_is_told_on_every_other_channel() -> None:
    post = OutboxStory(config(BOTH))
    post.asks(0)
    mail, phone = post.ticks(60)
    post.tells(61, phone)
    failure = NotTold(at=at(62), t=62.0, delivery=mail.delivery, channel="mail", state="dead")

    (alarm,) = post.dues(failure)

    assert (alarm.channel, alarm.urgency) == ("phone", "high")
    note = post.outbox.note(refs(alarm)[0])
    assert note is not None
    assert note.kind == "alert"


def test_with_no_other_channel_a_failure_is_told_to_nobody() -> None:
    post = OutboxStory()
    due = first_due(post)
    failure = NotTold(at=at(62), t=62.0, delivery=due.delivery, channel="mail", state="dead")

    assert post.dues(failure) == []


def test_a_link_that_somebody_guessed_at_is_dead() -> None:
    post = OutboxStory()
    due = first_due(post)
    ref = refs(due)[0]
    assert not post.outbox.revoked(due.delivery, ref)
    fields = {"request_id": ref, "recipient": "alice", "why": "codes"}

    post.happens(
        LinkRevoked(at=at(61), t=61.0, delivery=due.delivery, **fields),  # type: ignore[arg-type]
        LinkRevoked(at=at(61), t=61.0, delivery="dlv_unknown", **fields),  # type: ignore[arg-type]
    )

    assert post.outbox.revoked(due.delivery, ref)
    assert not post.outbox.revoked(due.delivery, "req_other")


def test_an_alert_that_comes_with_an_urgent_request_is_told_once_that_is_out() -> None:
    post = OutboxStory(config(recipients=(alice(),)))
    high = post.asks(0, "p1", urgency="high")
    severe = AnomalyFound(
        at=at(1), t=1.0, rule="loop", severity="high", message="odd", agent="code"
    )

    (alarm,) = post.dues(severe)

    assert refs(alarm) != [high]
    assert alarm.urgency == "high"
