"""What rules say of a proposal that comes after others, for tests of a policy."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Proposed, Reported
from safetyd.core.events.event import Ticked
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.policy import Policy

APART_S: Final = 1.0


class TrialStep(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal, and how it went if it was allowed; None: nobody reports."""

    agent: str
    proposal: Proposal
    digest: str
    ok: bool | None = None
    after_s: float = APART_S  # since the one before


class PolicyTrial:
    """Rules on their own: nothing happened before, and nobody is told."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def decide(self, steps: Sequence[TrialStep], begin: datetime) -> Decision:
        """Return the decision on the last proposal; the first of them comes at `begin`."""
        engine, at, t = Engine(self._policy), begin, 0.0
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
