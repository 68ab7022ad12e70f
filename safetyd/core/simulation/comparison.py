"""Counts the differences between the record and a simulation."""

from datetime import datetime, tzinfo
from typing import Literal

from safetyd.core.approvals.grants import cost
from safetyd.core.events.decision_events import Decided, Settled
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import AnomalyFound
from safetyd.core.events.notification_events import Due
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.money import nano, usd
from safetyd.core.messages.verdict import ALLOW, BLOCK, Severity, strictest
from safetyd.core.simulation.report import (
    EXAMPLES,
    TEXT_CHARS,
    AnomalyChange,
    Change,
    Difference,
    Example,
    HourlyChange,
    SimulationReport,
)

Side = Literal["was", "would"]


class Comparison:
    """Fills a report with counts from the record and from the simulation."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._found: dict[tuple[Severity, Severity, str], Difference] = {}
        # By the id of a recorded request that the simulation does not open.
        self._allowed: dict[str, Difference] = {}
        self._spent: dict[Side, int] = {"was": 0, "would": 0}
        self._estimates: dict[tuple[str, str], int] = {}
        self._messages: dict[str, HourlyChange] = {}
        self.report = SimulationReport()

    def decided(self, was: Decided, would: Decision, made: Decided | None) -> bool:
        """Compare a decision. Return True if the simulated decision is stricter."""
        report = self.report
        report.decisions += 1
        self._asked("was", was)
        if made is not None:
            self._asked("would", made)
        before, after = was.decision, would.decision
        if before is after and (made is None or _same_rules(was, made)):
            report.same += 1
            return False
        difference = self._difference(was, would)
        if after is ALLOW:
            self._loosened(was, difference)
            difference.by_approval += made is not None and made.uses is not None
            if made is not None and (nano_ := cost(made)):
                self._estimates[was.agent, was.id] = nano_
        return after.rank > before.rank

    def denied(self, request_id: str) -> None:
        """Count a denied request that the simulation would allow without approval."""
        if (difference := self._allowed.pop(request_id, None)) is not None:
            difference.denied += 1
            self.report.loosened += 1

    def followed(self, side: Side, event: Event) -> None:
        """Count a consequence: a message, an anomaly or a cost."""
        match event:
            case Settled():
                self._settled(side, event)
            case Due():
                self._due(side, event)
            case AnomalyFound():
                self._anomaly(side, event)

    def finished(self) -> SimulationReport:
        """Return the report, with the most important differences first."""
        report, found = self.report, self._found.values()
        report.differences = sorted(found, key=lambda d: (-_weight(d), -d.count, d.rule))
        report.spending.was_usd = usd(self._spent["was"])
        report.spending.would_usd = usd(self._spent["would"])
        report.spending.estimated_usd = usd(sum(self._estimates.values()))
        report.messages = dict(sorted(self._messages.items()))
        return report

    def _difference(self, was: Decided, would: Decision) -> Difference:
        before, after = was.decision, would.decision
        looser = after.rank < before.rank
        rule = strictest(was.verdicts).rule if looser else _headline(would)
        key = before, after, rule
        if (found := self._found.get(key)) is None:
            found = self._found[key] = Difference(was=before, would=after, rule=rule)
        found.count += 1
        found.agents[was.agent] = found.agents.get(was.agent, 0) + 1
        if len(found.examples) < EXAMPLES:
            found.examples.append(_example(was, would.reason))
        return found

    def _loosened(self, was: Decided, difference: Difference) -> None:
        if was.decision is BLOCK:
            self.report.loosened += 1
        elif was.asks is not None:
            self._allowed[was.asks.request_id] = difference

    def _asked(self, side: Side, decided: Decided) -> None:
        if decided.asks is None or decided.asks.joins:
            return
        _count(self.report.questions, side, self._hour(decided.at))
        change = self.report.questions_of.setdefault(decided.agent, Change())
        _add(change, side)

    def _due(self, side: Side, event: Due) -> None:
        change = self._messages.setdefault(event.recipient, HourlyChange())
        _count(change, side, self._hour(event.at))

    def _anomaly(self, side: Side, event: AnomalyFound) -> None:
        known = self.report.anomalies.get(event.rule)
        if known is None:
            known = AnomalyChange(severity=event.severity, example=event.message)
            self.report.anomalies[event.rule] = known
        _add(known, side)

    def _settled(self, side: Side, event: Settled) -> None:
        if side == "would" and self._estimates:
            self._estimates.pop((event.agent, event.id or ""), None)
        said = 0 if event.cost_usd is None else nano(event.cost_usd)
        self._spent[side] += max(said, event.priced_nano or 0)

    def _hour(self, at: datetime) -> int:
        return at.astimezone(self._zone).hour


def _count(change: HourlyChange, side: Side, hour: int) -> None:
    _add(change, side)
    (change.was_by_hour if side == "was" else change.would_by_hour)[hour] += 1


def _add(change: Change, side: Side) -> None:
    if side == "was":
        change.was += 1
    else:
        change.would += 1


def _same_rules(one: Decided, other: Decided) -> bool:
    if not one.verdicts and not other.verdicts:
        return True
    return [(v.rule, *v.also) for v in one.verdicts] == [(v.rule, *v.also) for v in other.verdicts]


def _headline(decision: Decision) -> str:
    """Return the rule of the strictest verdict, or an empty string if there are no verdicts."""
    opinions = sorted(decision.verdicts, key=lambda opinion: -opinion.decision.rank)
    return opinions[0].rule if opinions else ""


def _weight(difference: Difference) -> int:
    """Return the importance of a difference. Blocked actions that would be allowed come first."""
    if difference.would is ALLOW and difference.was is BLOCK:
        return 3
    return (
        2
        if difference.would.rank < difference.was.rank
        else int(difference.would is not difference.was)
    )


def _example(was: Decided, reason: str) -> Example:
    proposal = was.proposal
    return Example(
        seq=was.seq,
        at=was.at,
        agent=was.agent,
        id=was.id,
        type=was.type,
        text=(proposal.text or proposal.description)[:TEXT_CHARS],
        reason=reason,
    )
