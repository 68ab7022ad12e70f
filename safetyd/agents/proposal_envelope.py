"""A proposal on its way to the engine, and its answer on the way back."""

from collections.abc import Callable, Sequence

from safetyd.agents.pricing import PriceList
from safetyd.bus.publisher import Replies
from safetyd.clock import uptime
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Proposed
from safetyd.core.events.event import Event, Moment
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Proposal


class ProposalEnvelope:
    """An agent's proposal; `sent` decides whether the answer may leave."""

    __slots__ = (
        "agent",
        "decision",
        "digest",
        "keyless",
        "permission",
        "prices",
        "proposal",
        "publisher",
        "received",
        "reply",
        "request",
        "resolved",
        "sent",
        "size",
    )

    def __init__(  # noqa: PLR0913 - an envelope is what was written on it
        self,
        agent: str,
        proposal: Proposal,
        digest: str,
        reply: bytes,
        publisher: Replies,
        sent: Callable[["ProposalEnvelope", bool], None],
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
        self.publisher = publisher
        self.sent = sent
        self.prices = prices
        self.keyless = keyless
        self.size = size
        self.permission = permission
        self.resolved = resolved
        self.received = uptime()
        self.decision: Decision | None = None
        self.request: Request | None = None  # the one that the decision names, as it was then

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
        if self.decision.request_id is not None:
            self.request = engine.approvals.find(self.decision.request_id)
        return events

    def deliver(self, *, late: bool) -> None:
        self.sent(self, late)
