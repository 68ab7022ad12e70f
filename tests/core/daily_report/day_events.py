"""Events of a day, each in a line, for stories about reports."""

from datetime import timedelta
from typing import Any, Final, TypeVar

from safetyd.core.daily_report.colour_rules import DayFacts, judge
from safetyd.core.daily_report.day_numbers import DayNumbers
from safetyd.core.daily_report.report_fold import ReportFold
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import AnomalyFound, BudgetMarked
from safetyd.core.events.notification_events import Due, Item, NotTold, Told
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import ALLOW, BLOCK, Severity, Verdict
from safetyd.core.policy import Configured, Policy
from tests.story import NOON, at

HOUR: Final = 3600.0
DAY: Final = 86_400.0
FIRST: Final = NOON.date()
SECOND: Final = FIRST + timedelta(days=1)

Kind = TypeVar("Kind", bound=Event)


def happens(kind: type[Kind], t: float = 0.0, /, **fields: Any) -> Kind:
    return kind(at=at(t), t=t, **fields)


def decided(t: float = 0.0, id: str = "p1", **fields: Any) -> Decided:  # noqa: A002
    said = {name: fields.pop(name) for name in ("confidence", "cost_usd") if name in fields}
    known = {"agent": "code", "decision": ALLOW, "type": "edit_file", **fields}
    return happens(
        Decided,
        t,
        proposal=Proposal(type="edit_file", id=id, **said),
        digest="sha256:d",
        tier="auto_allowed",
        reversibility="reversible",
        risk="low",
        **known,
    )


def blocked(t: float = 0.0, guard: str = "gate", severity: Severity = BLOCK) -> Decided:
    verdict = Verdict(guard, severity, f"{guard}.x", "no")
    return decided(t, decision=severity, verdicts=(verdict,))


def configured(t: float = 0.0, policy: Policy | None = None) -> Configured:
    return happens(
        Configured, t, policy=policy or Policy(), digest="sha256:p", version="1", why="start"
    )


def anomaly(severity: str, t: float = 0.0, **fields: Any) -> AnomalyFound:
    said = {"rule": "anomaly.x", "message": "odd", **fields}
    return happens(AnomalyFound, t, severity=severity, **said)


def mark(mark_: str, scope: str = "day", t: float = 0.0) -> BudgetMarked:
    amounts = {"spent": 1.0, "reserved": 0.0, "limit": 50.0, "estimate": 0.0}
    return happens(BudgetMarked, t, mark=mark_, scope=scope, id="2026-03-01", **amounts)


def due(delivery: str, *refs: str, t: float = 0.0) -> Due:
    return happens(
        Due,
        t,
        delivery=delivery,
        recipient="alice",
        channel="email",
        urgency="normal",
        items=tuple(Item("alert", ref) for ref in refs),
    )


def told(delivery: str, t: float = 0.0) -> Told:
    return happens(Told, t, delivery=delivery, channel="email", state="accepted")


def not_told(delivery: str, state: str = "dead", t: float = 0.0, by: str = "") -> NotTold:
    return happens(NotTold, t, delivery=delivery, channel="email", state=state, by=by)


def folded(*events: Event) -> ReportFold:
    fold = ReportFold()
    for event in events:
        fold.fold(event)
    return fold


def numbers(*events: Event) -> DayNumbers:
    """Return what is counted of events that all happen on the first day."""
    return folded(*events).days[FIRST]


def rules(*events: Event, broken: str = "") -> list[str]:
    """Return the rules that hold on the first day."""
    return [found.rule for found in judge(DayFacts(numbers(*events), broken))]
