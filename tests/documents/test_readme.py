"""Every command and program in the README is run, and says what the README says it does."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.conftest import RunningDaemon, StartDaemon, environment

README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"(?:<!-- (?P<note>[^>]*) -->\n)?```(?P<kind>\w*)\n(?P<body>.*?)```", re.DOTALL)

COMMANDS = [m for m in BLOCK.finditer(README) if m["kind"] == "sh" and m["note"] != "daemon"]
PROGRAMS = [m for m in BLOCK.finditer(README) if m["kind"] == "python"]


def promised_output(command: re.Match[str]) -> str:
    """Return the plain block that follows a command with nothing between."""
    following = BLOCK.match(README, command.end() + 2)
    return following["body"].strip() if following and not following["kind"] else ""


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


def run(daemon: RunningDaemon, *command: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment(SAFETYD_DATA_DIR=str(daemon.data_dir), PATH=path),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("command", COMMANDS, ids=lambda m: m["body"].splitlines()[-1])
def test_command_does_what_the_readme_says(daemon: RunningDaemon, command: re.Match[str]) -> None:
    body = command["body"].replace(". .venv/bin/activate\n", "")
    expected = int(command["note"].split()[-1]) if command["note"] else 0

    done = run(daemon, shutil.which("bash") or "bash", "-ec", body)

    assert done.returncode == expected, done.stdout + done.stderr
    assert promised_output(command) in done.stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=["agent", "gate"])
def test_program_runs(daemon: RunningDaemon, program: re.Match[str]) -> None:
    done = run(daemon, sys.executable, "-c", program["body"])

    assert done.returncode == 0, done.stderr
    assert "this line does not run" not in done.stdout


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
