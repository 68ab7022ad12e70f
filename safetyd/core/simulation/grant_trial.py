"""What a grant would have covered of what people were asked, or of what was blocked."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from safetyd.core.approvals.grants import Grants
from safetyd.core.approvals.request import State
from safetyd.core.approvals.resolution import looking
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.engine.evaluation import proposed_again
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.request_events import Granted

EndState = State | Literal["blocked"]
ALWAYS: Final = datetime.max.replace(tzinfo=UTC)


class PastRequest(msgspec.Struct, frozen=True, gc=False):
    """What was asked or blocked, and what became of it."""

    asked: Decided
    state: EndState


class GrantCoverage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many requests a grant would have covered, by how they ended."""

    approved: int = 0
    denied: int = 0
    unanswered: int = 0  # expired, withdrawn, or still waiting
    blocked: int = 0

    @property
    def total(self) -> int:
        return self.approved + self.denied + self.unanswered + self.blocked


class GrantTrial:
    """A grant as if it had always been in force, without an end to its time and uses."""

    def __init__(self, state: EngineState, granted: Granted) -> None:
        self._kind = state.kind
        self._guards = state.guards
        self._grants = Grants(state.reader)
        self._grants.observe(msgspec.structs.replace(granted, until=ALWAYS))

    def covers(self, asked: Decided) -> bool:
        """Say whether the grant would have let a proposal pass that was asked about or blocked."""
        proposed = proposed_again(asked, asked.at, asked.t)
        kind = self._kind(asked.proposal)
        look = looking(self._guards, proposed, kind, again=True)
        lifted = self._grants.lift(proposed, kind, asked.verdicts, look)
        return bool(lifted.grants) and not lifted.verdicts

    def covered(self, past: Iterable[PastRequest]) -> list[PastRequest]:
        """Return those that the grant would have covered."""
        return [one for one in past if self.covers(one.asked)]


def counted(covered: Iterable[PastRequest]) -> GrantCoverage:
    """Count requests by how they ended."""
    states = [one.state for one in covered]
    ended = {state: states.count(state) for state in ("approved", "denied", "blocked")}
    return GrantCoverage(unanswered=len(states) - sum(ended.values()), **ended)
