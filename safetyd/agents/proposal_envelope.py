"""Carries a proposal to the engine, and its decision back."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from safetyd.agents.commits_before import commit_first
from safetyd.agents.followed_links import links_of
from safetyd.agents.intake import QUICK_S, Intake
from safetyd.agents.pricing import PriceList
from safetyd.bus.publisher import Replies
from safetyd.clock import CoarseWork, uptime, worked
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.decision_events import Proposed
from safetyd.core.events.event import Event, Moment
from safetyd.core.file_commits import CommitFirst
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import ALLOW
from safetyd.journal.mailbox import Effects, Envelope

_work = CoarseWork()


class LookAt(NamedTuple):
    """Asks the sender of a proposal where these paths lead, because the daemon cannot see them."""

    paths: tuple[str, ...]


class ProposalEnvelope(Envelope):
    """An agent's proposal. `sent` is called once its decision is durable, and sends the reply."""

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
        intake: Intake,
        keyless: bool,
        size: int,
        permission: bool = False,
        seen: Mapping[str, str] | None = None,
        host: str = "",
        user: str = "",  # whose anonymous agent sent it with a hook
    ) -> None:
        self.agent = agent
        self.proposal = proposal
        self.digest = digest
        self.reply = reply
        self.publisher = publisher
        self.sent = sent
        self.prices = prices
        self.intake = intake
        self.keyless = keyless
        self.size = size
        self.permission = permission
        self.seen = seen  # the targets that the sender saw; None if it cannot look
        self.hidden: tuple[str, ...] = ()  # the sender must look where these paths lead
        self.host = host
        self.user = user
        self.received = uptime()
        self.overdrawn_s = 0.0  # above 0: earlier proposals took too long, so this one is refused
        self._begun = 0.0  # when it was opened
        self._worked_s = 0.0  # CPU time until then
        self.decision: Decision | None = None
        self.first: CommitFirst | None = None  # must be committed before an allow is sent
        self.request: Request | None = None  # the request that the decision made or joined

    def open(self, state: EngineState, moment: Moment) -> Sequence[Event]:
        self._begun = now = uptime()
        self._worked_s = _work.at(now)
        self.overdrawn_s = self.intake.overdrawn_s(
            self.agent, now, keyless=self.keyless, user=self.user
        )
        if self.overdrawn_s:
            return ()
        proposed = Proposed(
            at=moment.at,
            t=moment.t,
            agent=self.agent,
            proposal=self.proposal,
            digest=self.digest,
            keyless=self.keyless,
            priced_nano=self.prices.of_proposal(self.proposal, moment.at),
            permission=self.permission,
            host=self.host,
        )
        links = links_of(state, proposed, self.seen)
        if links.hidden and self.seen == {}:
            self.hidden = links.hidden
            return ()
        proposed.resolved, proposed.changed = links.resolved, links.changed
        return (proposed,)

    def note(self, state: EngineState, effects: Effects) -> None:
        self.decision = decision = effects.decision
        if uptime() - self._begun > QUICK_S:
            spent_s = worked() - self._worked_s
            self.intake.charge(self.agent, spent_s, keyless=self.keyless, user=self.user)
        if decision is not None and decision.decision is ALLOW:
            self.first = commit_first(state, self.agent, decision.id)
        if decision is not None and decision.request_id is not None:
            self.request = state.approvals.find(decision.request_id)

    def deliver(self, *, late: bool) -> None:
        self.sent(self, late)
