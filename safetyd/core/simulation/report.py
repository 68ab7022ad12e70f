"""The report of a simulation: its differences from the record."""

from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.messages.verdict import Severity

HOURS: Final = 24
EXAMPLES: Final = 3
TEXT_CHARS: Final = 120


class Change(msgspec.Struct, kw_only=True):
    """A count in the record (`was`) and in the simulation (`would`)."""

    was: int = 0
    would: int = 0


class HourlyChange(Change, kw_only=True):
    """Counts in total and by hour of the day, in the policy's time zone."""

    was_by_hour: list[int] = msgspec.field(default_factory=lambda: [0] * HOURS)
    would_by_hour: list[int] = msgspec.field(default_factory=lambda: [0] * HOURS)


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded decision, with the reason for the simulated decision."""

    seq: int
    at: datetime
    agent: str
    id: str
    type: str
    text: str
    reason: str


class Difference(msgspec.Struct, kw_only=True):
    """Decisions that differ because of one rule, which now applies or no longer applies."""

    was: Severity
    would: Severity
    rule: str
    count: int = 0
    denied: int = 0  # How many of these an operator denied in the record.
    # How many of these are allowed by an approval that the record used for another proposal.
    by_approval: int = 0
    agents: dict[str, int] = msgspec.field(default_factory=dict)
    examples: list[Example] = msgspec.field(default_factory=list)


class AnswersUsed(msgspec.Struct, kw_only=True):
    """The sources of the answers to requests of a simulation."""

    recorded: int = 0  # Answers to the same request.
    alike: int = 0  # Answers to another request for the same action, or one of the same shape.
    missing: int = 0  # Requests for which the record has no answer.
    not_taken: int = 0  # Answers that came too late, or in a way that the rules do not accept.


class SpendingChange(msgspec.Struct, kw_only=True):
    """The cost of actions in US dollars. It is estimated for actions without an outcome."""

    was_usd: float = 0.0
    would_usd: float = 0.0
    estimated_usd: float = 0.0  # The cost of actions that were not allowed in the record.


class AnomalyChange(Change, kw_only=True):
    severity: str
    example: str


class SimulationReport(msgspec.Struct, kw_only=True):
    """All differences. `loosened` counts blocked or denied actions that would be allowed."""

    first_at: datetime | None = None
    last_at: datetime | None = None
    events: int = 0
    decisions: int = 0  # Decisions that were made again.
    same: int = 0
    unread: int = 0  # Decisions that were not made again, because their text is masked.
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
        """True if the simulation has the same results as the record."""
        counted: list[Change] = [self.questions, *self.messages.values(), *self.anomalies.values()]
        spent = self.spending
        return (
            not self.differences
            and all(change.was == change.would for change in counted)
            and spent.was_usd == spent.would_usd
            and not spent.estimated_usd
        )
