"""An engine with a budget, for stories about money."""

from collections.abc import Iterable, Mapping

from safetyd.core.engine.engine import Engine, _listeners
from safetyd.core.events.decision_events import Proposed, Reported
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import BudgetMarked, Paused, Unpaused
from safetyd.core.guards.budget.budget import Budget, BudgetConfig
from safetyd.core.guards.budget.limits import Standing
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.messages.money import usd
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.policy import Policy
from tests.core.guards.guard_rig import nobody
from tests.story import ask, at, play, propose, report

MIDNIGHT = 12 * 3600  # seconds after noon, when stories begin
NO_LIMITS = BudgetConfig(chain_usd=0, session_usd=0, day_usd=0)
OTHERS = ("stop", "keys", "gate")


class BudgetRig:
    """An engine with a budget, and a few guards beside it that refuse for other reasons.

    If it is `shared`, agents with keys are known by what they say.
    """

    def __init__(
        self,
        config: BudgetConfig | None = None,
        session_usd: Mapping[str, float] | None = None,
        policy: Policy | None = None,
        projects: Mapping[str, ProjectConfig] | None = None,
        *,
        shared: bool = False,
        default: str = "",
    ) -> None:
        self.engine = Engine(policy or Policy())
        known = self.engine.keys.others if shared else nobody
        config, session_usd, projects = config or BudgetConfig(), session_usd or {}, projects or {}
        self.budget = Budget(config, session_usd, projects, known, default)
        others = (guard for guard in self.engine._guards if guard.name in OTHERS)
        self.engine._guards = (*others, self.budget)
        self.engine._actors = (*self.engine._guards, self.engine.sessions, self.engine.actions)
        self.engine._listeners = _listeners(self.engine._actors)
        self._ids = 0

    def play(self, *story: Event) -> list[Event]:
        return play(self.engine, *story)

    def buys(self, t: float, usd: float | None = None, **fields: object):
        """Propose a new action with this cost."""
        self._ids += 1
        fields.setdefault("id", f"b{self._ids}")
        return ask(self.engine, propose(t, cost_usd=usd, **fields))  # type: ignore[arg-type]

    def spent(self, scope: str, id: str | None = None, t: float = 0) -> float:  # noqa: A002
        return usd(sum(standing.spent for standing in self._found(scope, id, t)))

    def reserved(self, scope: str, id: str | None = None, t: float = 0) -> float:  # noqa: A002
        return usd(sum(standing.reserved for standing in self._found(scope, id, t)))

    def _found(self, scope: str, id_: str | None, t: float) -> Iterable[Standing]:
        for standing in self.budget.standings(at(t)):
            if standing.scope == scope and id_ in {None, standing.id}:
                yield standing


def cost(
    t: float,
    id: str | None,  # noqa: A002
    usd: float | None = None,
    agent: str = "code",
    *,
    priced_nano: int | None = None,
    keyless: bool = False,
    **fields: object,
) -> Reported:
    """Report the outcome of an action, and what it cost."""
    outcome = Outcome(id=id, cost_usd=usd, **{"ok": True, **fields})  # type: ignore[arg-type]
    event = report(t, outcome, agent)
    event.priced_nano = priced_nano
    event.keyless = keyless
    return event


def priced(proposed: Proposed, nano: int) -> Proposed:
    proposed.priced_nano = nano
    return proposed


def unpause(t: float, *sources: str, agent: str = "code") -> Unpaused:
    """End a budget pause because the request was approved."""
    return Unpaused(
        at=at(t),
        t=float(t),
        agent=agent,
        sources=sources or ("budget",),
        by="alice",
        approved=True,
    )


def marks(journal: Iterable[Event]) -> list[tuple[str, str, str]]:
    return [(e.mark, e.scope, e.id) for e in journal if isinstance(e, BudgetMarked)]


def pauses(journal: Iterable[Event]) -> list[Paused]:
    return [event for event in journal if isinstance(event, Paused)]
