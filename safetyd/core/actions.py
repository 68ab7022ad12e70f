"""Allowed actions under way, and which outcome counts for each: the first, once.

An outcome without an id counts as well; one for a proposal that was refused, is unknown or has
already been settled does not.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from safetyd.core.events import Decided, Event, Overdue, Reported, Settled, Ticked
from safetyd.core.sessions import SessionsConfig
from safetyd.core.telemetry import Outcome
from safetyd.core.verdict import Severity

MAX_PER_TICK: Final = 64
# More than this under way for one agent: the oldest is given up as overdue.
MAX_UNDER_WAY: Final = 1024


class Action(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What is needed of a proposal once its outcome comes."""

    t: float
    type: str
    session: str = ""
    chain: str | None = None
    task: str | None = None
    model: str | None = None
    dependency: str | None = None
    provider: str | None = None


class ActionsState(msgspec.Struct):
    under_way: dict[str, dict[str, Action]] = {}  # by agent and id, oldest first


class Actions:
    """What was allowed and has no outcome yet. Others hear `Settled` and `Overdue`."""

    name = "actions"
    hears: tuple[type[Event], ...] = (Decided, Reported, Settled, Overdue, Ticked)

    def __init__(self, config: SessionsConfig) -> None:
        self._timeout_s = config.outcome_timeout_s
        self._state = ActionsState()

    def under_way(self, agent: str) -> tuple[str, ...]:
        """Return the ids of an agent's actions that have no outcome yet, oldest first."""
        return tuple(self._state.under_way.get(agent, ()))

    def find(self, agent: str, id_: str | None) -> Action | None:
        """Return an agent's action that has no outcome yet."""
        return self._state.under_way.get(agent, {}).get(id_ or "")

    def observe(self, event: Event) -> Sequence[Event]:
        match event:
            case Decided(first=True, decision=Severity.ALLOW):
                return self._begun(event)
            case Reported(telemetry=Outcome() as outcome):
                return self._outcome(event, outcome)
            case Settled() | Overdue():
                self._ended(event.agent, event.id)
            case Ticked():
                return self._overdue(event)
        return ()

    def save(self) -> Callable[[], bytes]:
        saved = msgspec.msgpack.encode(self._state)
        return lambda: saved

    def load(self, saved: bytes) -> None:
        self._state = msgspec.msgpack.decode(saved, type=ActionsState)

    def _begun(self, event: Decided) -> Sequence[Event]:
        proposal = event.proposal
        mine = self._state.under_way.setdefault(event.agent, {})
        mine[event.id] = Action(
            event.t,
            event.type,
            proposal.session or "",
            proposal.chain,
            proposal.task,
            proposal.model,
            proposal.dependency,
            proposal.provider,
        )
        if len(mine) <= MAX_UNDER_WAY:
            return ()
        return (Overdue(at=event.at, t=event.t, agent=event.agent, id=next(iter(mine))),)

    def _outcome(self, event: Reported, outcome: Outcome) -> Sequence[Event]:
        if outcome.id is None:
            return (_settled(event, outcome, Action(event.t, outcome.action_type or "")),)
        action = self.find(event.agent, outcome.id)
        return () if action is None else (_settled(event, outcome, action),)

    def _ended(self, agent: str, id_: str | None) -> None:
        mine = self._state.under_way.get(agent, {})
        mine.pop(id_ or "", None)
        if not mine:
            self._state.under_way.pop(agent, None)

    def _overdue(self, tick: Ticked) -> Sequence[Event]:
        late: list[Event] = []
        for agent, mine in self._state.under_way.items():
            for id_, action in mine.items():
                if tick.t < action.t + self._timeout_s or len(late) >= MAX_PER_TICK:
                    break
                late.append(Overdue(at=tick.at, t=tick.t, agent=agent, id=id_))
        return late


def _settled(event: Reported, outcome: Outcome, action: Action) -> Settled:
    named = outcome.id is not None
    return Settled(
        at=event.at,
        t=event.t,
        agent=event.agent,
        ok=outcome.ok,
        id=outcome.id,
        type=action.type,
        session=action.session if named else outcome.session or "",
        chain=action.chain,
        task=action.task if named else outcome.task,
        model=action.model or outcome.model,
        dependency=outcome.dependency or action.dependency,
        failed_dependency=not outcome.ok and outcome.dependency is not None,
        cost_usd=outcome.cost_usd,
        tokens=outcome.tokens,
        priced_nano=event.priced_nano,
        latency_ms=outcome.latency_ms,
        files_changed=outcome.files_changed,
        allowed_t=action.t if named else None,
    )
