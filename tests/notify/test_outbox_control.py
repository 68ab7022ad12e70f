"""What operators ask of the notifier, over a real engine and its outbox."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from safetyd.core.events.notification_events import ChannelMoved, NotTold, Unparked
from safetyd.core.recipients import QuietHours, Recipient
from safetyd.notify.channel import Limits
from safetyd.notify.outbox_control import OutboxControl
from safetyd.operators.contract.notification_contract import (
    DropCommand,
    LinkCommand,
    OutboxQuestion,
    RetryCommand,
    TestCommand,
)
from safetyd.operators.replies import CommandRefused
from tests.notify.compose_rig import AWAKE, ComposeRig, telling
from tests.notify.delivery.fake_channel import FakeChannel, Word
from tests.operators.views.view_reader import plain
from tests.story import at

NIGHT = 11 * 3600.0  # after noon
BOTH = (
    Recipient(name="alice", channels=("email", "sms"), quiet=AWAKE, backup="bob"),
    Recipient(name="bob", channels=("email",), quiet=QuietHours(), agents=("ops*",)),
)


def channel(*words: Word, name: str = "email") -> FakeChannel:
    return FakeChannel(*words, limits=Limits(deadline_s=5.0, delays_s=(100.0,)), name=name)


class Counter:
    """Where operators give their orders."""

    def __init__(self, wired: ComposeRig | None = None) -> None:
        self.wired = wired or ComposeRig(telling("email", "sms", recipients=BOTH))
        self.opened: dict[str, datetime] = {}
        self.control = OutboxControl(self.wired.dispatch, self.opened.get, self.wired.links.link)

    def test(self, *channels: str, recipients: tuple[str, ...] = ()) -> Mapping[str, Any]:
        command = TestCommand(channels=channels, recipients=recipients)
        return plain(self.wired.does(self.control.test("carol", command)).answer)

    def retry(self, **named: str) -> Mapping[str, Any]:
        return plain(self.wired.does(self.control.retry("carol", RetryCommand(**named))).answer)

    def drop(self, id_: str) -> Mapping[str, Any]:
        return plain(self.wired.does(self.control.drop("carol", DropCommand(id=id_))).answer)

    def link(self, delivery: str) -> Mapping[str, Any]:
        return plain(
            self.wired.does(self.control.link("carol", LinkCommand(delivery=delivery))).answer
        )

    def outbox(self, **asked: Any) -> dict[str, Any]:
        view = self.control.outbox(
            self.wired.engine, self.wired.clock.now(), OutboxQuestion(**asked)
        )
        return plain(view)

    def channels(self) -> dict[str, Any]:
        return plain(self.control.channels(self.wired.engine, self.wired.clock.now()))


def lanes(answer: Mapping[str, Any]) -> list[str]:
    return [f"{lane['recipient']} {lane['channel']}" for lane in answer["lanes"]]


async def test_a_test_goes_to_everybody_on_every_channel_at_once() -> None:
    counter = Counter()
    mail, sms = channel(), channel(name="sms")
    counter.wired.clock.t = NIGHT

    async with counter.wired.at_work(email=mail, sms=sms):
        answer = counter.test()
        await counter.wired.rest()

    assert lanes(answer) == ["alice email", "alice sms", "bob email"]
    assert {(n.recipient, n.channel) for n in (*mail.arrived, *sms.arrived)} == {
        ("alice", "email"),
        ("alice", "sms"),
        ("bob", "email"),
    }
    (row, *_) = counter.outbox(ref=answer["note"])["deliveries"]
    assert (row["state"], row["kinds"], row["took_s"]) == ("accepted", ["test"], 0.0)


@pytest.mark.parametrize(
    ("channels", "recipients", "told"),
    [
        (("sms",), (), ["alice sms"]),
        ((), ("bob",), ["bob email"]),
        (("email",), ("alice",), ["alice email"]),
    ],
)
def test_a_test_goes_only_to_those_who_are_named(
    channels: tuple[str, ...], recipients: tuple[str, ...], told: list[str]
) -> None:
    counter = Counter()

    answer = counter.test(*channels, recipients=recipients)

    rows = counter.outbox(ref=answer["note"])["deliveries"]
    assert lanes(answer) == told
    assert [f"{row['recipient']} {row['channel']}" for row in rows] == told


def test_a_test_of_what_is_not_configured_is_refused_and_names_what_is() -> None:
    nobody = Counter(ComposeRig(telling(recipients=())))

    unknown = Counter().test("fax", recipients=("dave",))

    assert unknown["code"] == "no_channel"
    assert all(name in unknown["error"] for name in ("fax dave", "email, sms", "alice, bob"))
    assert nobody.test()["error"].startswith("no channel is configured: see `safetyd docs notif")


async def test_a_retry_of_a_channel_tries_all_that_it_parked() -> None:
    counter = Counter(ComposeRig())
    mail = channel("locked", "takes")

    async with counter.wired.at_work(email=mail):
        delivery = counter.wired.due()
        await counter.wired.rest()
        parked = delivery.state
        answer = counter.retry(channel="email")
        await counter.wired.rest()

    (unparked,) = counter.wired.journalled(Unparked)
    assert isinstance(unparked, Unparked)
    assert (parked, delivery.state) == ("parked", "accepted")
    assert answer == {"ok": True, "retried": 1}
    assert (unparked.deliveries, unparked.by) == ((delivery.id,), "carol")


async def test_a_retry_of_one_message_does_not_wait_for_its_time() -> None:
    counter = Counter(ComposeRig())
    mail = channel("refuses", "takes")

    async with counter.wired.at_work(email=mail):
        delivery = counter.wired.due()
        await counter.wired.rest()
        answer = counter.retry(id=delivery.id)
        await counter.wired.rest()

    assert answer == {"ok": True, "retried": 1}
    assert delivery.state == "accepted"
    assert counter.wired.journalled(Unparked) == []


def test_a_retry_of_a_channel_where_nothing_waits_tries_nothing() -> None:
    assert Counter().retry(channel="email") == {"ok": True, "retried": 0}


@pytest.mark.parametrize("named", [{}, {"id": "dlv_1", "channel": "email"}])
def test_a_retry_names_one_message_or_one_channel(named: dict[str, str]) -> None:
    with pytest.raises(CommandRefused, match="a message or a channel"):
        Counter().retry(**named)


async def test_what_is_dropped_is_cancelled_and_nobody_is_alarmed() -> None:
    counter = Counter(ComposeRig())
    mail = channel("refuses", "takes")

    async with counter.wired.at_work(email=mail):
        delivery = counter.wired.due()
        await counter.wired.rest()
        answer = counter.drop(delivery.id)
        await counter.wired.later(200)

    (dropped,) = counter.wired.journalled(NotTold)
    assert isinstance(dropped, NotTold)
    assert answer == {"ok": True, "id": delivery.id}
    assert (dropped.state, dropped.by) == ("cancelled", "carol")
    assert len(mail.tried) == 1


def test_what_waits_no_more_can_be_neither_tried_nor_dropped() -> None:
    counter = Counter(ComposeRig())
    delivery = counter.wired.due()
    counter.drop(delivery.id)

    answers = [
        counter.retry(id=delivery.id),
        counter.drop(delivery.id),
        counter.drop("dlv_none"),
    ]

    assert [answer["code"] for answer in answers] == ["not_found"] * 3
    assert "dlv_none" in answers[2]["error"]
    assert "`safetyd notify outbox`" in answers[2]["error"]


def test_the_page_of_a_message_is_that_of_its_one_request_or_the_list() -> None:
    counter = Counter(ComposeRig())
    one = counter.wired.notes(id="n")
    counter.wired.asks("p1")
    counter.wired.asks("p2", text="git push two")
    (many,) = counter.wired.passes()

    assert counter.link(one.id)["link"] == f"https://safety.example.com/d/{one.id}/n/alice"
    assert counter.link(many.id)["link"] == f"https://safety.example.com/d/{many.id}//alice"
    assert counter.link("dlv_none")["code"] == "not_found"


def test_the_outbox_lists_messages_newest_first_and_what_waits_to_become_one() -> None:
    counter = Counter(ComposeRig())
    first, second = counter.wired.due("p1"), counter.wired.notes(id="n", text="look")
    counter.wired.asks("p3", text="git push later")
    counter.opened[second.id] = at(99)

    view = counter.outbox()

    rows = view["deliveries"]
    assert [row["id"] for row in rows] == [second.id, first.id]
    assert (rows[0]["kinds"], rows[0]["refs"], rows[0]["items"]) == (["alert"], ["n"], 1)
    assert (rows[0]["opened_at"], rows[1]["opened_at"]) == ("2026-03-01T12:01:39Z", None)
    assert (rows[1]["state"], rows[1]["told_at"], rows[1]["took_s"]) == ("open", None, None)
    (waiting,) = view["waiting"]
    assert (waiting["recipient"], waiting["channel"], waiting["items"]) == ("alice", "email", 1)
    assert view["unnotified"] == 0


@pytest.mark.parametrize(
    ("word", "error"), [("refuses", "come back later"), ("holds", ""), ("locked", "")]
)
async def test_the_outbox_says_why_a_message_is_not_sent_yet(word: Word, error: str) -> None:
    counter = Counter(ComposeRig())
    mail = channel(word)

    async with counter.wired.at_work(email=mail):
        delivery = counter.wired.due()
        await mail.until_tried(1)
        counter.wired.write()
        (row,) = counter.outbox(state="open")["deliveries"] or [{"error": ""}]

    assert row["error"] == error
    assert delivery.state == ("parked" if word == "locked" else "open")


async def test_a_test_is_tried_though_its_channel_takes_nothing() -> None:
    counter = Counter(ComposeRig())
    mail = channel("locked", "locked", "takes")

    async with counter.wired.at_work(email=mail):
        counter.wired.due()
        await counter.wired.rest()
        states = []
        for _ in range(2):
            note = counter.test()["note"]
            await counter.wired.rest()
            (row,) = counter.outbox(ref=note)["deliveries"]
            states.append((row["state"], row["error"]))

    assert states == [("parked", "the login was refused"), ("accepted", "")]


def test_the_outbox_can_be_asked_for_one_state_one_request_or_a_few() -> None:
    counter = Counter(ComposeRig())
    alerts = [counter.wired.notes(id=f"n{n}") for n in range(3)]
    counter.drop(alerts[0].id)

    assert [row["id"] for row in counter.outbox(state="cancelled")["deliveries"]] == [alerts[0].id]
    assert [row["id"] for row in counter.outbox(ref="n1")["deliveries"]] == [alerts[1].id]
    assert [row["id"] for row in counter.outbox(limit=1)["deliveries"]] == [alerts[2].id]


def test_the_outbox_counts_requests_that_nobody_was_told_of() -> None:
    counter = Counter(ComposeRig())
    counter.wired.due()
    counter.wired.clock.t += 600

    assert counter.outbox()["unnotified"] == 1


@pytest.mark.req("S3.29")
async def test_channels_say_how_they_are_and_whom_they_reach() -> None:
    counter = Counter()
    moved = ChannelMoved(at=at(0), t=0.0, channel="sms", up=False, why="no login")
    counter.wired.happens(moved)
    counter.wired.clock.t = NIGHT

    async with counter.wired.at_work(email=channel(), sms=channel(name="sms")):
        view = counter.channels()

    email, sms = view["channels"]
    alice, bob = view["recipients"]
    assert (email["name"], email["kind"], email["up"]) == ("email", "email", True)
    assert (sms["name"], sms["kind"], sms["up"]) == ("sms", "sms", False)
    assert (alice["channels"], alice["backup"]) == (["email", "sms"], "bob")
    assert (alice["quiet_until"], alice["agents"]) == (None, ["*"])
    assert (bob["quiet"], bob["timezone"]) == ("23:00-07:00", "UTC")
    assert (bob["quiet_until"], bob["agents"]) == ("2026-03-02T07:00:00Z", ["ops*"])
