"""A rehearsal notices a host that does not honour the hook's answers."""

import json
from pathlib import Path

import pytest

from tests.conftest import StartDaemon
from tests.hosts.real.host_programs import PROGRAMS, Program
from tests.hosts.real.operator_commands import CONFIG, run_safetyd
from tests.hosts.real.real_hosts import HostHome

pytestmark = pytest.mark.hosts

OFF = {
    "claude-code": (".claude/settings.json", '"cleanupPeriodDays"', '"disableAllHooks": true, '),
    "gemini": (".gemini/settings.json", '"general"', '"hooksConfig": {"enabled": false}, '),
}


@pytest.mark.parametrize(
    "program",
    [program for program in PROGRAMS if program.host in OFF],
    ids=lambda program: program.name,
)
def test_a_rehearsal_fails_with_hooks_switched_off(
    program: Program, start_daemon: StartDaemon, tmp_path: Path
) -> None:
    home, daemon = HostHome(program, tmp_path / "host"), start_daemon(CONFIG)
    name, before, setting = OFF[program.host]
    with home.with_model():
        run_safetyd(home, daemon, "protect", program.host, "--yes")
        settings = home.home / name
        settings.write_text(settings.read_text().replace(before, setting + before))

        said = run_safetyd(home, daemon, "verify", "--rehearse", "--json", code=1)

    (state,) = json.loads(said)["hosts"]
    trials = {trial["claim"]: trial["holds"] for trial in state["trials"]}
    ran, _, reason = (holds for claim, holds in trials.items() if claim.startswith("rehearsal"))
    # Newer versions of Claude Code refuse such a command themselves, with another reason.
    assert (ran, reason) == (True, False)
    assert "hooks_off" in {problem["code"] for problem in state["problems"]}
