"""What a simulation found: what differs from the record, and how much."""

from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.messages.verdict import Severity

HOURS: Final = 24
EXAMPLES: Final = 3
TEXT_CHARS: Final = 120


class Change(msgspec.Struct, kw_only=True):
    """How often something was, and how often it would have been."""

    was: int = 0
    would: int = 0


class HourlyChange(Change, kw_only=True):
    """The same by hours of the day, in the zone of the rules."""

    was_by_hour: list[int] = msgspec.field(default_factory=lambda: [0] * HOURS)
    would_by_hour: list[int] = msgspec.field(default_factory=lambda: [0] * HOURS)


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One decision of the record; `reason` says why it would be as it would be."""

    seq: int
    at: datetime
    agent: str
    id: str
    type: str
    text: str
    reason: str


class Difference(msgspec.Struct, kw_only=True):
    """Decisions that one rule made other than they were: the new rule, or the one that is gone."""

    was: Severity
    would: Severity
    rule: str
    count: int = 0
    denied: int = 0  # of these, a person had said no
    by_approval: int = 0  # of these, an earlier approval allows it that the record used otherwise
    agents: dict[str, int] = msgspec.field(default_factory=dict)
    examples: list[Example] = msgspec.field(default_factory=list)


class AnswersUsed(msgspec.Struct, kw_only=True):
    """Where the answers to the questions of a simulation came from."""

    recorded: int = 0  # to the same question
    alike: int = 0  # to the same action, or one of its shape, at another time
    missing: int = 0  # nobody was asked about such a thing, so nobody answered
    not_taken: int = 0  # too late, or in a way that the rules do not take


class SpendingChange(msgspec.Struct, kw_only=True):
    """US dollars of actions that were reported. `estimated_usd` is what others were to cost."""

    was_usd: float = 0.0
    would_usd: float = 0.0
    estimated_usd: float = 0.0  # allowed now and not then, so that nobody knows what they cost


class AnomalyChange(Change, kw_only=True):
    severity: str
    example: str


class SimulationReport(msgspec.Struct, kw_only=True):
    """All that differs. `loosened` were blocked, by a rule or a person, and would be allowed."""

    first_at: datetime | None = None
    last_at: datetime | None = None
    events: int = 0
    decisions: int = 0  # decided again
    same: int = 0
    unread: int = 0  # their texts were masked, so they are taken as they were
    loosened: int = 0
    differences: list[Difference] = msgspec.field(default_factory=list)
    questions: HourlyChange = msgspec.field(default_factory=HourlyChange)
    questions_of: dict[str, Change] = msgspec.field(default_factory=dict)  # by agent
    answers: AnswersUsed = msgspec.field(default_factory=AnswersUsed)
    messages: dict[str, HourlyChange] = msgspec.field(default_factory=dict)  # by recipient
    spending: SpendingChange = msgspec.field(default_factory=SpendingChange)
    anomalies: dict[str, AnomalyChange] = msgspec.field(default_factory=dict)  # by rule

    @property
    def changes_nothing(self) -> bool:
        """Whether everything would have been as it was."""
        counted: list[Change] = [self.questions, *self.messages.values(), *self.anomalies.values()]
        spent = self.spending
        return (
            not self.differences
            and all(change.was == change.would for change in counted)
            and spent.was_usd == spent.would_usd
            and not spent.estimated_usd
        )
