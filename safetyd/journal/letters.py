"""The kinds of letter that reach the engine."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from safetyd.agents.pricing import PriceList
from safetyd.bus.publisher import Post
from safetyd.clock import uptime
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Event, Moment, Proposed
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Proposal

Make = Callable[[Engine, Moment], Event | None]


class Carried(NamedTuple):
    """What a command makes happen, and what whoever gave it is told."""

    events: Sequence[Event]
    answer: Mapping[str, object]


Plan = Callable[[Engine, Moment], Carried]

Content = dict[str, object]
# Pauses where others may have their turn, goes on with the time as it is then, returns the answer.
Slices = Generator[None, Moment, Content]
Ask = Callable[[Engine, Moment], Content | Slices]

_encode = msgspec.json.Encoder().encode


class ProposalLetter:
    """An agent's proposal; `sent` decides whether the answer may leave."""

    __slots__ = (
        "agent",
        "decision",
        "digest",
        "keyless",
        "permission",
        "post",
        "prices",
        "proposal",
        "received",
        "reply",
        "resolved",
        "sent",
        "size",
    )

    def __init__(  # noqa: PLR0913 - a letter is what was written on it
        self,
        agent: str,
        proposal: Proposal,
        digest: str,
        reply: bytes,
        post: Post,
        sent: Callable[["ProposalLetter", bool], None],
        *,
        prices: PriceList,
        keyless: bool,
        size: int,
        permission: bool = False,
        resolved: tuple[str, ...] = (),
    ) -> None:
        self.agent = agent
        self.proposal = proposal
        self.digest = digest
        self.reply = reply
        self.post = post
        self.sent = sent
        self.prices = prices
        self.keyless = keyless
        self.size = size
        self.permission = permission
        self.resolved = resolved
        self.received = uptime()
        self.decision: Decision | None = None

    def open(self, engine: Engine, moment: Moment) -> Sequence[Event]:
        self.decision, events = engine.decide(
            Proposed(
                at=moment.at,
                t=moment.t,
                agent=self.agent,
                proposal=self.proposal,
                digest=self.digest,
                keyless=self.keyless,
                priced_nano=self.prices.of_proposal(self.proposal, moment.at),
                resolved=self.resolved,
            ),
            permission=self.permission,
        )
        return events

    def deliver(self, *, late: bool) -> None:
        self.sent(self, late)


class EventLetter:
    """Something that happened outside; `told` hears of it once it is durable."""

    size = 256

    def __init__(self, make: Make, told: Callable[[], None]) -> None:
        self.received = uptime()
        self._make = make
        self._told = told

    def open(self, engine: Engine, moment: Moment) -> Sequence[Event]:
        event = self._make(engine, moment)
        return () if event is None else engine.handle(event)

    def deliver(self, *, late: bool) -> None:  # noqa: ARG002 - news does not go stale
        self._told()


class QuestionLetter:
    """A question about the engine's state, answered with nothing that is not durable."""

    size = 256

    def __init__(
        self, ask: Callable[[Engine, Moment], object], told: Callable[[object], None]
    ) -> None:
        self.received = uptime()
        self._ask = ask
        self._told = told
        self._answer: object = None

    def open(self, engine: Engine, moment: Moment) -> Sequence[Event]:
        self._answer = self._ask(engine, moment)
        return ()

    def deliver(self, *, late: bool) -> None:  # noqa: ARG002 - the asker knows its own patience
        self._told(self._answer)


class InquiryLetter:
    """A person's question; `spent` hears what each slice of it took.

    The answer is kept as bytes, so that answers which wait for the journal have a bound.
    """

    size = 256

    def __init__(
        self, ask: Ask, told: Callable[[msgspec.Raw], None], spent: Callable[[float], None]
    ) -> None:
        self.received = uptime()
        self.done = False
        self._ask = ask
        self._told = told
        self._spent = spent
        self._slices: Slices | None = None
        self._answer = msgspec.Raw()

    def open(self, engine: Engine, moment: Moment) -> Sequence[Event]:
        begun = uptime()
        found = self._next(engine, moment)
        if found is not None:
            self._answer = msgspec.Raw(_encode({"ok": True, **found}))
            self.done = True
        self._spent(uptime() - begun)
        return ()

    def deliver(self, *, late: bool) -> None:  # noqa: ARG002 - the asker knows its own patience
        self._told(self._answer)

    def _next(self, engine: Engine, moment: Moment) -> Content | None:
        """Return what is answered, None if only a slice of it was made."""
        if self._slices is not None:
            return _advanced(self._slices, moment)
        found = self._ask(engine, moment)
        if isinstance(found, dict):
            return found
        self._slices = found
        return _advanced(found, None)


def _advanced(slices: Slices, moment: Moment | None) -> Content | None:
    try:
        slices.send(moment)  # type: ignore[arg-type] # None begins a generator
    except StopIteration as end:
        found: Content = end.value
        return found
    return None


class CommandLetter:
    """A command that depends on the engine's state; its answer follows when all is durable."""

    size = 256

    def __init__(self, plan: Plan, told: Callable[[Mapping[str, object]], None]) -> None:
        self.received = uptime()
        self._plan = plan
        self._told = told
        self._answer: Mapping[str, object] = {}

    def open(self, engine: Engine, moment: Moment) -> Sequence[Event]:
        events, self._answer = self._plan(engine, moment)
        return [lasting for event in events for lasting in engine.handle(event)]

    def deliver(self, *, late: bool) -> None:  # noqa: ARG002 - what was done stays done
        self._told(self._answer)
