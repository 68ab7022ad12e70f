import logging
import re
from collections.abc import Iterator

import pytest

from safetyd.core.engine import Engine
from safetyd.core.events import ClockStepped
from safetyd.core.policy import Policy
from safetyd.log import log, observe, set_up
from tests.play import at, play, propose, resume, stop


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

    observe(play(Engine(Policy()), propose(0, type="run_shell", text="rm -rf /")))

    assert said(capsys) == [
        "INFO    safetyd: block agent=code type='run_shell' rule='gate.blocklist:rm_rf' id=p1 seq=1"
    ]


def test_lines_have_a_time_where_nobody_else_adds_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JOURNAL_STREAM")
    set_up(verbose=False)

    observe([stop(0)])

    assert re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING safetyd: ", said(capsys)[0])


def test_allow_is_not_worth_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(verbose=False)

    observe(play(Engine(Policy()), propose(0)))

    assert said(capsys) == []


def test_verbose_log_has_allows_too(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(verbose=True)

    observe(play(Engine(Policy()), propose(0)))

    (line,) = said(capsys)
    assert "allow agent=code" in line


def test_stop_and_resume_are_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(verbose=False)

    observe(play(Engine(Policy()), stop(0), resume(1)))

    assert said(capsys) == [
        "WARNING safetyd: stopped by='alice' agent=None reason='drill'",
        "WARNING safetyd: resumed by='alice' agent=None reason=''",
    ]


def test_clock_steps_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(verbose=False)

    observe(play(Engine(Policy()), ClockStepped(at=at(0), t=0, seconds=-60.0)))

    assert said(capsys) == ["INFO    safetyd: CLOCK_STEPPED: 'the wall clock stepped by -60.0 s'"]


def test_agents_words_cannot_forge_a_line_or_move_the_cursor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up(verbose=True)
    hostile = "x\nERROR   safetyd: all is lost\x1b[2J"

    observe(play(Engine(Policy()), propose(0, type=hostile)))

    (line,) = said(capsys)
    assert "\x1b" not in line


def test_words_of_a_stop_file_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(verbose=False)
    stopped = stop(0)
    stopped.by = "\x1b[2Jnobody"

    observe([stopped])

    (line,) = said(capsys)
    assert "\x1b" not in line


def test_log_does_not_reach_the_root_logger_twice() -> None:
    set_up(verbose=False)

    assert not log.propagate
    assert log.level == logging.INFO
