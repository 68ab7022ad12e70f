import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Decided, Refused
from safetyd.core.events.guard_events import (
    AnomalyFound,
    Paused,
)
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.policy import Policy
from safetyd.monitoring.event_log import EventLog, log, set_up
from tests.conftest import StartDaemon
from tests.story import at, play, propose, report, stop


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

    EventLog().observe(play(Engine(Policy()), stop(0)))

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


WHEN: dict[str, Any] = {"at": at(0), "t": 0.0}


@pytest.mark.req("S1.2")
def test_a_line_has_the_facts_and_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(verbose=False)
    paused = Paused(agent="code", source="operator", by="alice", reason="lunch", **WHEN)

    EventLog().observe(Engine(Policy()).handle(paused))

    facts = "agent=code source='operator' by='alice'"
    assert said(capsys) == [f"ERROR   safetyd: AGENT_PAUSED {facts}: 'alice paused code: lunch'"]


def test_what_an_agent_sent_is_not_in_the_line_of_its_refusal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up(verbose=False)
    refused = Refused(agent="code", cause="malformed", count=3, example="hunter2", **WHEN)

    EventLog().observe(Engine(Policy()).handle(refused))

    facts = "agent=code rule='intake.malformed' count=3"
    assert said(capsys) == [
        f"WARNING safetyd: ACTION_BLOCKED {facts}: 'intake.malformed blocked code'"
    ]


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

    EventLog().observe(Engine(Policy()).handle(stopped))

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
    assert (
        "AGENT_PAUSED agent=code source='operator' by='local': 'local paused code: lunch'"
        in daemon.log()
    )
