"""Open actions: actions that were allowed and have no outcome yet.

Only the first outcome of an action counts. An outcome without an id counts, too. An outcome does
not count if its proposal was refused, is unknown, or already has an outcome. If an agent says that
it will report no outcome, the action is closed immediately.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, takewhile
from typing import Final

import msgspec

from safetyd.core.actor import Actor, hearing, later, on
from safetyd.core.events.decision_events import Decided, Overdue, Reported, Settled
from safetyd.core.events.event import Event, Ticked
from safetyd.core.events.guard_events import NameForgotten
from safetyd.core.messages.telemetry import Outcome, Unreported
from safetyd.core.messages.verdict import ALLOW
from safetyd.core.sessions import SessionsConfig

MAX_PER_TICK: Final = 64
# If one agent has more open actions than this, the oldest `GIVEN_UP` become overdue.
MAX_UNDER_WAY: Final = 1024
GIVEN_UP: Final = 64


class Action(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The data of a proposal that is stored until its outcome."""

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


class Actions(Actor):
    """The open actions. This actor emits `Settled` and `Overdue` for other actors.

    `known` removes names from an outcome that must not be stored.
    """

    name = "actions"
    _state: ActionsState

    def __init__(self, config: SessionsConfig, known: Callable[[Settled], Settled]) -> None:
        self._known = known
        self._timeout_s = config.outcome_timeout_s
        self._state = ActionsState()
        self.hears = hearing(
            on(Decided, self._begun),
            later(self._begun),
            on(Reported, self._outcome),
            on(Settled, self._settled),
            on(Overdue, self._given_up),
            on(Ticked, self._overdue),
            on(NameForgotten, self._forgotten),
        )

    def under_way(self, agent: str) -> tuple[str, ...]:
        """Return the ids of an agent's open actions, oldest first."""
        return tuple(self._state.under_way.get(agent, ()))

    def newest(self, agent: str) -> tuple[str, Action] | None:
        """Return the newest open action of an agent, with its id."""
        mine = self._state.under_way.get(agent)
        return None if mine is None else next(reversed(mine.items()))

    def is_busy(self, agent: str) -> bool:
        return agent in self._state.under_way

    @property
    def total(self) -> int:
        """The number of open actions of all agents."""
        return sum(map(len, self._state.under_way.values()))

    def find(self, agent: str, id_: str | None) -> Action | None:
        """Return an open action of an agent."""
        return self._state.under_way.get(agent, {}).get(id_ or "")

    def _begun(self, event: Decided) -> Sequence[Event]:
        if event.decision is not ALLOW:
            return ()
        proposal = event.proposal
        mine = self._state.under_way.get(event.agent)
        if mine is None:
            mine = self._state.under_way[event.agent] = {}
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
        if len(mine) < MAX_UNDER_WAY + GIVEN_UP:
            return ()
        oldest = tuple(islice(mine, GIVEN_UP))
        return (Overdue(at=event.at, t=event.t, agent=event.agent, ids=oldest),)

    def _outcome(self, event: Reported) -> Sequence[Event]:
        match event.telemetry:
            case Outcome(id=None) as outcome:
                action: Action | None = Action(event.t, outcome.action_type or "")
            case Outcome() as outcome:
                action = self.find(event.agent, outcome.id)
            case Unreported(id=id_) if self.find(event.agent, id_):
                said = Overdue(at=event.at, t=event.t, agent=event.agent, ids=(id_,), said=True)
                return (said,)
            case _:
                return ()
        return () if action is None else (self._known(_settled(event, outcome, action)),)

    def _settled(self, event: Settled) -> None:
        self._ended(event.agent, (event.id or "",))

    def _given_up(self, event: Overdue) -> None:
        self._ended(event.agent, event.ids)

    def _forgotten(self, event: NameForgotten) -> None:
        self._state.under_way.pop(event.agent, None)

    def _ended(self, agent: str, ids: Iterable[str]) -> None:
        mine = self._state.under_way.get(agent, {})
        for id_ in ids:
            mine.pop(id_, None)
        if not mine:
            self._state.under_way.pop(agent, None)

    def _overdue(self, tick: Ticked) -> Sequence[Event]:
        begun_t = tick.t - self._timeout_s
        late: list[Event] = []
        for agent, mine in self._state.under_way.items():
            if len(late) >= MAX_PER_TICK:
                break
            if ids := _begun_by(begun_t, mine):
                late.append(Overdue(at=tick.at, t=tick.t, agent=agent, ids=ids))
        return late


def _begun_by(t: float, actions: dict[str, Action]) -> tuple[str, ...]:
    """Return the oldest actions that were allowed at or before `t`, at most `GIVEN_UP`."""
    return tuple(islice(takewhile(lambda id_: actions[id_].t <= t, actions), GIVEN_UP))


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
        keyless=event.keyless,
        host=event.host,
        tokens_nano=event.tokens_nano,
    )
