"""Iterations: how many rounds an agent may begin in one session.

A round is counted by the dispatch that was allowed or by the agent's own `iteration`; an agent may
say both of one round, so the larger number counts.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from safetyd.core.events import Decided, Event, Forgotten, Proposed, Reported, SessionClosed
from safetyd.core.kinds import Kind
from safetyd.core.telemetry import Iteration
from safetyd.core.verdict import ALLOWED, Severity, Verdict

# Sessions that an agent may open by telemetry alone; those of its proposals are bounded elsewhere.
MAX_SESSIONS: Final = 64

Limit = Annotated[int, Meta(ge=0)]


def _shipped() -> dict[str, int]:
    return {
        "discovery": 3,
        "support": 5,
        "ops": 10,
        "code": 3,
        "growth": 5,
        "meta": 2,
        "finance": 3,
        "loop": 5,
    }


class IterationsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    default: Limit = 5
    agents: dict[str, Limit] = msgspec.field(default_factory=_shipped)  # case is ignored


class Rounds(msgspec.Struct, gc=False):
    """The rounds of one session."""

    dispatched: int = 0
    reported: int = 0


class IterationsState(msgspec.Struct):
    agents: dict[str, dict[str, Rounds]] = {}  # by agent and session


class Iterations:
    """The guard. `overrides` are the limits of single agents, by their exact names."""

    name = "iterations"
    hears: tuple[type[Event], ...] = (Decided, Reported, SessionClosed, Forgotten)

    def __init__(self, config: IterationsConfig, overrides: Mapping[str, int]) -> None:
        self._default = config.default
        self._table = {name.lower(): limit for name, limit in config.agents.items()}
        self._overrides = dict(overrides)
        self._state = IterationsState()

    def count(self, agent: str, session: str = "") -> int:
        """Return the rounds of a live session; the implicit one is called ""."""
        rounds = self._state.agents.get(agent, {}).get(session)
        return max(rounds.dispatched, rounds.reported) if rounds else 0

    def limit(self, agent: str) -> int:
        limit = self._overrides.get(agent)
        return self._table.get(agent.lower(), self._default) if limit is None else limit

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        count = self.count(proposed.agent, proposed.proposal.session or "")
        limit = self.limit(proposed.agent)
        if count < limit:
            return ALLOWED
        if kind.type == "dispatch":
            return _verdict(proposed.agent, f"{count} >= {limit}")
        # The last permitted round may finish.
        return _verdict(proposed.agent, f"{count} > {limit}") if count > limit else ALLOWED

    def observe(self, event: Event) -> Sequence[Event]:
        match event:
            case Decided(first=True) if event.decision is not Severity.BLOCK:
                self._passed(event)
            case Reported(telemetry=Iteration(session=session)):
                self._reported(event, session or "")
            case SessionClosed():
                self._drop(event.agent, event.session)
            case Forgotten(session=None, episode=None):
                self._state.agents.pop(event.agent, None)
            case Forgotten(session=str(session), episode=None):
                self._drop(event.agent, session)
        return ()

    def save(self) -> Callable[[], bytes]:
        saved = msgspec.msgpack.encode(self._state)
        return lambda: saved

    def load(self, saved: bytes) -> None:
        self._state = msgspec.msgpack.decode(saved, type=IterationsState)

    def _passed(self, event: Decided) -> None:
        rounds = self._rounds(event.agent, event.proposal.session or "")
        if event.type == "dispatch" and event.decision is Severity.ALLOW:
            rounds.dispatched += 1

    def _reported(self, event: Reported, session: str) -> None:
        # Telemetry alone must not fill the memory: who has no key counts once it has proposed.
        if event.keyless and event.agent not in self._state.agents:
            return
        mine = self._state.agents.get(event.agent, {})
        if session in mine or len(mine) < MAX_SESSIONS:
            self._rounds(event.agent, session).reported += 1

    def _rounds(self, agent: str, session: str) -> Rounds:
        mine = self._state.agents.setdefault(agent, {})
        rounds = mine.get(session)
        if rounds is None:
            rounds = mine[session] = Rounds()
        return rounds

    def _drop(self, agent: str, session: str) -> None:
        mine = self._state.agents.get(agent, {})
        mine.pop(session, None)
        if not mine:
            self._state.agents.pop(agent, None)


def _verdict(agent: str, compared: str) -> Verdict:
    return Verdict(
        "iterations",
        Severity.BLOCK,
        "iterations.limit",
        f"iteration limit reached ({compared})",
        cause="iteration_limit",
        limit_id=f"iterations.limit:{agent}",
    )
