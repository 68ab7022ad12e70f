"""From the journal to channels and back, with a clock that only a test moves."""

import logging
from collections.abc import Sequence

import anyio
import pytest

from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import ChannelMoved, Due, NotTold, Told
from safetyd.core.recipients import QuietHours
from safetyd.notify.channel import Limits
from safetyd.notify.compose import Destination
from tests.notify.compose_rig import ComposeRig, telling
from tests.notify.delivery.fake_channel import FakeChannel, Word
from tests.servers import until

NIGHT = 11 * 3600.0  # after noon


def channel(*words: Word, name: str = "email", **limits: object) -> FakeChannel:
    given = {"deadline_s": 5.0, "delays_s": (100.0,), **limits}
    return FakeChannel(*words, limits=Limits(**given), name=name)  # type: ignore[arg-type]


def ends(wired: ComposeRig) -> list[tuple[str, str, int]]:
    """Return what was journalled about messages."""
    return [
        (event.channel, event.state, event.attempts)
        for event in wired.queue.journal
        if isinstance(event, Told | NotTold)
    ]


@pytest.mark.req("K4")
async def test_what_is_due_is_told_and_that_is_journalled() -> None:
    wired, mail = ComposeRig(), channel()

    async with wired.at_work(email=mail):
        delivery = wired.due()
        await wired.rest()

    (notice,) = mail.arrived
    (told,) = wired.journalled(Told)
    assert isinstance(told, Told)
    assert (notice.delivery, notice.again, notice.address) == (delivery.id, False, "alice@email")
    assert (told.delivery, told.state, told.provider_id) == (delivery.id, "accepted", "number 1")
    assert delivery.state == "accepted"


@pytest.mark.req("S3.29")
async def test_every_channel_of_somebody_is_told_though_one_hangs() -> None:
    wired = ComposeRig(telling("email", "sms", "room"))
    mail, sms, room = channel("holds"), channel(name="sms"), channel(name="room")

    async with wired.at_work(email=mail, sms=sms, room=room):
        wired.asks()
        wired.passes()
        await until(lambda: sms.arrived and room.arrived and mail.under_way)

        assert not mail.arrived
        mail.released.set()
        await wired.rest()

    assert {entry[:2] for entry in ends(wired)} == {
        ("email", "accepted"),
        ("sms", "accepted"),
        ("room", "accepted"),
    }


async def test_what_was_answered_while_it_waited_for_a_retry_is_cancelled() -> None:
    wired, mail = ComposeRig(), channel("refuses")

    async with wired.at_work(email=mail):
        delivery = wired.due()
        await wired.rest()
        wired.answers(delivery.items[0].ref)
        await wired.later(200)

    assert len(mail.tried) == 1
    assert ends(wired) == [("email", "cancelled", 1)]


async def test_quiet_hours_that_begin_during_retries_make_it_part_of_the_mornings_digest() -> None:
    wired, mail = ComposeRig(telling("email", quiet=QuietHours())), channel("refuses", "takes")
    wired.clock.t = NIGHT - 90

    async with wired.at_work(email=mail):
        delivery = wired.due()
        await wired.later(200)
        (digest,) = wired.passes(8 * 3600 + 60)
        await wired.rest()

    assert ends(wired) == [("email", "quiet", 1), ("email", "accepted", 1)]
    assert digest.digest
    assert digest.items == delivery.items
    assert digest.id != delivery.id


async def test_a_message_that_ran_out_of_time_is_reported_expired() -> None:
    wired, mail = ComposeRig(), channel("refuses")

    async with wired.at_work(email=mail):
        wired.due(timeout_s=600)
        await wired.later(700)

    assert ends(wired) == [("email", "expired", 1)]


async def test_a_refused_message_is_dead_and_a_locked_channel_parks_it_and_is_down() -> None:
    wired = ComposeRig(telling("email", "sms"))
    rejecting, locked = channel("rejects"), channel("locked", name="sms")

    async with wired.at_work(email=rejecting, sms=locked):
        wired.asks()
        wired.passes()
        await wired.rest()

    (moved,) = wired.journalled(ChannelMoved)
    assert isinstance(moved, ChannelMoved)
    assert set(ends(wired)) >= {("email", "dead", 1), ("sms", "parked", 1)}
    assert (moved.channel, moved.up, moved.why) == ("sms", False, "the login was refused")


async def test_after_a_restart_what_nobody_reported_on_is_sent_again_with_the_same_id() -> None:
    wired, first, second = ComposeRig(), channel("holds"), channel()

    async with wired.at_work(email=first):
        delivery = wired.due()
        await first.until_tried(1)
    again = ComposeRig(telling())
    again.engine.replay(wired.queue.journal)
    again.clock.t = wired.clock.t
    async with again.at_work(email=second):
        await again.rest()

    (notice,) = second.arrived
    assert (notice.delivery, notice.again) == (delivery.id, True)
    assert first.closed
    assert again.delivery(delivery.id).state == "accepted"


async def test_what_is_due_before_channels_are_open_is_told_once_they_are() -> None:
    wired, mail = ComposeRig(), channel()
    wired.due()

    async with wired.at_work(email=mail):
        await wired.rest()

    assert [notice.again for notice in mail.arrived] == [False]


@pytest.mark.parametrize(("word", "again"), [("refuses", False), ("holds", True)])
async def test_renewing_marks_as_sent_before_only_what_may_have_arrived(
    word: Word,
    again: bool,  # noqa: FBT001
) -> None:
    wired, old, new = ComposeRig(), channel(word), channel()

    async with wired.at_work(email=old):
        wired.due()
        await old.until_tried(1)
        if word == "refuses":
            await until(lambda: wired.dispatch.states()[0].under_way == 0)
        wired.channels = {"email": new}
        wired.dispatch.renew()
        await new.until_tried(1)
        await wired.rest()

    assert [notice.again for notice in new.arrived] == [again]


async def test_renewing_closes_the_old_channels_and_tells_on_the_new_ones() -> None:
    wired, old, new = ComposeRig(), channel("holds"), channel()

    async with wired.at_work(email=old):
        delivery = wired.due()
        await old.until_tried(1)
        wired.channels = {"email": new}
        wired.dispatch.renew()
        await new.until_tried(1)
        await wired.rest()

    assert old.closed
    assert [notice.delivery for notice in new.arrived] == [delivery.id]
    assert wired.opened == 2


async def test_what_is_due_on_a_channel_that_is_about_to_open_waits_for_it() -> None:
    wired = ComposeRig(telling("email", "sms"))
    mail, sms = channel(), channel(name="sms")

    async with wired.at_work(email=mail):
        wired.asks()
        wired.passes()
        await wired.rest()
        before = ends(wired)
        wired.channels = {"email": mail, "sms": sms}
        wired.dispatch.renew()
        await sms.until_tried(1)
        await wired.rest()

    assert before == [("email", "accepted", 1)]
    assert ends(wired)[1:] == [("sms", "accepted", 1)]


async def test_a_channel_that_was_down_is_known_to_be_up_once_it_takes_a_message() -> None:
    wired, mail = ComposeRig(), channel()
    wired.happens(ChannelMoved(at=wired.at, t=wired.clock.t, channel="email", up=False))

    async with wired.at_work(email=mail):
        down = wired.dispatch.states()[0].up
        wired.notes(kind="test", urgency="normal")
        await wired.rest()

        assert (down, wired.dispatch.states()[0].up) == (False, True)
    moves = wired.journalled(ChannelMoved)
    assert [event.up for event in moves if isinstance(event, ChannelMoved)] == [False, True]


async def test_a_retry_tries_what_waits_at_once() -> None:
    wired, mail = ComposeRig(), channel("refuses", "takes")

    async with wired.at_work(email=mail):
        delivery = wired.due()
        await wired.rest()
        wired.dispatch.retry([delivery])
        await wired.rest()

    assert ends(wired) == [("email", "accepted", 2)]


async def test_what_is_dropped_is_not_tried_again() -> None:
    wired, mail = ComposeRig(), channel("refuses", "takes")

    async with wired.at_work(email=mail):
        delivery = wired.due()
        await wired.rest()
        wired.dispatch.drop(delivery)
        await wired.later(200)

        assert wired.dispatch.states()[0].waiting_normal == 0
    assert len(mail.tried) == 1


def test_dropping_and_retrying_before_anything_is_open_does_nothing() -> None:
    wired = ComposeRig()
    delivery = wired.due()

    wired.dispatch.drop(delivery)
    wired.dispatch.retry([delivery])

    assert delivery.state == "open"


async def test_a_channel_works_while_it_is_open_and_sees_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("safetyd.notify.delivery.dispatch.RESTART_S", 0.01)
    wired, first, second = ComposeRig(), Working(), Working()

    async with wired.at_work(email=first):
        await until(lambda: first.running == 2)  # it failed once, and was begun again
        wired.asks()
        first.words = ["locked", "takes"]
        wired.passes()
        await wired.rest()
        wired.channels = {"email": second}
        wired.dispatch.recover({"email"})
        await until(lambda: second.running == 2)

    assert first.stopped == second.stopped == 1
    assert any(isinstance(event, Due) for event in first.seen)


async def test_a_message_that_cannot_be_put_into_words_is_dead_and_others_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wired, mail = ComposeRig(telling("email", "sms")), channel()

    def box(recipient: str, name: str) -> Destination:
        if name == "sms":
            raise LookupError(name)
        return Destination()

    wired.composer._destination = box
    with caplog.at_level(logging.CRITICAL):
        async with wired.at_work(email=mail, sms=channel(name="sms")):
            wired.asks()
            wired.passes()
            await wired.rest()

    assert sorted(ends(wired)) == [
        ("email", "accepted", 1),
        ("email", "accepted", 1),
        ("sms", "dead", 0),
    ]
    assert [card.kind for notice in mail.arrived for card in notice.cards] == [
        "request",
        "alert",
    ]


async def test_an_end_lets_what_is_due_be_tried_within_its_grace() -> None:
    wired, mail = ComposeRig(), channel("holds")

    async with wired.at_work(email=mail):
        wired.due()
        with anyio.fail_after(5):
            await wired.dispatch.finish(0.05)

        assert len(mail.tried) == 1
    assert ends(wired) == []


async def test_a_channel_that_does_not_close_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("safetyd.notify.delivery.dispatch.CLOSE_S", 0.05)
    wired, mail, sms = ComposeRig(telling("email", "sms")), Stuck(), channel(name="sms")

    with anyio.fail_after(5):
        async with wired.at_work(email=mail, sms=sms):
            pass

    assert sms.closed


def test_events_of_others_hand_nothing_over() -> None:
    wired = ComposeRig()
    gone = Due(
        at=wired.at,
        t=wired.clock.t,
        delivery="dlv_gone",
        recipient="bob",
        channel="fax",
        urgency="low",
        items=(),
    )

    wired.dispatch.observe([gone])

    assert not len(wired.mailbox)


class Stuck(FakeChannel):
    def __init__(self) -> None:
        super().__init__(limits=Limits(deadline_s=1.0), name="email")

    async def close(self) -> None:
        await anyio.sleep_forever()


class Working(FakeChannel):
    """Counts how often its work was begun and cancelled; it fails the first time."""

    def __init__(self) -> None:
        super().__init__(limits=Limits(deadline_s=1.0), name="email")
        self.running = self.stopped = 0
        self.seen: list[Event] = []

    async def run(self) -> None:
        self.running += 1
        if self.running == 1:
            raise LookupError("its words may be secret")
        try:
            await anyio.sleep_forever()
        finally:
            self.stopped += 1

    def observe(self, events: Sequence[Event]) -> None:
        self.seen += events
        raise LookupError("and the daemon goes on")
