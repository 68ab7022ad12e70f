"""Iterations: limits how many rounds an agent may begin in one session.

Rounds are counted from allowed dispatches and from the agent's `iteration` messages. An agent may
send both for one round, so the larger number counts.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard, hearing, later, on
from safetyd.core.events.decision_events import Decided, Proposed, Reported, SessionClosed
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import Forgotten, NameForgotten
from safetyd.core.messages.telemetry import Iteration
from safetyd.core.messages.verdict import ALLOW, ALLOWED, Severity, Verdict

MAX_EARLY: Final = 1_000  # sessions without a proposal, because anyone can invent them
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
    # Rounds that anonymous agents reported before the session's first proposal, oldest first.
    early: dict[str, int] = {}


class Admits(Protocol):
    def __call__(self, agent: str, session: str, *, keyless: bool = False) -> bool: ...


class Iterations(Guard):
    """Block an agent that has used up its rounds in a session.

    `overrides` are limits by exact agent name. `admits` returns whether a session of an agent may
    be active.
    """

    name = "iterations"
    _state: IterationsState

    def __init__(
        self,
        config: IterationsConfig,
        overrides: Mapping[str, int],
        admits: Admits,
    ) -> None:
        self._default = config.default
        self._table = {name.lower(): limit for name, limit in config.agents.items()}
        self._overrides = dict(overrides)
        self._admits = admits
        self._state = IterationsState()
        self.hears = hearing(
            on(Decided, self._decided),
            later(self._decided),
            on(Reported, self._reported),
            on(SessionClosed, self._closed),
            on(Forgotten, self._forgotten),
            on(NameForgotten, self._gone),
        )

    @property
    def agents(self) -> tuple[str, ...]:
        """Return the agents that began a round in an active session."""
        return tuple(self._state.agents)

    def rounds(self, agent: str) -> dict[str, int]:
        """Return the rounds of each active session that has any."""
        mine = self._state.agents.get(agent, {})
        return {session: self.count(agent, session) for session in mine}

    def count(self, agent: str, session: str = "") -> int:
        """Return the rounds of an active session. The implicit session is called ""."""
        early = self._state.early.get(_key(agent, session), 0)
        rounds = self._state.agents.get(agent, {}).get(session)
        return max(rounds.dispatched, rounds.reported + early) if rounds else early

    def most(self, agent: str) -> int:
        """Return the highest number of rounds in one active session."""
        return max(self.rounds(agent).values(), default=0)

    def limit(self, agent: str) -> int:
        limit = self._overrides.get(agent)
        return self._table.get(agent.lower(), self._default) if limit is None else limit

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        if not self._state.agents.get(proposed.agent) and kind.type != "dispatch":
            return ALLOWED
        count = self.count(proposed.agent, proposed.proposal.session or "")
        limit = self.limit(proposed.agent)
        if count < limit:
            return ALLOWED
        if kind.type == "dispatch":
            elsewhere = "in a new session, or " if limit else ""
            remedy = f"{elsewhere}with [agents.{proposed.agent}] iterations = {count + 1}"
            return _verdict(proposed.agent, f"{count} >= {limit}", remedy)
        if count == limit:
            return ALLOWED  # the last permitted round may finish
        remedy = f"in a new session, or with [agents.{proposed.agent}] iterations = {count}"
        return _verdict(proposed.agent, f"{count} > {limit}", remedy)

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        count = self.count(decided.agent, decided.proposal.session or "")
        return f"{count} of {self.limit(decided.agent)} rounds"

    def _closed(self, event: SessionClosed) -> None:
        self._drop(event.agent, event.session)

    def _forgotten(self, event: Forgotten) -> None:
        if event.episode is not None:
            return
        if event.session is None:
            self._forget(event.agent)
        else:
            self._drop(event.agent, event.session)

    def _gone(self, event: NameForgotten) -> None:
        self._forget(event.agent)

    def _forget(self, agent: str) -> None:
        self._state.agents.pop(agent, None)
        early, whose = self._state.early, _key(agent, "")
        self._state.early = {
            key: count for key, count in early.items() if not key.startswith(whose)
        }

    def _decided(self, event: Decided) -> None:
        if event.type == "dispatch" and event.decision is ALLOW:
            self._rounds(event.agent, event.proposal.session or "").dispatched += 1

    def _reported(self, event: Reported) -> None:
        if not isinstance(event.telemetry, Iteration):
            return
        # Telemetry alone must not fill the memory: only active sessions have rounds.
        session = event.telemetry.session or ""
        if self._admits(event.agent, session, keyless=event.keyless):
            self._rounds(event.agent, session).reported += 1
        elif event.keyless:
            early, key = self._state.early, _key(event.agent, session)
            early[key] = early.pop(key, 0) + 1
            if len(early) > MAX_EARLY:
                del early[next(iter(early))]

    def _rounds(self, agent: str, session: str) -> Rounds:
        mine = self._state.agents.setdefault(agent, {})
        rounds = mine.get(session)
        if rounds is None:
            rounds = mine[session] = Rounds()
        return rounds

    def _drop(self, agent: str, session: str) -> None:
        self._state.early.pop(_key(agent, session), None)
        mine = self._state.agents.get(agent, {})
        mine.pop(session, None)
        if not mine:
            self._state.agents.pop(agent, None)


def _key(agent: str, session: str) -> str:
    return f"{agent} {session}"


def _verdict(agent: str, compared: str, remedy: str) -> Verdict:
    return Verdict(
        "iterations",
        Severity.BLOCK,
        "iterations.limit",
        f"iteration limit reached ({compared})",
        cause="iteration_limit",
        limit_id=f"iterations.limit:{agent}",
        remedy=remedy,
    )
