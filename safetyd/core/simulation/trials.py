"""Trials: requests that a grant would have covered, and decisions on a series of proposals."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import msgspec

from safetyd.core.approvals.grants import Grants
from safetyd.core.approvals.request import State
from safetyd.core.approvals.resolution import looking
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.engine.evaluation import proposed_again
from safetyd.core.events.decision_events import Decided, Proposed, Reported
from safetyd.core.events.event import Ticked
from safetyd.core.events.request_events import Granted
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.policy import Policy

EndState = State | Literal["blocked"]
APART_S: Final = 1.0
ALWAYS: Final = datetime.max.replace(tzinfo=UTC)


class PastRequest(msgspec.Struct, frozen=True, gc=False):
    """A proposal that needed approval or was blocked, and its final state."""

    asked: Decided
    state: EndState


class GrantCoverage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The number of requests that a grant would have covered, by final state."""

    approved: int = 0
    denied: int = 0
    unanswered: int = 0  # expired, withdrawn, or still pending
    blocked: int = 0

    @property
    def total(self) -> int:
        return self.approved + self.denied + self.unanswered + self.blocked


class GrantTrial:
    """Tries a grant as if it had always been active, without limits on time or uses."""

    def __init__(self, state: EngineState, granted: Granted) -> None:
        self._kind = state.kind
        self._guards = state.guards
        self._grants = Grants(state.reader)
        self._grants.observe(msgspec.structs.replace(granted, until=ALWAYS))

    def covers(self, asked: Decided) -> bool:
        """Return True if the grant would have allowed this proposal."""
        proposed = proposed_again(asked, asked.at, asked.t)
        kind = self._kind(asked)
        look = looking(self._guards, proposed, kind, again=True)
        lifted = self._grants.lift(proposed, kind, asked.verdicts, look)
        return bool(lifted.grants) and not lifted.verdicts

    def covered(self, past: Iterable[PastRequest]) -> list[PastRequest]:
        """Return the requests that the grant would have covered."""
        return [one for one in past if self.covers(one.asked)]


def counted(covered: Iterable[PastRequest]) -> GrantCoverage:
    """Count requests by final state."""
    states = [one.state for one in covered]
    ended = {state: states.count(state) for state in ("approved", "denied", "blocked")}
    return GrantCoverage(unanswered=len(states) - sum(ended.values()), **ended)


class TrialStep(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal. If it is allowed, its outcome is `ok`, or not reported if `ok` is None."""

    agent: str
    proposal: Proposal
    digest: str
    ok: bool | None = None
    after_s: float = APART_S  # since the previous step


def decided(policy: Policy, steps: Sequence[TrialStep], begin: datetime) -> Decision:
    """Return the decision on the last proposal. The first proposal is made at `begin`.

    The engine starts empty, and nobody is notified.
    """
    engine, at, t = Engine(policy), begin, 0.0
    for number, step in enumerate(steps):
        if number:
            at, t = at + timedelta(seconds=step.after_s), t + step.after_s
            engine.handle(Ticked(at=at, t=t))
        decision, _ = engine.decide(
            Proposed(at=at, t=t, agent=step.agent, proposal=step.proposal, digest=step.digest)
        )
        if step.ok is not None and decision.allowed:
            outcome = Outcome(id=step.proposal.id, ok=step.ok)
            engine.handle(Reported(at=at, t=t, agent=step.agent, telemetry=outcome))
    return decision
