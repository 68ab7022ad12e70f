"""Log, feed and alerts agree on how severe an event is."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest
from msgspec.structs import replace

from safetyd.core.events.daemon_events import DiskMoved, SafetyEvent
from safetyd.core.events.decision_events import Decided, Refused
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import AnomalyFound, BudgetMarked, SafeModeEntered
from safetyd.core.outbox.alert_rules import alert_of
from safetyd.core.reporting.reporter import Reporter
from safetyd.core.reporting.severity import LEVELS
from safetyd.monitoring.event_log import EventLog
from safetyd.operators.contract.decision_contract import DecisionsQuestion, EventRow
from safetyd.operators.views.decision_view import decisions_of
from tests.event_samples import one_of_each

RANKS: Final = ("low", "medium", "high", "critical")
IN_LOG: Final = {
    "low": logging.INFO,
    "medium": logging.WARNING,
    "high": logging.ERROR,
    "critical": logging.ERROR,
}
# How severe an event is at least whose alert is so urgent.
LEAST: Final = {"low": "low", "normal": "medium", "high": "high"}


def everything() -> Iterator[Event]:
    """Yield every event that there is, in every form that has another severity."""
    for event in one_of_each():
        yield event
        match event:
            case DiskMoved():
                for level in ("good", "critical"):
                    yield replace(event, use=replace(event.use, level=level))
            case AnomalyFound():
                yield from (replace(event, severity=level) for level in RANKS)
            case BudgetMarked():
                yield from (replace(event, mark="exceeded", scope=s) for s in ("day", "agent"))
            case SafeModeEntered():
                yield replace(event, agent=None)


@dataclass
class Lines(logging.Handler):
    levels: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __hash__(self) -> int:
        return id(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.levels.append(record.levelno)


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, log = Lines(), logging.getLogger("safetyd")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler
    log.removeHandler(handler)
    log.setLevel(before)


def told(event: Event) -> list[SafetyEvent]:
    reporter = Reporter()
    return [told for told in reporter.observe(event) if isinstance(told, SafetyEvent)]


def test_log_feed_and_alerts_agree_on_every_event(lines: Lines) -> None:
    seen = set[str]()
    for event in everything():
        for number, safety_event in enumerate(told(event), 1):
            answer = decisions_of(
                [replace(safety_event, seq=number)], 0, DecisionsQuestion(what="events")
            )
            assert answer is not None
            (row,) = answer.rows
            assert isinstance(row, EventRow)
            kind, severity = safety_event.event_type, row.severity
            seen.add(kind)
            lines.levels.clear()
            EventLog().observe([event, safety_event])
            if not isinstance(event, Decided | Refused):
                assert set(lines.levels) <= {IN_LOG[severity], logging.INFO}, kind
                assert (
                    kind not in LEVELS or not lines.levels or max(lines.levels) == IN_LOG[severity]
                )
            alert = alert_of(event)
            if alert is not None:
                assert RANKS.index(severity) >= RANKS.index(LEAST[alert.urgency]), kind
                assert severity != "critical" or alert.urgency == "high", kind
    assert seen <= LEVELS.keys()
    failures = {"DISK_NEARLY_FULL", "COMMIT_FAILED", "ROLLBACK_FAILED", "ARCHIVE_FAILED"}
    assert {LEVELS[kind] for kind in failures | {"SNAPSHOT_MISSING"}} == {"high"}
    assert failures <= seen
