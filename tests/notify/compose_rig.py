"""An engine, its outbox and the parts that make messages of it, at a time that a test sets."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Literal, TypeVar

import anyio
import msgspec

from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import Announced, Due, Note
from safetyd.core.messages.proposal import Risk
from safetyd.core.outbox.deliveries import Delivery
from safetyd.core.policy import Policy
from safetyd.core.recipients import CalmConfig, ChannelKind, QuietHours, Recipient
from safetyd.core.recipients import TellingConfig as Telling
from safetyd.journal.mailbox import Carried, Mailbox, Plan
from safetyd.notify.channel import Channel
from safetyd.notify.compose import Composer, Destination
from safetyd.notify.delivery.dispatch import Dispatch
from safetyd.notify.message import Notice, Privacy
from tests.captured_connection import work_off
from tests.core.approvals.queue_story import QueueStory
from tests.servers import until
from tests.story import at, tick
from tests.web.link_site import HandClock

AWAKE = QuietHours(start="00:00", end="00:00")
BATCH_S = 60.0
PATIENCE_S = 5.0

T = TypeVar("T")


def telling(*channels: str, quiet: QuietHours = AWAKE, **fields: object) -> Telling:
    """Configure channels of these names, all of them alice's unless others are named.

    Everybody gets everything on every channel, and no message waits for an answer to another one.
    """
    known: dict[str, ChannelKind] = {
        name: name if name in {"email", "sms", "desktop", "webhook"} else "chat"  # type: ignore[misc]
        for name in channels or ("email",)
    }
    alice = Recipient(name="alice", channels=tuple(known), quiet=quiet)
    calm = CalmConfig(patience_s=(), next_person_s=0.0)
    usual = {"strategy": "all", "calm": calm, "recipients": (alice,)}
    return Telling(**{**usual, "channels": known, **fields})  # type: ignore[arg-type]


class FakeLinks:
    """Addresses that can be read, and one code for all."""

    here_only = False

    def link(self, delivery: str, ref: str, recipient: str) -> str:
        return f"https://safety.example.com/d/{delivery}/{ref}/{recipient}"

    def code(self, request_id: str, recipient: str, pending: Iterable[Request]) -> str:
        return "4821"


def box(recipient: str, channel: str) -> Destination:
    reply_risk: Risk | None = "high" if channel == "sms" else None
    return Destination(address=f"{recipient}@{channel}", privacy="full", reply_risk=reply_risk)


class ComposeRig:
    """Letters are opened by `write`, and by themselves only while it is at work."""

    def __init__(self, told: Telling | None = None, policy: Policy | None = None) -> None:
        policy = policy or Policy(telling=told or telling())
        self.queue = QueueStory(policy)
        self.clock = HandClock()
        self.mailbox = Mailbox()
        self.links = FakeLinks()
        self.privacy: Privacy = "full"
        self.composer = Composer(self.links, self._destination)
        self.channels: Mapping[str, Channel] = {}
        self.opened = 0
        self.reopened: list[str] = []
        self.dispatch = Dispatch(self.mailbox, self.clock, self.composer, self._open_channels)
        self.observers: list[Callable[[list[Event]], None]] = [self.dispatch.observe]

    def _destination(self, recipient: str, channel: str) -> Destination:
        return msgspec.structs.replace(box(recipient, channel), privacy=self.privacy)

    @property
    def engine(self) -> Engine:
        return self.queue.engine

    @property
    def at(self) -> datetime:
        return self.clock.now().at

    def asks(self, id: str = "p1", **fields: object) -> str:  # noqa: A002
        """Let an agent ask for something; return the request's id."""
        before = len(self.queue.journal)
        decision = self.queue.asks(self.clock.t, id, **fields)
        self._published(self.queue.journal[before:])
        assert decision.request_id is not None
        return decision.request_id

    def answers(self, ref: str, answer: Literal["approved", "denied"] = "denied") -> None:
        self.queue.answers(self.clock.t, ref, answer)

    def happens(self, *events: Event) -> list[Event]:
        caused = self.queue.happens(*events)
        self._published(caused)
        return caused

    def passes(self, seconds: float = BATCH_S) -> list[Delivery]:
        """Let time pass; return the messages that are due then."""
        self.clock.t += seconds
        return self.dues(self.happens(tick(self.clock.t)))

    def dues(self, events: list[Event]) -> list[Delivery]:
        named = [event.delivery for event in events if isinstance(event, Due)]
        return [self.delivery(id_) for id_ in named]

    def delivery(self, id_: str) -> Delivery:
        found = self.engine.outbox.find(id_)
        assert found is not None
        return found

    def due(self, id: str = "p1", **fields: object) -> Delivery:  # noqa: A002
        """Let an agent ask, and return the one message that comes of it in time."""
        self.asks(id, **fields)
        (delivery,) = self.passes()
        return delivery

    def notes(self, **fields: object) -> Delivery:
        """Let something be told that is no request, and return the message."""
        given = {"id": "note_1", "kind": "alert", "urgency": "high", "title": "x", "text": "y"}
        note = Note(**{**given, "at": self.at, **fields})  # type: ignore[arg-type]
        announced = Announced(at=self.at, t=self.clock.t, note=note)
        (delivery,) = self.dues(self.happens(announced)) or self.passes()
        return delivery

    def says(self, delivery: Delivery) -> Notice:
        notice = self.composer.compose(self.engine, delivery.id, self.at, again=False)
        assert isinstance(notice, Notice)
        return notice

    def does(self, plan: Plan[T]) -> Carried[T]:
        """Carry out a command as the engine's turn does."""
        carried = plan(self.engine, self.clock.now())
        self.happens(*carried.events)
        return carried

    def write(self) -> list[Event]:
        events = work_off(self.mailbox, self.engine, self.clock)
        self.queue.journal += events
        self._published(events)
        return events

    async def work(self) -> None:
        while True:
            await self.mailbox.wait()
            self.write()

    @asynccontextmanager
    async def at_work(self, **channels: Channel) -> AsyncIterator[None]:
        """Deliver by these channels."""
        self.channels = channels
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.dispatch.run)
            tasks.start_soon(self.work)
            await self.rest()
            yield
            tasks.cancel_scope.cancel()

    async def rest(self) -> None:
        """Return once everything was done that can be done now."""
        for _ in range(3):
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            await self.dispatch.finish(PATIENCE_S)
        # A channel that polls may have put a question just now.
        await until(lambda: not len(self.mailbox))

    async def opened_all(self, count: int) -> None:
        """Return once so many channels are open, for which libraries may have to be loaded."""
        await until(lambda: len(self.dispatch.states()) >= count)
        await self.rest()

    async def later(self, seconds: float) -> None:
        """Let time pass for messages that wait for another try."""
        await self.rest()
        self.clock.t += seconds
        await self.rest()

    def journalled(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.queue.journal if type(event) is kind]

    async def _open_channels(self, only: Iterable[str] | None) -> Mapping[str, Channel]:
        if only is not None:
            self.reopened += list(only)
            return {name: self.channels[name] for name in only}
        self.opened += 1
        return self.channels

    def _published(self, events: list[Event]) -> None:
        for observe in self.observers:
            observe(events)


__all__ = ["AWAKE", "ComposeRig", "FakeLinks", "at", "box", "telling"]
