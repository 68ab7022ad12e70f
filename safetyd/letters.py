"""The kinds of letter that reach the engine."""

from collections.abc import Callable, Sequence

from safetyd.bus.post import Post
from safetyd.clock import uptime
from safetyd.core.decision import Decision
from safetyd.core.engine import Engine
from safetyd.core.events import Event, Moment, Proposed
from safetyd.core.proposal import Proposal

Make = Callable[[Engine, Moment], Event | None]


class ProposalLetter:
    """An agent's proposal; `sent` decides whether the answer may leave."""

    __slots__ = (
        "agent",
        "decision",
        "digest",
        "keyless",
        "post",
        "proposal",
        "received",
        "reply",
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
        keyless: bool,
        size: int,
    ) -> None:
        self.agent = agent
        self.proposal = proposal
        self.digest = digest
        self.reply = reply
        self.post = post
        self.sent = sent
        self.keyless = keyless
        self.size = size
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
            )
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
