import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.decision_events import Decided, Refused
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    AnomalyFound,
    BreakerMoved,
    BudgetMarked,
    Paused,
    SafeModeEntered,
    SafeModeExited,
    Unpaused,
)
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.policy import Policy
from safetyd.monitoring.event_log import EventLog, log, set_up
from tests.conftest import StartDaemon
from tests.story import at, play, propose, report, resume, stop


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")
    handlers, level, propagate = list(log.handlers), log.level, log.propagate
    yield
    log.handlers[:] = handlers
    log.setLevel(level)
    log.propagate = propagate


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_block_is_one_line_with_its_rule(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(verbose=False)

    EventLog().observe(play(Engine(Policy()), propose(0, type="run_shell", text="rm -rf /")))

    assert said(capsys) == [
        "INFO    safetyd: block agent=code type='run_shell' rule='gate.blocklist:rm_rf' id=p1 seq=1"
    ]


def test_lines_have_a_time_where_nobody_else_adds_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOURNAL_STREAM")
    set_up(verbose=False)

    EventLog().observe([stop(0)])

    assert re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ERROR   safetyd: ", said(capsys)[0])


def test_allow_of_low_risk_is_not_worth_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(verbose=False)

    EventLog().observe(play(Engine(Policy()), propose(0)))

    assert said(capsys) == []


def test_verbose_log_has_allows_too(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(verbose=True)

    EventLog().observe(play(Engine(Policy()), propose(0)))

    (line,) = said(capsys)
    assert "allow agent=code" in line


def test_stop_and_resume_are_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(verbose=False)

    EventLog().observe(play(Engine(Policy()), stop(0), resume(1)))

    assert said(capsys) == [
        "ERROR   safetyd: stopped by='alice' agent=None reason='drill'",
        "WARNING safetyd: resumed by='alice' agent=None reason=''",
    ]


def test_clock_steps_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(verbose=False)

    EventLog().observe(play(Engine(Policy()), ClockStepped(at=at(0), t=0, seconds=-60.0)))

    assert said(capsys) == [
        "WARNING safetyd: CLOCK_STEPPED seconds=-60.0: 'the wall clock stepped by -60.0 s'"
    ]


WHEN: dict[str, Any] = {"at": at(0), "t": 0.0}


@pytest.mark.req("S1.2")
@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            Paused(agent="code", source="operator", by="alice", reason="lunch", **WHEN),
            "ERROR   safetyd: AGENT_PAUSED agent=code source='operator' by='alice': 'lunch'",
        ),
        (
            Unpaused(agent="code", sources=("operator",), by="alice", **WHEN),
            "INFO    safetyd: AGENT_RESUMED agent=code sources='operator' by='alice': ''",
        ),
        (
            SafeModeEntered(by="safetyd", reason="3 agents", **WHEN),
            "ERROR   safetyd: SAFE_MODE_ENTERED by='safetyd' errors=0: '3 agents'",
        ),
        (
            SafeModeExited(agent="code", by="alice", forced=True, reason="fixed", **WHEN),
            "INFO    safetyd: SAFE_MODE_EXITED agent=code by='alice' forced=True: 'fixed'",
        ),
        (
            BreakerMoved(breaker="api", state="open", reason="5 failures in a row", **WHEN),
            "WARNING safetyd: CIRCUIT_TRIPPED breaker='api' state='open': '5 failures in a row'",
        ),
        (
            BreakerMoved(breaker="api", state="closed", reason="3 probes", **WHEN),
            "INFO    safetyd: CIRCUIT_RESET breaker='api' state='closed': '3 probes'",
        ),
        (
            BudgetMarked(
                mark="warning",
                scope="day",
                id="d",
                spent=40,
                reserved=1,
                limit=50,
                estimate=1,
                **WHEN,
            ),
            "WARNING safetyd: COST_WARNING scope='day' id='d': 'day budget: $41.00 of $50.00 used'",
        ),
        (
            Refused(agent="code", cause="malformed", count=3, example="hunter2", **WHEN),
            "INFO    safetyd: refused agent=code cause=malformed count=3",
        ),
    ],
)
def test_what_holds_an_agent_back_is_one_line(
    event: Event, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up(verbose=False)

    EventLog().observe(Engine(Policy()).handle(event))

    assert said(capsys) == [line]


@pytest.mark.req("S2.36")
@pytest.mark.req("S2.37")
@pytest.mark.parametrize(
    ("severity", "level"), [("low", "INFO   "), ("medium", "WARNING"), ("high", "ERROR  ")]
)
def test_anomaly_of_any_severity_is_logged(
    severity: Any, level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up(verbose=False)
    found = AnomalyFound(
        rule="anomaly.x", severity=severity, message="Unusual", agent="code", **WHEN
    )

    EventLog().observe(Engine(Policy()).handle(found))

    facts = f"agent=code rule='anomaly.x' severity='{severity}'"
    assert f"{level} safetyd: ANOMALY_DETECTED {facts}: 'Unusual'" in said(capsys)


@pytest.mark.req("S2.14")
def test_allow_of_medium_risk_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(verbose=False)

    EventLog().observe(play(Engine(Policy()), propose(0, type="edit_file")))

    assert said(capsys) == [
        "INFO    safetyd: allow agent=code type='edit_file' risk=medium count=1 id=p1 seq=1"
    ]


@pytest.mark.req("S2.14")
def test_many_allows_of_a_second_are_counted_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up(verbose=False)
    engine, time = Engine(Policy()), [7.0]
    written = EventLog(lambda: time[0])

    for number in range(40):
        edit = propose(0, id=f"p{number}", type="edit_file", digest=f"sha256:{number}")
        written.observe([event for event in play(engine, edit) if isinstance(event, Decided)])
    first = said(capsys)
    time[0] += 1.0
    written.observe([])
    rest = said(capsys)
    time[0] += 1.0
    written.observe([])

    assert [line.partition("risk=")[2] for line in first] == ["medium count=1 id=p0 seq=1"]
    assert [line.partition(" id=")[0] for line in rest] == [
        "INFO    safetyd: allow agent=code type='edit_file' risk=medium count=39"
    ]
    assert said(capsys) == []


def test_dry_run_is_no_action_and_has_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(verbose=False)

    EventLog().observe(play(Engine(Policy()), propose(0, type="edit_file", dry_run=True)))

    assert said(capsys) == []


def test_what_agents_type_do_and_fail_with_is_not_in_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up(verbose=True)
    secret = "hunter2"
    failed = report(2, Outcome(id="p1", ok=False, error=secret, description=secret))

    events = play(
        Engine(Policy()),
        propose(0, type="edit_file", text=secret, description=secret, paths=(secret,)),
        propose(1, id="p2", type="type", text=secret, target=Target(label="Password")),
        failed,
    )
    EventLog().observe(events)

    assert secret not in "".join(said(capsys))


def test_agents_words_cannot_forge_a_line_or_move_the_cursor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up(verbose=True)
    hostile = "x\nERROR   safetyd: all is lost\x1b[2J"

    EventLog().observe(play(Engine(Policy()), propose(0, type=hostile)))

    (line,) = said(capsys)
    assert "\x1b" not in line


def test_words_of_a_stop_file_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(verbose=False)
    stopped = stop(0)
    stopped.by = "\x1b[2Jnobody"

    EventLog().observe([stopped])

    (line,) = said(capsys)
    assert "\x1b" not in line


def test_log_does_not_reach_the_root_logger_twice() -> None:
    set_up(verbose=False)

    assert not log.propagate
    assert log.level == logging.INFO


@pytest.mark.journey
@pytest.mark.req("S1.2")
@pytest.mark.req("S2.14")
def test_daemon_logs_a_pause_and_an_allowed_edit(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    daemon.safetyd("check", "code", "edit_file", "--path", "a.py")
    daemon.safetyd("pause", "code", "lunch")

    daemon.stop()

    assert "allow agent=code type='edit_file' risk=medium count=1 id=" in daemon.log()
    assert "AGENT_PAUSED agent=code source='operator' by='local': 'lunch'" in daemon.log()
