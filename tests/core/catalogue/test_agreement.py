"""Log, feed, `watch`, audit lines, metrics, alerts, reports and simulation read one catalogue."""

import ast
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import msgspec
import pytest
from msgspec.structs import replace

from safetyd.console.render.audit_lines import record, tells_something
from safetyd.console.render.event_line import event_line as watched
from safetyd.console.terminal_text import plain
from safetyd.core.catalogue.catalogue import (
    CATALOGUE,
    NOTICES,
    alert_of,
    is_refusal,
    repeats_a_decision,
    sentence_of,
    severity_of,
)
from safetyd.core.daily_report.report_fold import ReportFold
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.cluster_events import StandbysChanged, TookOver
from safetyd.core.events.daemon_events import DiskMoved, SafetyEvent
from safetyd.core.events.decision_events import Decided, Overdue, Refused
from safetyd.core.events.event import LEVELS, Event, Level
from safetyd.core.events.guard_events import (
    AnomalyFound,
    BreakerMoved,
    BudgetMarked,
    SafeModeEntered,
)
from safetyd.core.events.notification_events import ChannelMoved, NotTold
from safetyd.core.events.request_events import Expired
from safetyd.core.policy import Configured, Policy
from safetyd.core.reporting.reporter import Reporter
from safetyd.core.simulation.recorded_lines import Consequence, follows, read_line
from safetyd.monitoring.event_log import EventLog
from safetyd.monitoring.metrics import Metrics
from safetyd.monitoring.published_events import published
from safetyd.operators.contract.decision_contract import EventRow
from safetyd.operators.views.decision_view import row_of
from tests.checkout import ROOT
from tests.event_samples import one_of_each
from tests.story import play, propose

# Names that dashboards and scripts know.
TYPES: Final = """
ACTION_BLOCKED ACTION_CLAIMED AGENT_PAUSED AGENT_RESUMED ANOMALY_DETECTED ARCHIVE_FAILED
BUDGET_RAISED CHANNEL_DOWN CHANNEL_UP CIRCUIT_RESET CIRCUIT_TRIPPED CLOCK_STEPPED COMMIT_FAILED
CONFIG_REJECTED CONFIG_RELOADED COST_BUDGET_EXCEEDED COST_STRUCK COST_WARNING DISK_FILLING
DISK_HAS_ROOM DISK_NEARLY_FULL DUTY_CHANGED EMERGENCY_RESUME EMERGENCY_STOP ESCALATION_DENIED
GRANT_CREATED GRANT_REVOKED GRANT_USED HANDED_OVER HOST_UNASKED KEYS_CHANGED LARGE_REPORT
MODE_VIOLATION NOTIFICATION_FAILED NO_STANDBY OUTCOME_UNKNOWN PERMISSION_DECIDED PERMISSION_EXPIRED
PERMISSION_REQUESTED RATE_LIMIT_BLOCK ROLLBACK_FAILED ROLLBACK_OFFERED ROLLED_BACK ROTA_READ
ROTA_UNREAD SAFE_MODE_ENTERED SAFE_MODE_EXITED SNAPSHOT_MISSING STANDBY_READY TAKEN_OVER
TAKEOVERS_REPEATED
"""
# Keys and titles of alerts that journals and checkpoints have.
ALERTS: Final = {
    "stop code drill": "STOPPED by alice: drill",
    "message email": "NOT TOLD: email did not deliver a message: 550 no such user",
    "channel_up email": "CHANNEL UP: email takes messages again",
    "channel email": "CHANNEL DOWN: email takes no messages: connection refused",
    "rota_read oncall.ics": "ON CALL: oncall.ics can be read again",
    "rota oncall.ics": "ON CALL: oncall.ics cannot be read",
    "safe_mode a": "SAFE MODE: a may only read",
    "safe_mode *": "SAFE MODE: everybody may only read",
    "budget.day warning * 2026-03-01": "WARNING: day budget 2026-03-01, $41.00 of $50.00 used",
    "large_report a 7": "LARGE REPORT: a reported $900000000.00",
    "budget.day exceeded * 2026-03-01": "EXCEEDED: day budget 2026-03-01, $41.00 of $50.00 used",
    "prohibited code change_password": "PROHIBITED: code proposed change_password",
    "anomaly.x medium a": "MEDIUM: m",
    "anomaly.x high a": "HIGH: m",
    "anomaly.x critical a": "CRITICAL: m",
    "anomaly.no_human medium a": "m",
    "host_unasked a": "NOT ASKED: a ran Bash without asking safetyd",
    "disk warn": "DISK FILLING: the disk at / is 88 % full: 1 B of 9 B is free",
    "disk critical": "DISK NEARLY FULL: the disk at / is 88 % full: 1 B of 9 B is free",
    "disk good": "DISK: there is room again",
    "commit shop": "NO HISTORY: project shop was not committed",
    "rollback shop a": "ERRORS: 3 in a row in project shop",
    "no rollback shop": "ROLLBACK NOT FINISHED: project shop",
    "snapshot": "SNAPSHOT MISSING: 2026-03-02",
    "archive 2026-W10": "NOT ARCHIVED: the week 2026-W10",
    "cluster takeovers": "TAKEOVER: b decides now, a does not answer",
    "cluster takeovers repeated": "3 TAKEOVERS WITHIN AN HOUR",
    "cluster no standby": "NO STANDBY: a is gone",
    "cluster no standby ended": "STANDBY: b can take over again",
}
HERE: Final = "tests.core.catalogue"
IN_LOG: Final = dict(
    zip(LEVELS, (logging.INFO, logging.WARNING, logging.ERROR, logging.ERROR), strict=True)
)
# How severe an event is at least whose alert is so urgent.
LEAST: Final[dict[str, Level]] = {"low": "low", "normal": "medium", "high": "high"}


# The forms of an event that have another notice, severity or alert.
FORMS: Final[dict[type[Event], tuple[dict[str, object], ...]]] = {
    AnomalyFound: (
        {"severity": "medium"},
        {"severity": "high"},
        {"severity": "critical"},
        {"severity": "medium", "rule": "anomaly.no_human"},
    ),
    BudgetMarked: tuple({"mark": "exceeded", "scope": scope} for scope in ("day", "session")),
    SafeModeEntered: ({"agent": None, "reason": "3 agents"},),
    BreakerMoved: ({"state": "closed"}, {"state": "half_open"}),
    NotTold: tuple({"state": s, "by": ""} for s in ("dead", "undelivered", "parked", "quiet")),
    ChannelMoved: ({"up": True, "why": ""},),
    Configured: ({"why": "reload"},),
    Refused: ({"cause": "rate_limit"},),
    Expired: ({"request_ids": ("req_1", "req_2")},),
    Overdue: ({"ids": ("p1", "p2")},),
    TookOver: ({"planned": True},),
    StandbysChanged: ({"standbys": ("b",), "gone": ()},),
}


def everything() -> Iterator[Event]:
    """Yield every event that there is, in every form."""
    for event in one_of_each():
        yield event
        yield from (replace(event, **form) for form in FORMS.get(type(event), ()))
        if isinstance(event, DiskMoved):
            full, good = (replace(event.use, level=level) for level in ("critical", "good"))
            yield from (replace(event, use=use) for use in (full, good))
    cloud = propose(1, type="model_call", provider="openai", model="gpt-5")
    yield from play(Engine(Policy(mode="development")), cloud)
    secret = propose(2, id="p2", type="change_password")
    yield from play(Engine(Policy()), propose(1, type="push"), secret)


def tag(event: Event) -> str:
    return str(type(event).__struct_config__.tag)


SAMPLES: Final = tuple(everything())
each = pytest.mark.parametrize("event", SAMPLES, ids=tag)


def notices(event: Event) -> list[SafetyEvent]:
    return [made for made in Reporter().observe(event) if isinstance(made, SafetyEvent)]


@pytest.mark.req("S1.29")
@pytest.mark.req("S1.30")
@pytest.mark.req("S1.34")
@pytest.mark.req("S1.32")
@pytest.mark.req("S1.33")
@pytest.mark.req("S1.2")
@each
def test_log_feed_watch_audit_and_metrics_agree_on_severity_and_words(
    event: Event, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "safetyd")
    for notice in notices(event):
        kind, level, words = notice.event_type, severity_of(notice), sentence_of(notice)
        row = row_of(notice)
        EventLog().observe([notice])
        metrics = Metrics("1")
        metrics.observe([notice])

        assert isinstance(row, EventRow)
        assert (row.type, row.severity, row.message) == (kind, level, words)
        assert f" {level:<8} {kind}: {plain(words)}" in watched(
            msgspec.json.decode(msgspec.json.encode(published(notice)))
        )
        assert record(encode(notice)).endswith(f"{kind}: {plain(words, 200)}")
        counted = f'safetyd_events_total{{severity="{level}",type="{kind}"}} 1.0'
        assert counted in b"".join(metrics.slices()).decode()
        # Decisions have lines of their own, and what an agent sent is not logged.
        logged = [] if repeats_a_decision(notice) else [(IN_LOG[level], True)]
        shown = sentence_of(replace(notice, reason="")) if is_refusal(notice) else words
        assert [
            (line.levelno, line.getMessage().endswith(f": {shown!r}")) for line in caplog.records
        ] == logged


@each
def test_an_alert_is_as_urgent_as_its_event_is_severe_and_says_the_same(event: Event) -> None:
    alert, found = alert_of(event), notices(event)
    if alert is None:
        return

    (notice,) = found
    if alert.clears:  # an all-clear is as urgent as a usual alert, so that it arrives as well
        assert (alert.urgency, severity_of(notice)) == ("normal", "low")
        return
    assert LEVELS.index(severity_of(notice)) >= LEVELS.index(LEAST[alert.urgency])
    assert severity_of(notice) != "critical" or alert.urgency == "high"
    said = f"{alert.title}\n{alert.text}"
    if isinstance(event, Decided):  # the reason has the agent's words, and is left out
        assert str(notice.metadata["rule"]) in said
    else:
        assert all(part in said for part in re.split("[;:] ", notice.reason)), notice.reason


@each
def test_a_report_agrees_with_the_event(event: Event) -> None:
    fold = ReportFold()
    fold.fold(event)
    for notice in notices(event):
        for day in fold.days.values():
            last = (day.last_stops, day.last_safe_modes, day.last_rollbacks)
            for holds in (*last, *day.last_anomalies.values()):
                assert all(hold.reason in sentence_of(notice) for hold in holds.holds)
            assert set(day.anomalies) <= {severity_of(notice)}


@each
def test_an_event_has_a_sentence_and_without_a_notice_it_is_in_the_audit_log_alone(
    event: Event, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "safetyd")
    entry, line = CATALOGUE[type(event)], encode(event)
    words = sentence_of(event)

    assert words
    assert "?" not in words
    assert plain(words, 200) in record(line)
    if not entry.says and not isinstance(event, SafetyEvent):
        assert [sentence_of(notice) for notice in notices(event)] == [words]
    if not entry.notices and not isinstance(event, SafetyEvent):
        EventLog().observe([event])
        assert (notices(event), alert_of(event), caplog.records) == ([], None, [])
    if entry.routine or (entry.follows is True and not entry.notices):
        assert not tells_something(line)


@each
def test_a_simulation_makes_what_follows_from_others_again(event: Event) -> None:
    entry, read = CATALOGUE[type(event)], read_line(encode(event))

    assert isinstance(read, Consequence) == (entry.follows is True and not entry.compared)
    assert follows(read) == (
        entry.follows if isinstance(entry.follows, bool) else entry.follows(event)
    )


def test_every_entry_and_every_notice_has_a_sample() -> None:
    made = {notice.event_type: severity_of(notice) for e in SAMPLES for notice in notices(e)}

    assert {type(event) for event in SAMPLES} == set(CATALOGUE)
    assert sorted(made) == sorted(NOTICES) == TYPES.split()
    for entry in CATALOGUE.values():
        assert all(NOTICES[notice.type] == notice for notice in entry.notices)


def test_keys_and_titles_of_alerts_stay_as_journals_have_them() -> None:
    assert {alert.key: alert.title for e in SAMPLES if (alert := alert_of(e))} == ALERTS


def test_an_event_of_another_version_is_shown_with_what_it_has() -> None:
    (stopped,) = (n for e in SAMPLES for n in notices(e) if n.event_type == "EMERGENCY_STOP")

    assert sentence_of(replace(stopped, metadata={})) == "? stopped code: drill"
    newer = replace(stopped, event_type="KETTLE_BOILED")
    assert (sentence_of(newer), severity_of(newer)) == ("drill", "low")


def test_no_other_module_has_a_table_of_notices() -> None:
    for path in (ROOT / "safetyd").rglob("*.py"):
        if path.parent.name == "catalogue":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Set | ast.Tuple | ast.List | ast.Dict):
                named = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
                assert len(named & NOTICES.keys()) < 3, f"{path}:{node.lineno}"


def test_a_new_event_is_its_struct_and_one_entry() -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {HERE}.new_entry, {HERE}.new_event"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    said = json.loads(done.stdout)
    words = "alice boiled the kettle: tea"
    assert said["journal"] == ["kettle_boiled", "due", "safety_event"]
    assert said["feed"] == ["KETTLE_BOILED", "high", words]
    assert said["alert"] == "KETTLE: tea"
    assert said["log"] == f"ERROR KETTLE_BOILED agent=code by='alice': {words!r}"
    assert said["watch"].endswith(f" high     KETTLE_BOILED: {words}")
    assert said["audit"].endswith(f"kettle_boiled  {words}")
    assert said["metrics"] == 'safetyd_events_total{severity="high",type="KETTLE_BOILED"} 1.0'
    assert said["simulation"] == "KettleBoiled"
