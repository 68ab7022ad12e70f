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


def first_due(story: OutboxStory, t: float = 0, **fields: object) -> Due:
    story.asks(t, "p1", "code", **fields)
    (due,) = story.ticks(t + 60)
    return due


def state(story: OutboxStory, due: Due) -> str:
    delivery = story.outbox.find(due.delivery)
    assert delivery is not None
    return delivery.state


def test_what_a_channel_says_is_kept() -> None:
    story = OutboxStory()
    due = first_due(story)
    story.tells(61, due)
    story.tells(90, due, state="delivered")

    (delivery,) = story.outbox.deliveries()

    assert (delivery.state, delivery.provider_id, delivery.attempts) == ("delivered", "x1", 1)
    assert delivery.told_at == at(90)
    assert list(story.outbox.open()) == []
    assert list(story.outbox.deliveries("dead")) == []
    assert story.outbox.told(refs(due)[0]) == (delivery,)


@pytest.mark.parametrize("end", ["dead", "cancelled", "expired"])
def test_what_is_over_stays_over(end: str) -> None:
    story = OutboxStory()
    due = first_due(story)
    story.fails(61, due, end)

    story.tells(62, due)
    story.fails(63, due, "quiet")

    assert state(story, due) == end


def test_what_arrived_cannot_be_lost_and_what_was_only_taken_can() -> None:
    story = OutboxStory(config(BOTH))
    story.asks(0)
    mail, phone = story.ticks(60)
    story.tells(61, mail, state="delivered")
    story.tells(61, phone)

    story.fails(62, mail, "undelivered")
    story.fails(62, phone, "undelivered")

    assert (state(story, mail), state(story, phone)) == ("delivered", "undelivered")


def test_nobody_knows_of_a_message_that_nobody_knows() -> None:
    story = OutboxStory()
    due = Due(
        at=at(0),
        t=0.0,
        delivery="dlv_x",
        recipient="nobody",
        channel="mail",
        urgency="low",
        items=(requested("req_x"),),
    )

    story.happens(
        due,
        told(1, due),
        not_told(2, due),
        Unparked(at=at(3), t=3.0, by="bob", deliveries=("dlv_x",)),
    )

    assert story.outbox.find("dlv_x") is None
    assert story.outbox.revoked("dlv_x", "req_x")


def test_a_parked_message_holds_its_queue_until_it_is_tried_again() -> None:
    story = OutboxStory()
    due = first_due(story)
    story.fails(61, due, "parked")
    story.asks(70, "p2")
    assert story.ticks(HOUR) == []
    assert list(story.outbox.open()) == []

    story.happens(
        Unparked(at=at(HOUR), t=HOUR, by="bob", deliveries=(due.delivery,)),
        Unparked(at=at(HOUR), t=HOUR, by="bob", deliveries=(due.delivery,)),
    )

    assert [delivery.id for delivery in story.outbox.open()] == [due.delivery]
    assert len(story.tells(HOUR + 1, due)) == 1


def test_what_nobody_received_is_sent_again_until_somebody_does() -> None:
    story = OutboxStory()
    due = first_due(story, lasts=None)
    story.fails(61, due)
    assert story.ticks(15 * MINUTE) == []

    (second,) = story.dues(tick(61 + 15 * MINUTE), tick(61 + 16 * MINUTE))
    story.fails(61 + 16 * MINUTE, second)
    (third,) = story.dues(tick(61 + 31 * MINUTE), tick(61 + 32 * MINUTE))
    story.tells(61 + 32 * MINUTE, third)

    assert [second.items, third.items] == [(requested(refs(due)[0], n),) for n in (1, 2)]
    assert story.dues(*(tick(n * HOUR) for n in range(1, 10))) == []


@pytest.mark.req("S3.29")
def test_one_by_one_the_next_channel_is_used_when_the_first_refuses() -> None:
    story = OutboxStory(ONE_BY_ONE)
    due = first_due(story)
    assert due.channel == "mail"

    (second,) = [*story.fails(61, due), *story.ticks(62)]

    assert (second.channel, refs(second)) == ("phone", refs(due))
    assert not story.outbox.undeliverable(refs(due)[0])
    story.fails(63, second)
    assert story.outbox.undeliverable(refs(due)[0])
    assert story.ticks(5 * MINUTE) == []


def test_one_by_one_what_is_urgent_moves_on_in_the_same_step() -> None:
    story = OutboxStory(ONE_BY_ONE)
    (due,) = story.asked(0, urgency="high")

    (second,) = story.fails(1, due, "parked")

    assert (due.channel, second.channel) == ("mail", "phone")
    assert story.fails(2, due) == []


def test_one_by_one_what_waits_for_the_next_channel_is_not_put_there_twice() -> None:
    story = OutboxStory(ONE_BY_ONE)
    story.happens(announced(0, "note_x", "alert", channels=("phone",)))
    story.asks(0)
    mail, phone = story.ticks(60)
    story.fails(61, mail, "parked")

    story.fails(62, mail)

    (moved_on,) = story.tells(HOUR, phone)
    assert refs(moved_on) == refs(mail)


def test_one_by_one_a_channel_that_is_down_is_passed_over() -> None:
    story = OutboxStory(ONE_BY_ONE)
    story.happens(moved(0, "mail"))
    assert first_due(story, 1).channel == "phone"

    story.happens(moved(100, "mail", up=True))

    story.asks(101, "p2")
    assert channels(story.ticks(161)) == ["mail"]


def test_one_by_one_what_waits_or_is_under_way_leaves_a_channel_that_goes_down() -> None:
    story = OutboxStory(ONE_BY_ONE)
    due = first_due(story)
    waits = story.asks(61, "p2")
    story.happens(announced(62, "note_x", "alert", channels=("mail",)))

    dues = [*story.dues(moved(63, "mail"), moved(64, "mail")), *story.ticks(65)]

    (batch,) = [each for each in dues if each.urgency == "normal"]
    assert (batch.channel, refs(batch)) == ("phone", [refs(due)[0], "note_x", waits])
    assert all(channel != "mail" for _, channel, *_ in story.waiting())


def test_one_by_one_with_no_channel_left_it_waits_for_the_first() -> None:
    story = OutboxStory(ONE_BY_ONE)
    story.happens(moved(0, "mail"), moved(0, "phone"))

    due = first_due(story, 1)

    assert due.channel == "mail"
    assert story.outbox.undeliverable(refs(due)[0])
    story.tells(62, due)
    assert not story.outbox.undeliverable(refs(due)[0])


def test_on_all_channels_a_refusal_moves_nothing() -> None:
    story = OutboxStory(config(BOTH))
    story.asks(0)
    mail, phone = story.ticks(60)
    ref = refs(mail)[0]

    assert story.fails(61, mail) == []
    assert not story.outbox.undeliverable(ref)
    story.happens(moved(62, "phone"))
    assert story.outbox.undeliverable(ref)
    story.tells(63, phone)

    assert not story.outbox.undeliverable(ref)
    assert not story.outbox.undeliverable("req_unknown")


def test_a_channel_that_refused_once_may_take_it_later() -> None:
    story = OutboxStory()
    due = first_due(story, lasts=None)
    ref = refs(due)[0]
    story.fails(61, due)
    assert story.outbox.undeliverable(ref)

    story.tells(61 + 16 * MINUTE, *story.dues(tick(61 + 15 * MINUTE), tick(61 + 16 * MINUTE)))

    assert not story.outbox.undeliverable(ref)
    assert story.outbox.unnotified(at(DAY)) == 0


def test_what_was_answered_is_not_moved_on() -> None:
    story = OutboxStory(ONE_BY_ONE)
    due = first_due(story)
    story.answers(61, refs(due)[0])

    assert story.fails(62, due) == []
    assert story.waiting() == []


def test_only_what_is_still_pending_would_be_sent() -> None:
    story = OutboxStory()
    first, second = story.asks(0, "p1"), story.asks(1, "p2")
    (due,) = story.ticks(60)
    story.answers(61, first)
    delivery = story.outbox.find(due.delivery)
    assert delivery is not None

    assert story.outbox.pending(delivery) == (requested(second),)


def test_nobody_knew_of_it_though_somebody_should() -> None:
    story = OutboxStory()
    story.asks(0, "p1")
    (due,) = story.ticks(60)

    assert story.outbox.unnotified(at(3 * MINUTE)) == 0
    assert story.outbox.unnotified(at(3 * MINUTE + 1)) == 1
    story.tells(3 * MINUTE + 2, due)

    assert story.outbox.unnotified(at(HOUR)) == 0


def test_a_failure_is_told_on_every_other_channel() -> None:
    story = OutboxStory(config(BOTH))
    story.asks(0)
    mail, phone = story.ticks(60)
    story.tells(61, phone)
    failure = NotTold(at=at(62), t=62.0, delivery=mail.delivery, channel="mail", state="dead")

    (alarm,) = story.dues(failure)

    assert (alarm.channel, alarm.urgency) == ("phone", "high")
    note = story.outbox.note(refs(alarm)[0])
    assert note is not None
    assert note.kind == "alert"


def test_with_no_other_channel_a_failure_is_told_to_nobody() -> None:
    story = OutboxStory()
    due = first_due(story)
    failure = NotTold(at=at(62), t=62.0, delivery=due.delivery, channel="mail", state="dead")

    assert story.dues(failure) == []


def test_a_link_that_somebody_guessed_at_is_dead() -> None:
    story = OutboxStory()
    due = first_due(story)
    ref = refs(due)[0]
    assert not story.outbox.revoked(due.delivery, ref)
    fields = {"request_id": ref, "recipient": "alice", "why": "codes"}

    story.happens(
        LinkRevoked(at=at(61), t=61.0, delivery=due.delivery, **fields),  # type: ignore[arg-type]
        LinkRevoked(at=at(61), t=61.0, delivery="dlv_unknown", **fields),  # type: ignore[arg-type]
    )

    assert story.outbox.revoked(due.delivery, ref)
    assert not story.outbox.revoked(due.delivery, "req_other")


def test_an_alert_that_comes_with_an_urgent_request_is_told_once_that_is_out() -> None:
    story = OutboxStory(config(recipients=(alice(),)))
    high = story.asks(0, "p1", urgency="high")
    severe = AnomalyFound(
        at=at(1), t=1.0, rule="loop", severity="high", message="odd", agent="code"
    )

    (alarm,) = story.dues(severe)

    assert refs(alarm) != [high]
    assert alarm.urgency == "high"


@pytest.mark.parametrize(("urgency", "after"), [("normal", 60), ("high", 0)])
def test_an_alert_that_mail_refuses_goes_to_the_phone(urgency: str, after: float) -> None:
    story = OutboxStory(ONE_BY_ONE)
    note = announced(0, "note_x", "alert", urgency=urgency)
    (due,) = [*story.dues(note), *story.ticks(60)]

    found = [*story.fails(61, due), *story.ticks(61 + after)]

    assert ("phone", ["note_x"]) in [(each.channel, refs(each)) for each in found]
