"""With `protect --system`, no file of a project and hardly a flag leaves the hooks out."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from safetyd.hosts.host_catalog import HOSTS, Place
from tests.conftest import StartDaemon
from tests.hosts.real.host_programs import PROGRAMS, Program, installed
from tests.hosts.real.operator_commands import CONFIG

pytestmark = pytest.mark.hosts

SESSION_S: Final = 600.0
LEFT_OUT: Final = {"claude-code-2.1.197": {"--bare"}}
PLACE: Final = Place(Path("/home/me"), {}, Path("/home/me/project"))
OFFERED: Final = [one for one in PROGRAMS if HOSTS[one.host].files("system", PLACE)]


@pytest.mark.parametrize("program", OFFERED, ids=lambda program: program.name)
def test_for_all_users_nothing_runs_with_flags_and_files(
    program: Program,
    start_daemon: StartDaemon,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    installed(program)
    mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
    session = [sys.executable, "-m", "tests.hosts.real.system_session", program.name]
    ran = subprocess.run(
        [
            "unshare",
            "--mount",
            *mapped,
            *session,
            str(tmp_path),
            str(start_daemon(CONFIG).data_dir),
        ],
        capture_output=True,
        text=True,
        timeout=SESSION_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said.pop("protect") == 0, ran.stderr
    assert said.pop("harmless")
    assert said.pop("unprotect") == 0
    assert said.pop("restored")
    left_out = {name for name, pushed in said.items() if pushed}
    record_property("cell", f"not with {', '.join(left_out)}" if left_out else "yes")
    assert left_out == LEFT_OUT.get(program.name, set()), ran.stderr
