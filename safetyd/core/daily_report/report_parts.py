"""The report of a day as people and programs are shown it, part by part."""

from typing import Literal

import msgspec

from safetyd.core.daily_report.colour_rules import Colour, RuleFound
from safetyd.core.daily_report.spared_questions import RepeatedQuestion

Snapshots = Literal["OK", "MISSING", "none"]


class LimitsPart(msgspec.Struct, frozen=True, kw_only=True):
    """Layer 1. The budget is that of the UTC day; of two in one day, the fuller one."""

    iterations: int
    cost_usd: float
    budget_usd: float | None
    budget_left_usd: float | None
    budget_left_percent: float | None
    budgets_near: dict[str, int]
    budgets_gone: dict[str, int]
    bought_usd: float = 0.0


class ScoresPart(msgspec.Struct, frozen=True, kw_only=True):
    """Layer 2."""

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
    rules: dict[str, int]  # that restricted most often


class VersionsPart(msgspec.Struct, frozen=True, kw_only=True):
    """Layer 3; agents report some commits and rollbacks of their own."""

    commits: int
    commits_failed: int
    rollbacks: int
    by_agents: int
    snapshots: Snapshots
    snapshots_missing: tuple[str, ...]


class OverridePart(msgspec.Struct, frozen=True, kw_only=True):
    """Layer 4. `waiting` is how many requests waited at the end."""

    stops: int
    interventions: int
    by_kind: dict[str, int]
    queue: int
    waiting: int
    without_person_s: int
    safe_modes: int


class PatternRow(msgspec.Struct, frozen=True, kw_only=True):
    rule: str
    count: int
    agents: tuple[str, ...]


class AnomaliesPart(msgspec.Struct, frozen=True, kw_only=True):
    """Layer 5."""

    total: int
    critical: int
    high: int
    medium: int
    low: int
    patterns: tuple[PatternRow, ...]


class AnswerSpan(msgspec.Struct, frozen=True, kw_only=True):
    """How many answers took less than so long; the last has no end."""

    below_s: int | None
    answers: int


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


class CalibrationBin(msgspec.Struct, frozen=True, kw_only=True):
    """What was stated between two tenths, and how much of it went well or was approved."""

    from_percent: int
    stated_percent: float | None
    good_percent: float | None
    succeeded: int
    failed: int
    approved: int
    denied: int


class AgentCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """`gap_percent` is how much more was stated than came true; below 0 an agent is too modest."""

    agent: str
    count: int
    stated_percent: float
    good_percent: float
    gap_percent: float
    bins: tuple[CalibrationBin, ...]


class HourRow(msgspec.Struct, frozen=True, kw_only=True):
    allowed: int = 0
    asked: int = 0
    blocked: int = 0
    cost_usd: float = 0.0


class DayRow(msgspec.Struct, frozen=True, kw_only=True):
    """One of several days."""

    day: str
    colour: Colour
    rules: tuple[str, ...]
    executed: int
    escalated: int
    blocked: int
    cost_usd: float


class DailyReport(msgspec.Struct, frozen=True, kw_only=True):
    """`since` and `until` are the first and the last day; of one day both are the same."""

    since: str
    until: str
    zone: str
    so_far: bool  # the last day is not over
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
    calibration: tuple[AgentCalibration, ...]  # all together first
    hours: tuple[HourRow, ...]
    days: tuple[DayRow, ...] = ()  # of several
