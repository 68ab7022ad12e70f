"""Commands of an operator, in the home of a host."""

import subprocess
import sys
from typing import Final

from tests.conftest import RunningDaemon
from tests.hosts.real.real_hosts import HostHome

COMMAND_S: Final = 120.0
CONFIG: Final = "[hosts]\nwait_s = 0\n"  # a call does not wait for an operator


def run_safetyd(home: HostHome, daemon: RunningDaemon, *arguments: str, code: int = 0) -> str:
    """Run a command as the user of that home; return what it prints."""
    ran = subprocess.run(
        [sys.executable, "-m", "safetyd", *arguments],
        cwd=home.project,
        env=home.variables(SAFETYD_DATA_DIR=str(daemon.data_dir)),
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert ran.returncode == code, f"{arguments}: {ran.stdout}{ran.stderr}"
    return ran.stdout
