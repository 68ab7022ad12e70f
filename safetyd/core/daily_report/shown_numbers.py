"""The report of a day, or of several: what people and programs are shown of the numbers.

However much happened, it has a bound: of long lists the foremost are shown, and the rest by number.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import reduce
from operator import add
from typing import Final, NamedTuple

from safetyd.core.action_types import Kinds
from safetyd.core.daily_report.asked_people import SPANS_S
from safetyd.core.daily_report.colour_rules import (
    RULES,
    DayFacts,
    RuleFound,
    colour_of,
    judge,
)
from safetyd.core.daily_report.day_numbers import BINS, MILLION, BudgetUse, DayNumbers, Stated
from safetyd.core.daily_report.report_parts import (
    AgentCalibration,
    AnomaliesPart,
    AnswerSpan,
    CalibrationBin,
    DailyReport,
    DayRow,
    HourRow,
    LimitsPart,
    OverridePart,
    PatternRow,
    PeoplePart,
    ScoresPart,
    Snapshots,
    VersionsPart,
)
from safetyd.core.daily_report.spared_questions import repeated
from safetyd.core.messages.money import nano, usd
from safetyd.core.policy import Policy

SHOWN_AGENTS: Final = 10
SHOWN_PATTERNS: Final = 10
SHOWN_NAMES: Final = 5
HOURS: Final = 24
# Rules that say who or what, which for several days is said of all together.
NAMED: Final = frozenset({"emergency_stop", "critical_anomaly", "high_anomaly", "rollback"})
OTHERS: Final = "all others"
ALL: Final = "all agents"


class ReportScope(NamedTuple):
    """What a report is about, and what is known besides the numbers."""

    since: date
    until: date
    policy: Policy
    so_far: bool = False
    broken: str = ""  # the first place where the audit chain is, of each day's files


def report_of_numbers(days: Mapping[date, DayNumbers], scope: ReportScope) -> DailyReport:
    """Return the report of the days from the first to the last of its scope."""
    wanted = dict(_wanted(days, scope))
    numbers = reduce(add, wanted.values(), DayNumbers())
    found = judge(DayFacts(numbers, scope.broken))
    rows: tuple[DayRow, ...] = ()
    if scope.since != scope.until:
        judged = {day: judge(DayFacts(each)) for day, each in wanted.items()}
        found = _of_days(judged, found)
        rows = tuple(_day_row(day, each, judged[day]) for day, each in wanted.items())
    return DailyReport(
        since=scope.since.isoformat(),
        until=scope.until.isoformat(),
        zone=scope.policy.timezone or "UTC",
        so_far=scope.so_far,
        events=numbers.events,
        colour=colour_of(found),
        found=found,
        limits=_limits(numbers, scope.policy),
        scores=_scores(numbers),
        versions=_versions(numbers),
        override=_override(numbers),
        anomalies=_anomalies(numbers),
        people=_people(numbers),
        questions=repeated(numbers, Kinds(scope.policy.types, scope.policy.profile)),
        calibration=tuple(_calibration(numbers)),
        hours=tuple(_hours(numbers)),
        days=rows,
    )


def _wanted(
    days: Mapping[date, DayNumbers], scope: ReportScope
) -> Iterator[tuple[date, DayNumbers]]:
    """Yield every day from the first with a record on, also those without one."""
    day = min((day for day in days if scope.since <= day <= scope.until), default=scope.since)
    while day <= scope.until:
        yield day, days.get(day) or DayNumbers()
        day += timedelta(days=1)


def _of_days(
    judged: Mapping[date, tuple[RuleFound, ...]], together: tuple[RuleFound, ...]
) -> tuple[RuleFound, ...]:
    """Return the rules that held on some day, and on which; of the files, once for all."""
    found: list[RuleFound] = []
    for rule in RULES:
        on = [day.isoformat() for day, held in judged.items() if rule.name in _names(held)]
        if on:
            more = f" and {len(on) - SHOWN_NAMES} more" if len(on) > SHOWN_NAMES else ""
            whole = next((held for held in together if held.rule == rule.name), None)
            days = f"{', '.join(on[:SHOWN_NAMES])}{more}"
            says = f"{rule.name.replace('_', ' ')} on {days}"
            if whole and rule.name in NAMED:
                says = f"{says}: {whole.says}"
            todo = whole.todo if whole else rule.todo
            found.append(RuleFound(rule=rule.name, colour=rule.colour, says=says, todo=todo))
        found += [held for held in together if held.rule == rule.name == "audit_broken"]
    return tuple(found)


def _names(found: Iterable[RuleFound]) -> tuple[str, ...]:
    return tuple(each.rule for each in found)


def _day_row(day: date, numbers: DayNumbers, found: tuple[RuleFound, ...]) -> DayRow:
    return DayRow(
        day=day.isoformat(),
        colour=colour_of(found),
        rules=_names(found),
        executed=numbers.executed,
        escalated=numbers.escalated,
        blocked=numbers.blocked,
        cost_usd=usd(numbers.cost_nano),
    )


def _limits(numbers: DayNumbers, policy: Policy) -> LimitsPart:
    use = numbers.budget
    if not use.limit:  # nothing was spent
        use = BudgetUse(0, nano(policy.budget.day_usd))
    left = max(use.limit - use.spent, 0)
    return LimitsPart(
        iterations=numbers.iterations,
        cost_usd=usd(numbers.cost_nano),
        bought_usd=usd(numbers.bought_nano),
        budget_usd=usd(use.limit) if use.limit else None,
        budget_left_usd=usd(left) if use.limit else None,
        budget_left_percent=_percent(left, use.limit),
        budgets_near=numbers.budgets_near,
        budgets_gone=numbers.budgets_gone,
    )


def _scores(numbers: DayNumbers) -> ScoresPart:
    return ScoresPart(
        executed=numbers.executed,
        by_grant=numbers.by_grant,
        approved=numbers.approved,
        escalated=numbers.escalated,
        blocked=numbers.blocked,
        refused=numbers.refused,
        confidence_percent=_percent(numbers.stated_millionths, numbers.stated * MILLION),
        stated=numbers.stated,
        succeeded=numbers.succeeded,
        failed=numbers.failed,
        error_percent=_percent(numbers.failed, numbers.outcomes),
        overdue=numbers.overdue,
        rules=dict(_most(numbers.restricting, SHOWN_PATTERNS)),
    )


def _versions(numbers: DayNumbers) -> VersionsPart:
    missing = numbers.missing_snapshots
    state: Snapshots = "MISSING" if missing else "OK" if numbers.snapshots else "none"
    return VersionsPart(
        commits=numbers.commits + numbers.commits_reported,
        commits_failed=numbers.commits_failed,
        rollbacks=numbers.rollbacks + numbers.rollbacks_reported,
        by_agents=numbers.commits_reported + numbers.rollbacks_reported,
        snapshots=state,
        snapshots_missing=missing[:SHOWN_NAMES],
    )


def _override(numbers: DayNumbers) -> OverridePart:
    return OverridePart(
        stops=numbers.stops,
        interventions=sum(numbers.interventions.values()),
        by_kind=dict(sorted(numbers.interventions.items())),
        queue=numbers.opened,
        waiting=numbers.waiting.value or 0,
        without_person_s=numbers.without_person.value,
        safe_modes=numbers.safe_modes,
    )


def _anomalies(numbers: DayNumbers) -> AnomaliesPart:
    counts = numbers.anomalies
    patterns = _most({rule: each.count for rule, each in numbers.patterns.items()}, SHOWN_PATTERNS)
    return AnomaliesPart(
        total=sum(counts.values()),
        critical=counts.get("critical", 0),
        high=counts.get("high", 0),
        medium=counts.get("medium", 0),
        low=counts.get("low", 0),
        patterns=tuple(
            PatternRow(rule=rule, count=count, agents=_foremost(numbers.patterns[rule].agents))
            for rule, count in patterns
        ),
    )


def _foremost(counts: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(name for name, _ in _most(counts, SHOWN_NAMES))


def _people(numbers: DayNumbers) -> PeoplePart:
    ends = (*SPANS_S, None)
    return PeoplePart(
        asked=numbers.opened,
        joined=numbers.joined,
        approved=numbers.yes,
        denied=numbers.no,
        expired=numbers.expired,
        withdrawn=numbers.withdrawn,
        average_s=round(numbers.took_ms / numbers.timed / 1000, 3) if numbers.timed else None,
        longest_s=numbers.longest_ms.value / 1000 if numbers.timed else None,
        spans=tuple(
            AnswerSpan(below_s=end, answers=numbers.within.get(number, 0))
            for number, end in enumerate(ends)
        ),
        messages=numbers.told,
        untold=len(numbers.untold),
    )


def _calibration(numbers: DayNumbers) -> Iterable[AgentCalibration]:
    """Yield all agents together, those with most to tell, and the rest as one."""
    by_agent = numbers.calibration
    counts = {agent: sum(b.count for b in bins.values()) for agent, bins in by_agent.items()}
    ranked = [agent for agent, _ in _most(counts, len(counts))]
    if ranked:
        yield _calibrated(ALL, [by_agent[agent] for agent in ranked])
    for agent in ranked[:SHOWN_AGENTS]:
        yield _calibrated(agent, [by_agent[agent]])
    if rest := ranked[SHOWN_AGENTS:]:
        yield _calibrated(OTHERS, [by_agent[agent] for agent in rest])


def _calibrated(agent: str, tables: Sequence[Mapping[int, Stated]]) -> AgentCalibration:
    bins = [
        reduce(add, (table[number] for table in tables if number in table), Stated())
        for number in range(BINS)
    ]
    whole = reduce(add, bins)
    stated, good = _stated(whole) or 0.0, _percent(whole.good, whole.count) or 0.0
    return AgentCalibration(
        agent=agent,
        count=whole.count,
        stated_percent=stated,
        good_percent=good,
        gap_percent=round(stated - good, 1),
        bins=tuple(_bin(number, each) for number, each in enumerate(bins)),
    )


def _bin(number: int, each: Stated) -> CalibrationBin:
    return CalibrationBin(
        from_percent=number * 100 // BINS,
        stated_percent=_stated(each),
        good_percent=_percent(each.good, each.count),
        succeeded=each.succeeded,
        failed=each.failed,
        approved=each.approved,
        denied=each.denied,
    )


def _stated(each: Stated) -> float | None:
    return _percent(each.sum_millionths, each.count * MILLION)


def _hours(numbers: DayNumbers) -> Iterable[HourRow]:
    for number in range(HOURS):
        hour = numbers.hours.get(number)
        yield (
            HourRow()
            if hour is None
            else HourRow(
                allowed=hour.allowed,
                asked=hour.asked,
                blocked=hour.blocked,
                cost_usd=usd(hour.cost_nano),
            )
        )


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None


def _most(counts: Mapping[str, int], shown: int) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda named: (-named[1], named[0]))[:shown]
