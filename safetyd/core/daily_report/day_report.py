"""The report of one or several days. Each part has numbers, and lines that describe them.

Its size is limited: long lists show only their first entries. Names and commands from agents are
not sanitized here; every place that shows the report must do that.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import reduce
from operator import add
from typing import Final, Literal, NamedTuple, Self

import msgspec

from safetyd.core.action_types import Kinds
from safetyd.core.daily_report.asked_people import SPANS_S
from safetyd.core.daily_report.colour_rules import (
    RULES,
    SHOWN_NAMES,
    Colour,
    DayFacts,
    RuleFound,
    colour_of,
    first_of,
    judge,
)
from safetyd.core.daily_report.day_numbers import (
    BINS,
    MILLION,
    BudgetUse,
    DayNumbers,
    HourNumbers,
    PersonNumbers,
    Stated,
    shown,
    times,
)
from safetyd.core.daily_report.spared_questions import RepeatedQuestion, repeated
from safetyd.core.daily_report.sparing_changes import SparingChange, changes
from safetyd.core.messages.money import dollars, nano, usd
from safetyd.core.policy import Policy
from safetyd.core.text.time_words import duration, exact

SHOWN_AGENTS: Final = 10
SHOWN_PATTERNS: Final = 10
HOURS: Final = 24
HOUR_S: Final = 3600
# Rules whose reason names agents or projects. A report of several days names those of all days.
NAMED: Final = frozenset({"emergency_stop", "critical_anomaly", "high_anomaly", "rollback"})
OTHERS: Final = "all others"
ALL: Final = "all agents"
NOTHING: Final = "-"
SEVERITIES: Final = ("critical", "high", "medium", "low")
SPARING: Final = "Changes that would have spared the most"
CALIBRATION: Final = "Calibration: success rate by stated confidence"

Snapshots = Literal["OK", "MISSING", "none"]
Lines = Iterator[tuple[str, str]]  # names and values of numbers
Today = Callable[[str], str]  # adds "today" to the name of a number if the day is not over


class LimitsPart(msgspec.Struct, frozen=True, kw_only=True):
    """Layer 1, limits. If the day overlaps two UTC days, the larger use of the budget is shown."""

    iterations: int
    cost_usd: float
    budget_usd: float | None
    budget_left_usd: float | None
    budget_left_percent: float | None
    budgets_near: dict[str, int]
    budgets_gone: dict[str, int]
    bought_usd: float = 0.0

    @classmethod
    def of(cls, numbers: DayNumbers, policy: Policy) -> Self:
        use = numbers.budget
        if not use.limit:  # nothing was spent
            use = BudgetUse(0, nano(policy.budget.day_usd))
        left = max(use.limit - use.spent, 0)
        return shown(
            cls,
            numbers,
            cost_usd=usd(numbers.cost_nano),
            bought_usd=usd(numbers.bought_nano),
            budget_usd=usd(use.limit) if use.limit else None,
            budget_left_usd=usd(left) if use.limit else None,
            budget_left_percent=_percent(left, use.limit),
        )

    def lines(self, today: Today) -> Lines:
        yield today("Total iterations"), f"{self.iterations:,}"
        yield today("API cost"), in_dollars(self.cost_usd)
        if self.bought_usd:
            yield today("Purchases"), in_dollars(self.bought_usd)
        left = "no limit"
        if self.budget_left_usd is not None:
            left = f"{in_dollars(self.budget_left_usd)} ({self.budget_left_percent:.0f}%)"
        yield "Budget remaining", left
        if self.budgets_gone:
            yield "Budgets used up", _counted(self.budgets_gone)


class ScoresPart(msgspec.Struct, frozen=True, kw_only=True):
    """Layer 2, threshold scores."""

    executed: int
    by_grant: int
    approved: int
    escalated: int
    blocked: int
    refused: int
    confidence_percent: float | None
    stated: int
    succeeded: int
    failed: int
    error_percent: float | None
    overdue: int
    rules: dict[str, int]  # the most frequent restricting rules

    @classmethod
    def of(cls, numbers: DayNumbers) -> Self:
        return shown(
            cls,
            numbers,
            confidence_percent=_percent(numbers.stated_millionths, numbers.stated * MILLION),
            error_percent=_percent(numbers.failed, numbers.outcomes),
            rules=dict(_most(numbers.restricting, SHOWN_PATTERNS)),
        )

    def lines(self, _today: Today) -> Lines:
        granted = f" ({self.by_grant:,} by a grant)" if self.by_grant else ""
        yield "Actions auto-executed", f"{self.executed:,}{granted}"
        yield "Actions escalated", f"{self.escalated:,}"
        yield "Average confidence", in_percent(self.confidence_percent)
        yield "Actions blocked", f"{self.blocked:,}"
        yield "Executed after approval", f"{self.approved:,}"
        failed = f"{self.failed:,} failed ({in_percent(self.error_percent)})"
        unreported = f", {self.overdue:,} not reported" if self.overdue else ""
        yield "Outcomes", f"{self.succeeded:,} ok, {failed}{unreported}"
        if self.rules:
            yield "Most frequent rules", _counted(self.rules)


class VersionsPart(msgspec.Struct, frozen=True, kw_only=True):
    """Layer 3, version history. Commits and rollbacks that agents reported are included."""

    commits: int
    commits_failed: int
    rollbacks: int
    by_agents: int
    snapshots: Snapshots
    snapshots_missing: tuple[str, ...]

    @classmethod
    def of(cls, numbers: DayNumbers) -> Self:
        missing = numbers.missing_snapshots
        return shown(
            cls,
            numbers,
            commits=numbers.commits + numbers.commits_reported,
            rollbacks=numbers.rollbacks + numbers.rollbacks_reported,
            by_agents=numbers.commits_reported + numbers.rollbacks_reported,
            snapshots="MISSING" if missing else "OK" if numbers.snapshots else "none",
            snapshots_missing=missing[:SHOWN_NAMES],
        )

    def lines(self, today: Today) -> Lines:
        failed = f" ({self.commits_failed:,} failed)" if self.commits_failed else ""
        yield today("Commits"), f"{self.commits:,}{failed}"
        yield today("Rollbacks"), f"{self.rollbacks:,}"
        yield "State snapshots", f"{self.snapshots}{_in_brackets(self.snapshots_missing)}"


class OverridePart(msgspec.Struct, frozen=True, kw_only=True):
    """Layer 4, human override. `waiting` is the number of pending requests at the end."""

    stops: int
    interventions: int
    by_kind: dict[str, int]
    queue: int
    waiting: int
    without_person_s: int
    safe_modes: int

    @classmethod
    def of(cls, numbers: DayNumbers) -> Self:
        return shown(
            cls,
            numbers,
            interventions=sum(numbers.interventions.values()),
            by_kind=dict(sorted(numbers.interventions.items())),
            queue=numbers.opened,
            waiting=numbers.waiting.value or 0,
            without_person_s=numbers.without_person.value,
        )

    def lines(self, _today: Today) -> Lines:
        yield "Emergency stops", f"{self.stops:,}"
        kinds = f" ({_counted(self.by_kind).replace('_', ' ')})" if self.by_kind else ""
        yield "Manual interventions", f"{self.interventions:,}{kinds}"
        yield "Decision queue items", f"{self.queue:,} new, {self.waiting:,} pending at the end"
        alone_s = self.without_person_s
        alone = f"{alone_s // HOUR_S} h" if alone_s >= HOUR_S else duration(alone_s)
        yield "Longest time without an operator", alone


class PatternRow(msgspec.Struct, frozen=True, kw_only=True):
    rule: str
    count: int
    agents: tuple[str, ...]


class AnomaliesPart(msgspec.Struct, frozen=True, kw_only=True):
    """Layer 5, anomaly detection."""

    total: int
    critical: int
    high: int
    medium: int
    low: int
    patterns: tuple[PatternRow, ...]

    @classmethod
    def of(cls, numbers: DayNumbers) -> Self:
        counts, found = numbers.anomalies, numbers.patterns
        return cls(
            total=sum(counts.values()),
            **{severity: counts.get(severity, 0) for severity in SEVERITIES},
            patterns=tuple(
                PatternRow(
                    rule=rule,
                    count=count,
                    agents=tuple(name for name, _ in _most(found[rule].agents, SHOWN_NAMES)),
                )
                for rule, count in _most(
                    {rule: each.count for rule, each in found.items()}, SHOWN_PATTERNS
                )
            ),
        )

    def lines(self, _today: Today) -> Lines:
        yield "Anomalies detected", f"{self.total:,}"
        counts = " ".join(f"{name.upper()}({getattr(self, name)})" for name in SEVERITIES)
        yield "Severity breakdown", counts
        patterns = "; ".join(
            f"{row.rule} {times(row.count)}{_in_brackets(row.agents)}" for row in self.patterns
        )
        yield "Patterns observed", patterns or "none"


class AnswerSpan(msgspec.Struct, frozen=True, kw_only=True):
    """The number of answers that took less than `below_s`. The last span has no limit."""

    below_s: int | None
    answers: int

    def __str__(self) -> str:
        within = "later" if self.below_s is None else f"within {duration(self.below_s)}"
        return f"{self.answers:,} {within}"


class PeoplePart(msgspec.Struct, frozen=True, kw_only=True):
    asked: int
    joined: int
    approved: int
    denied: int
    expired: int
    withdrawn: int
    average_s: float | None
    longest_s: float | None
    spans: tuple[AnswerSpan, ...]
    messages: int
    untold: int

    @classmethod
    def of(cls, numbers: DayNumbers) -> Self:
        return shown(
            cls,
            numbers,
            asked=numbers.opened,
            approved=numbers.yes,
            denied=numbers.no,
            average_s=round(numbers.took_ms / numbers.timed / 1000, 3) if numbers.timed else None,
            longest_s=numbers.longest_ms.value / 1000 if numbers.timed else None,
            spans=tuple(
                AnswerSpan(below_s=end, answers=numbers.within.get(number, 0))
                for number, end in enumerate((*SPANS_S, None))
            ),
            messages=numbers.told,
            untold=len(numbers.untold),
        )

    def lines(self, _today: Today) -> Lines:
        joined = f", {self.joined:,} repeated" if self.joined else ""
        yield "Requests", f"{self.asked:,}{joined}"
        ended = (
            (self.approved, "approved"),
            (self.denied, "denied"),
            (self.expired, "expired"),
            (self.withdrawn, "withdrawn"),
        )
        yield "Answers", ", ".join(f"{number:,} {how}" for number, how in ended)
        if self.average_s is not None and self.longest_s is not None:
            took = f"{exact(self.average_s)} on average, {exact(self.longest_s)} at most"
            yield "Time to answer", took
            yield "Answered", ", ".join(str(span) for span in self.spans if span.answers)
        untold = f"; {self.untold:,} undelivered" if self.untold else ""
        yield "Messages sent", f"{self.messages:,}{untold}"


class PersonRow(msgspec.Struct, frozen=True, kw_only=True):
    """The messages to one recipient, and the answers of the operator with the same name."""

    name: str  # The recipient or operator.
    messages: int  # How many messages arrived.
    channels: dict[str, int]  # Messages by channel.
    worst_hour: int  # Most messages within an hour.
    at_night: int  # Messages in quiet hours.
    could_wait: int  # Messages in quiet hours that were not urgent.
    entries: int  # Requests, alerts and summaries in the messages.
    repeats: int  # Entries about something that the person had read shortly before.
    answers: int  # Answers to requests.
    average_s: float | None  # How long an answer took on average.

    @classmethod
    def of(cls, name: str, person: PersonNumbers) -> Self:
        return shown(
            cls,
            person,
            name=name,
            channels=dict(_most(person.channels, SHOWN_AGENTS)),
            worst_hour=person.worst_hour.value,
            average_s=round(person.took_ms / person.answers / 1000, 3) if person.answers else None,
        )

    def __str__(self) -> str:
        parts = [f"{self.messages:,} ({_counted(self.channels)})"] if self.messages else []
        if self.worst_hour > 1:
            parts.append(f"at most {self.worst_hour:,} in an hour")
        if self.at_night:
            parts.append(f"{self.at_night:,} in quiet hours")
        if self.average_s is not None:
            parts.append(f"{self.answers:,} answered in {exact(self.average_s)} on average")
        return ", ".join(parts)


class MessagesPart(msgspec.Struct, frozen=True, kw_only=True):
    """What the day was like for the people who got messages."""

    people: tuple[PersonRow, ...] = ()  # Those with the most messages first.
    hours: tuple[int, ...] = (0,) * HOURS  # Messages by local hour.
    messages: int = 0  # How many messages arrived.
    worst_hour: int = 0  # Most messages to one person within an hour.
    at_night: int = 0  # Messages in quiet hours.
    could_wait: int = 0  # Messages in quiet hours that were not urgent.
    entries: int = 0  # Requests, alerts and summaries in the messages.
    repeats: int = 0  # Entries about something that the person had read shortly before.

    @classmethod
    def of(cls, numbers: DayNumbers) -> Self:
        people = [PersonRow.of(name, person) for name, person in numbers.people.items()]
        people.sort(key=lambda row: (-row.messages, -row.answers, row.name))
        hours = [person.hours for person in numbers.people.values()]
        return cls(
            people=tuple(people[:SHOWN_AGENTS]),
            hours=tuple(sum(one.get(number, 0) for one in hours) for number in range(HOURS)),
            messages=sum(row.messages for row in people),
            worst_hour=max((row.worst_hour for row in people), default=0),
            at_night=sum(row.at_night for row in people),
            could_wait=sum(row.could_wait for row in people),
            entries=sum(row.entries for row in people),
            repeats=sum(row.repeats for row in people),
        )

    @property
    def says(self) -> str:
        """Return the day in one line."""
        if not self.messages:
            return "none"
        parts = [f"{self.messages:,}, at most {self.worst_hour:,} to one person in an hour"]
        if self.at_night:
            parts.append(f"{self.at_night:,} in quiet hours")
        if self.repeats:
            parts.append(f"{self.repeats:,} of {self.entries:,} entries repeated")
        return ", ".join(parts)

    def lines(self, _today: Today) -> Lines:
        yield "Messages", self.says
        yield from (
            (f"{'To' if row.messages else 'By'} {row.name}", str(row)) for row in self.people
        )
        by_hour = (f"{number:02}h {count:,}" for number, count in enumerate(self.hours) if count)
        if self.messages:
            yield "By hour", ", ".join(by_hour)
        if self.could_wait:
            yield "In quiet hours but not urgent", f"{self.could_wait:,}"


class CalibrationBin(msgspec.Struct, frozen=True, kw_only=True):
    """Actions with a stated confidence in one tenth, and how many succeeded or were approved."""

    from_percent: int
    stated_percent: float | None
    good_percent: float | None
    succeeded: int
    failed: int
    approved: int
    denied: int

    @classmethod
    def of(cls, number: int, each: Stated) -> Self:
        return shown(
            cls,
            each,
            from_percent=number * 100 // BINS,
            stated_percent=_stated(each),
            good_percent=_percent(each.good, each.count),
        )


class AgentCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """`gap_percent` is stated confidence minus success rate. Below 0, the agent is too cautious."""

    agent: str
    count: int
    stated_percent: float
    good_percent: float
    gap_percent: float
    bins: tuple[CalibrationBin, ...]

    @classmethod
    def of(cls, agent: str, tables: Sequence[Mapping[int, Stated]]) -> Self:
        bins = [
            reduce(add, (table[number] for table in tables if number in table), Stated())
            for number in range(BINS)
        ]
        whole = reduce(add, bins)
        stated, good = _stated(whole) or 0.0, _percent(whole.good, whole.count) or 0.0
        return cls(
            agent=agent,
            count=whole.count,
            stated_percent=stated,
            good_percent=good,
            gap_percent=round(stated - good, 1),
            bins=tuple(CalibrationBin.of(number, each) for number, each in enumerate(bins)),
        )

    @property
    def cells(self) -> tuple[str, ...]:
        tenths = (
            NOTHING if one.good_percent is None else f"{one.good_percent:.0f}" for one in self.bins
        )
        gap = f"{self.gap_percent:+.1f}"
        stated, good = in_percent(self.stated_percent), in_percent(self.good_percent)
        return (self.agent, stated, good, gap, f"{self.count:,}", *tenths)


class HourRow(msgspec.Struct, frozen=True, kw_only=True):
    allowed: int = 0
    asked: int = 0
    blocked: int = 0
    cost_usd: float = 0.0


class DayRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row for one day in a report of several days."""

    day: str
    colour: Colour
    rules: tuple[str, ...]
    executed: int
    escalated: int
    blocked: int
    cost_usd: float

    @property
    def cells(self) -> tuple[str, ...]:
        numbers = (f"{number:,}" for number in (self.executed, self.escalated, self.blocked))
        why = ", ".join(self.rules).replace("_", " ") or NOTHING
        return (self.day, self.colour, *numbers, in_dollars(self.cost_usd), why)


class Section(NamedTuple):
    """A part of the report as text: the names and values of its numbers."""

    title: str
    lines: tuple[tuple[str, str], ...]


class DailyReport(msgspec.Struct, frozen=True, kw_only=True):
    """A report. `since` and `until` are its first and last day, which may be the same."""

    since: str
    until: str
    zone: str
    so_far: bool  # True: the last day is not over.
    events: int
    colour: Colour
    found: tuple[RuleFound, ...]
    limits: LimitsPart
    scores: ScoresPart
    versions: VersionsPart
    override: OverridePart
    anomalies: AnomaliesPart
    people: PeoplePart
    questions: tuple[RepeatedQuestion, ...]
    messages: MessagesPart = MessagesPart()  # What the day was like for people.
    changes: tuple[SparingChange, ...] = ()  # Those that would have spared the most.
    calibration: tuple[AgentCalibration, ...]  # All agents together first, then single agents.
    hours: tuple[HourRow, ...]
    days: tuple[DayRow, ...] = ()  # One row for each day; empty if the report is about one day.

    @property
    def name(self) -> str:
        return "daily report" if self.since == self.until else "report"

    @property
    def period(self) -> str:
        said = self.since if self.since == self.until else f"{self.since} to {self.until}"
        return f"{said} ({self.zone}{', so far' if self.so_far else ''})"

    @property
    def title(self) -> str:
        return f"Safety Net {self.name.title()} - {self.period}"

    @property
    def health(self) -> str:
        """A sentence for a day on which no rule applies."""
        return "" if self.found else "Nothing to report."

    @property
    def sections(self) -> tuple[Section, ...]:
        """The five layers, then people."""
        parts = (
            ("Layer 1: Cooldowns & Limits", self.limits),
            ("Layer 2: Threshold Scores", self.scores),
            ("Layer 3: Version History", self.versions),
            ("Layer 4: Human Override", self.override),
            ("Layer 5: Anomaly Detection", self.anomalies),
            ("People", self.people),
            ("Messages", self.messages),
        )
        return tuple(Section(title, tuple(part.lines(self._today))) for title, part in parts)

    @property
    def tables(self) -> tuple[tuple[str, list[tuple[str, ...]]], ...]:
        """Tables with their titles. The first row of each table is its heading."""
        tables = []
        if self.calibration:
            tenths = (f"{each.from_percent}+" for each in self.calibration[0].bins)
            heading = ("agent", "stated", "success", "gap", "count", *tenths)
            tables.append((CALIBRATION, [heading, *(each.cells for each in self.calibration)]))
        if self.days:
            heading = ("day", "status", "executed", "escalated", "blocked", "cost", "rules")
            tables.append(("Days", [heading, *(row.cells for row in self.days)]))
        return tuple(tables)

    def _today(self, name: str) -> str:
        """Return the name of a number, with "today" if the report is about today."""
        return f"{name} today" if self.so_far and self.since == self.until else name


class ReportScope(NamedTuple):
    """The days of a report, and all other input except the numbers."""

    since: date
    until: date
    policy: Policy
    so_far: bool = False
    broken: str = ""  # where the audit chain is first broken


def report_of_numbers(days: Mapping[date, DayNumbers], scope: ReportScope) -> DailyReport:
    """Return the report of the days in a scope."""
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
        limits=LimitsPart.of(numbers, scope.policy),
        scores=ScoresPart.of(numbers),
        versions=VersionsPart.of(numbers),
        override=OverridePart.of(numbers),
        anomalies=AnomaliesPart.of(numbers),
        people=PeoplePart.of(numbers),
        messages=MessagesPart.of(numbers),
        changes=changes(numbers, scope.policy),
        questions=repeated(numbers, Kinds(scope.policy.types, scope.policy.profile)),
        calibration=tuple(_calibration(numbers)),
        hours=tuple(_hours(numbers)),
        days=rows,
    )


def in_dollars(amount: float) -> str:
    return dollars(nano(amount))


def in_percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}%"


def _wanted(
    days: Mapping[date, DayNumbers], scope: ReportScope
) -> Iterator[tuple[date, DayNumbers]]:
    """Yield every day since the first recorded one, including days without a record."""
    day = min((day for day in days if scope.since <= day <= scope.until), default=scope.since)
    while day <= scope.until:
        yield day, days.get(day) or DayNumbers()
        day += timedelta(days=1)


def _of_days(
    judged: Mapping[date, tuple[RuleFound, ...]], together: tuple[RuleFound, ...]
) -> tuple[RuleFound, ...]:
    """Return the rules that applied on any day, with their days.

    A broken audit chain is listed only once.
    """
    found: list[RuleFound] = []
    for rule in RULES:
        on = [day.isoformat() for day, held in judged.items() if rule.name in _names(held)]
        if on:
            whole = next((held for held in together if held.rule == rule.name), None)
            says = f"{rule.name.replace('_', ' ')} on {first_of(on)}"
            if whole and rule.name in NAMED:
                says = f"{says}: {whole.says}"
            todo = whole.todo if whole else rule.todo
            found.append(RuleFound(rule=rule.name, colour=rule.colour, says=says, todo=todo))
        found += [held for held in together if held.rule == rule.name == "audit_broken"]
    return tuple(found)


def _names(found: Iterable[RuleFound]) -> tuple[str, ...]:
    return tuple(each.rule for each in found)


def _day_row(day: date, numbers: DayNumbers, found: tuple[RuleFound, ...]) -> DayRow:
    return shown(
        DayRow,
        numbers,
        day=day.isoformat(),
        colour=colour_of(found),
        rules=_names(found),
        cost_usd=usd(numbers.cost_nano),
    )


def _calibration(numbers: DayNumbers) -> Iterable[AgentCalibration]:
    """Yield one entry for all agents, the agents with the most outcomes, and one for the rest."""
    by_agent = numbers.calibration
    counts = {agent: sum(b.count for b in bins.values()) for agent, bins in by_agent.items()}
    ranked = [agent for agent, _ in _most(counts, len(counts))]
    if ranked:
        yield AgentCalibration.of(ALL, [by_agent[agent] for agent in ranked])
    for agent in ranked[:SHOWN_AGENTS]:
        yield AgentCalibration.of(agent, [by_agent[agent]])
    if rest := ranked[SHOWN_AGENTS:]:
        yield AgentCalibration.of(OTHERS, [by_agent[agent] for agent in rest])


def _stated(each: Stated) -> float | None:
    return _percent(each.sum_millionths, each.count * MILLION)


def _hours(numbers: DayNumbers) -> Iterable[HourRow]:
    for number in range(HOURS):
        hour = numbers.hours.get(number, HourNumbers())
        yield shown(HourRow, hour, cost_usd=usd(hour.cost_nano))


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None


def _most(counts: Mapping[str, int], most: int) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda named: (-named[1], named[0]))[:most]


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())


def _in_brackets(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""
