import json
import os
import pty
import re
from collections.abc import Iterator
from contextlib import suppress

import pytest

from safetyd.client import SyncSafety
from safetyd.console.decisions.show_report import ReadingProgress, report_text
from safetyd.core.daily_report.day_numbers import DayNumbers, Question
from safetyd.core.daily_report.day_report import ReportScope, report_of_numbers
from safetyd.core.policy import Policy
from safetyd.journal.audit import files
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import told
from tests.core.daily_report.day_events import FIRST, SECOND


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    """A daemon that has decided something, is asked for its report, and ends."""
    daemon = start_module_daemon()
    with SyncSafety("code", data_dir=daemon.data_dir) as safety:
        safety.propose("read_file", id="r-1", confidence=0.9)
        safety.report("r-1", ok=True)
        safety.propose("run_shell", id="b-1", text="rm -rf /")
    return daemon


@pytest.fixture(scope="module")
def asked(daemon: RunningDaemon) -> dict[str, object]:
    said = told(daemon, "report", "--json")
    assert said.stderr == ""
    answer: dict[str, object] = json.loads(said.stdout)
    daemon.stop()
    return answer


def test_without_a_daemon_the_files_say_the_same(
    daemon: RunningDaemon, asked: dict[str, object]
) -> None:
    said = told(daemon, "report", "--json", "--date", "today")

    report = json.loads(said.stdout)["report"]
    known: dict[str, object] = asked["report"]  # type: ignore[assignment]
    assert "No daemon answers" in said.stderr
    assert report["scores"] == known["scores"]
    assert report["calibration"] == known["calibration"]
    assert (report["scores"]["executed"], report["scores"]["blocked"]) == (1, 1)


@pytest.mark.usefixtures("asked")
def test_a_report_is_printed_in_the_form_that_is_asked_for(daemon: RunningDaemon) -> None:
    forms = {form: told(daemon, "report", form).stdout for form in ("--md", "--html")}
    text = told(daemon, "report").stdout
    several = told(daemon, "report", "--since", "yesterday").stdout

    assert text.startswith("GREEN  ")
    assert re.search(r"\n  Actions auto-executed +1\n", text)
    assert re.search(r"\n  code +90\.0% +100\.0%", text)
    assert forms["--md"].startswith("## Safety Net Daily Report - ")
    assert forms["--html"].startswith("<!doctype html>")
    assert "\nDays\n" in several


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--md", "--json"), "one of --md, --html and --json"),
        (("--date", "today", "--since", "today"), "not both"),
        (("--date", "soon"), "'soon' is not a day"),
    ],
)
def test_what_makes_no_sense_is_said(
    daemon: RunningDaemon, options: tuple[str, ...], says: str
) -> None:
    said = told(daemon, "report", *options)

    assert said.returncode == 2
    assert says in said.stdout + said.stderr


@pytest.mark.usefixtures("asked")
def test_a_broken_audit_chain_makes_the_day_red(daemon: RunningDaemon) -> None:
    path = files(daemon.data_dir / "audit")[-1]
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"rm -rf /"', b'"rm -rf x"', 1))

    said = told(daemon, "report").stdout
    path.write_bytes(whole)

    assert said.startswith("RED  ")
    assert f"the audit chain is broken: {path.name}:" in said
    assert "safetyd audit verify" in said


def test_words_of_agents_cannot_move_the_cursor() -> None:
    question = Question(agent="shop", type="x\x1b[2J", text="\x1b[2J\n", remedy="\x1b[2J")
    question.asked, question.denied = 2, 1
    numbers = DayNumbers(events=1, questions={"k": question})

    said = report_text(report_of_numbers({FIRST: numbers}, ReportScope(FIRST, FIRST, Policy())))

    assert "\x1b" not in said
    assert "x\\x1b[2J by shop" in said
    assert "2 times: 1 denied; " in said


def test_a_day_without_events_says_so() -> None:
    said = report_text(report_of_numbers({}, ReportScope(FIRST, SECOND, Policy())))

    assert said.startswith("UNKNOWN ")
    assert f"UNKNOWN no record on {FIRST}, {SECOND}" in said


def test_at_a_terminal_it_says_how_far_it_is_once_that_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controller, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        progress = ReadingProgress()
        progress.show(0.1)
        progress._begun -= 2.0
        progress.show(0.5)
        progress.end()
    shown = "".join(_read(controller))

    assert "10%" not in shown
    assert "Reading the audit files: 50%" in shown
    assert shown.endswith("\r\x1b[K")


def _read(controller: int) -> Iterator[str]:
    """Yield what was written to a terminal that is closed now."""
    with suppress(OSError):
        while said := os.read(controller, 1000):
            yield said.decode()
    os.close(controller)


def test_elsewhere_nothing_is_said_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ReadingProgress()
    progress._begun -= 2.0
    progress.show(0.5)
    progress.end()

    assert capsys.readouterr().err == ""
