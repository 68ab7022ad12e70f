"""Every command and program in the README and in docs/client.md is run, and does what they say.

This holds with the defaults and with the configuration that `safetyd init` writes.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from safetyd.core.events.request_events import Claimed
from tests.checkout import ROOT
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.console.console_rig import at_a_terminal, here
from tests.documents.document_blocks import BLOCK
from tests.journeys.agents import until
from tests.journeys.asking_agent import review, waiting
from tests.journeys.audit_record import events
from tests.journeys.http_agent import new_token

README: Final = (ROOT / "README.md").read_text()
CLIENT: Final = (ROOT / "docs/client.md").read_text()
MAX_WORDS: Final = 1300

BLOCKS = list(BLOCK.finditer(README))
COMMANDS = [
    m
    for m in BLOCKS
    if m["kind"] == "sh"
    and m["note"] not in {"activate", "approve", "daemon", "hosts", "http", "install", "make"}
]
FIRST_SCREEN: Final = 40  # lines
[GUARDED] = (m["body"] for m in BLOCKS if m["kind"] == "python")
[PROTECTED] = (m["body"] for m in BLOCKS if m["note"] == "hosts")
[APPROVAL] = (m["body"] for m in BLOCKS if m["note"] == "approve")
[OVER_HTTP] = (m["body"] for m in BLOCKS if m["note"] == "http")
[PROGRAM, GATE] = (m["body"] for m in BLOCK.finditer(CLIENT))


def promised_output(command: re.Match[str]) -> str:
    """Return the plain block that follows a command with nothing between."""
    following = BLOCK.match(README, command.end() + 2)
    return following["body"].strip() if following and not following["kind"] else ""


@pytest.fixture(scope="module", params=["defaults", "init"])
def daemon(
    request: pytest.FixtureRequest,
    start_module_daemon: StartDaemon,
    tmp_path_factory: pytest.TempPathFactory,
) -> RunningDaemon:
    if request.param == "defaults":
        return start_module_daemon()
    written = tmp_path_factory.mktemp("init") / "safetyd.toml"
    assert here("init", "--yes", str(written)).returncode == 0
    assert 'profile = "coding"' in written.read_text()
    return start_module_daemon(written.read_text())


def run(daemon: RunningDaemon, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment(SAFETYD_DATA_DIR=str(daemon.data_dir), PATH=path, **variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def bash(daemon: RunningDaemon, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run(daemon, shutil.which("bash") or "bash", "-ec", script, **variables)


def approve(daemon: RunningDaemon) -> str:
    """Approve the one pending request, and return its id."""
    (asked,) = waiting(daemon)
    assert review(daemon, "approve", asked["id"], digest=asked["digest"])["ok"]
    return str(asked["id"])


def test_the_guard_of_the_readme_runs_its_body_once_a_person_approves(
    daemon: RunningDaemon,
) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, daemon, sys.executable, "-c", GUARDED)
        until(lambda: waiting(daemon) or running.done())
        approve(daemon)

    assert (running.result().returncode, running.result().stdout) == (0, "pushing\n")


def test_the_coding_agent_of_the_readme_is_guarded(daemon: RunningDaemon, tmp_path: Path) -> None:
    done = bash(daemon, f"{PROTECTED.strip()} --yes", HOME=str(tmp_path))

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / ".claude" / "settings.json").exists()


def test_the_program_runs_and_pushes_only_what_it_has_claimed(daemon: RunningDaemon) -> None:
    first = run(daemon, sys.executable, "-c", PROGRAM)
    request = approve(daemon)
    second = run(daemon, sys.executable, "-c", PROGRAM)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "this line does not run" not in first.stdout
    assert f"needs approval: {request}" in first.stdout
    assert "pushing\n" in second.stdout
    claims = [event for event in events(daemon.data_dir) if isinstance(event, Claimed)]
    assert claims[-1].request_id == request


def after_the_approval(command: re.Match[str]) -> bool:
    """Return whether this is the first command after the approval of the README."""
    return README.index(APPROVAL) < command.start() < README.index("An approval is good for one")


def approve_at_a_terminal(daemon: RunningDaemon) -> None:
    """Type what the README says, and agree."""
    said = at_a_terminal(
        *("-ec", APPROVAL),
        program=["bash"],
        typed="y\n",
        after="[y/N]",
        SAFETYD_DATA_DIR=str(daemon.data_dir),
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    )
    assert "Submit order" in said
    assert "approved, once" in said


@pytest.mark.parametrize("command", COMMANDS, ids=lambda m: m["body"].splitlines()[-1])
def test_command_does_what_the_readme_says(daemon: RunningDaemon, command: re.Match[str]) -> None:
    expected = re.findall(r"\d", command["note"] or "0")
    if after_the_approval(command):
        approve_at_a_terminal(daemon)

    done = bash(daemon, command["body"])

    assert str(done.returncode) in expected, done.stdout + done.stderr
    assert promised_output(command) in done.stdout


def test_the_commands_for_http_propose_and_report(daemon: RunningDaemon) -> None:
    token = new_token(daemon, "rotate", "nightly")
    script = OVER_HTTP.replace("http://…", daemon.endpoint.web)

    done = bash(daemon, re.sub(r"^export .*\n", "", script), SAFETYD_TOKEN=token)

    decision, noted = map(json.loads, done.stdout.splitlines())
    assert (decision["decision"], noted) == ("allow", {"ok": True})


def test_the_gate_runs_without_a_daemon() -> None:
    done = subprocess.run([sys.executable, "-c", GATE], cwd=ROOT, capture_output=True, check=False)

    assert (done.returncode, done.stdout.split()[0]) == (0, b"SafetyDecision.REQUIRE_CONFIRMATION")


def test_the_readme_names_no_port_because_it_may_be_taken() -> None:
    assert not re.search(r":\d{4}\b", OVER_HTTP)


def test_the_readme_says_how_long_a_denial_holds_and_who_answers_a_waiting_agent() -> None:
    said = " ".join(README.split())

    assert "A denial holds for a day" in said
    assert "safetyd deny ID --once" in said
    assert "`safetyd approve --last` in another terminal" in said


def test_the_first_screen_has_what_it_is_a_picture_and_two_commands_that_do_everything() -> None:
    screen = "\n".join(README.splitlines()[:FIRST_SCREEN])

    said, picture, commands = map(
        screen.index,
        ("safetyd is a safety gate for AI agents", "](docs/decision.svg)", "make run "),
    )
    assert said < picture < commands
    rows = re.findall(r"^make (\w+) +# (sets everything up .+)$", screen, re.MULTILINE)
    assert [target for target, _ in rows] == ["run", "test"]
    made = (ROOT / "Makefile").read_text()
    for target, set_up in (("run", "$(READY)"), ("test", "$(TOOLS)")):
        assert f"\n{target}: {set_up}\n" in made, "the target sets everything up"


def test_after_make_run_the_readme_says_how_the_shell_finds_safetyd() -> None:
    activated, first = README.index(". .venv/bin/activate"), README.index("safetyd check code")

    assert README.index("\nmake run ") < activated < first
    assert "profile `strict`" in " ".join(README[:first].split())


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= MAX_WORDS
