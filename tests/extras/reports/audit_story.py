"""A day that an engine has lived through, and the audit files that tell of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.events.history_events import Committed, RolledBack, SnapshotTaken
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.messages.telemetry import Iteration, Outcome
from safetyd.core.policy import Policy
from safetyd.journal.audit import Audit
from tests.core.approvals.queue_story import QueueStory
from tests.core.daily_report.day_events import (
    DAY,
    HOUR,
    anomaly,
    configured,
    due,
    happens,
    not_told,
)
from tests.story import propose, report, resume, stop

POLICY: Final = Policy(timezone="Europe/Berlin", budget=BudgetConfig(day_usd=20.0))


def rich_day() -> list[Event]:
    """Return the journal of a day on which there is something of everything."""
    people = QueueStory(POLICY)
    people.happens(configured(-36 * HOUR, POLICY))
    people.happens(happens(PersonSeen, -30 * HOUR, by="alice", how="ack"))
    _work(people)
    _questions(people)
    people.happens(stop(100), resume(160), anomaly("high", 170.0, agent="shop"))
    people.happens(anomaly("low", 180.0, rule="anomaly.loop", agent="code"))
    people.happens(
        happens(Committed, 190.0, project="web", commit="c1", why="after", agent="code"),
        happens(RolledBack, 200.0, project="web", kind="soft", commit="c1", kept="c2", by="alice"),
        happens(SnapshotTaken, 210.0, day="2026-03-01", files=10, size=4096),
        due("d1", "note_1", t=220.0),
        not_told("d1", t=230.0),
        report(240, Iteration()),
    )
    people.happens(anomaly("medium", DAY, rule="anomaly.of_tomorrow"))
    return people.journal


def _work(people: QueueStory) -> None:
    for number in range(4):
        id_ = f"w{number}"
        people.proposes(propose(number, id=id_, confidence=0.85, cost_usd=0.5))
        people.happens(report(number + 0.5, Outcome(id=id_, ok=number > 0, cost_usd=1.25)))
    people.proposes(propose(10, id="b1", type="run_shell", text="rm -rf /"))


def _questions(people: QueueStory) -> None:
    for number in range(3):
        asked = people.asks(20 + number * 10, f"q{number}", confidence=0.95, agent="shop")
        people.happens(happens(PersonSeen, 24.0 + number * 10, by="alice", how="cli"))
        people.answers(24 + number * 10, asked.request_id)
        people.asks(25 + number * 10, f"u{number}", agent="shop")  # uses the approval
    people.asks(90, "open", text="git push origin `date` | tee <b>", agent="shop")


class AuditFolder:
    """The audit files of a data directory, to which events are written."""

    def __init__(self, data_dir: Path, max_bytes: int = 1024 * 1024) -> None:
        self.path = data_dir / "audit"
        self._audit = Audit(self.path, max_bytes)
        self._audit.open()

    def write(self, events: Sequence[Event]) -> None:
        for event in events:
            self._audit.append([encode(event)], event.seq)

    @property
    def seq(self) -> int:
        return self._audit.seq


def numbered(events: Sequence[Event], after: int = 0) -> list[Event]:
    """Give events their numbers, as an engine does."""
    for number, event in enumerate(events, after + 1):
        event.seq = number
    return list(events)
