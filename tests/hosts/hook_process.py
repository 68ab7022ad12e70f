"""The hook as a host runs it: a process with an event on its standard input."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import safetyd
from safetyd.hosts.hook_answer import is_refusal

HOOK: Final = Path(safetyd.__file__).with_name("hook.py")
WAIT_S: Final = 120.0
# A project and a home from which a host loads nothing.
PROJECT: Final = Path(tempfile.gettempdir()) / f"safetyd-hooks-{os.getuid()}" / "project"
NO_HOME: Final = PROJECT.with_name("home")
PROJECT.mkdir(parents=True, exist_ok=True)


class Ran(NamedTuple):
    stdout: str
    stderr: str
    code: int

    @property
    def passes(self) -> bool:
        return self.code == 0 and not self.refuses

    @property
    def refuses(self) -> bool:
        return is_refusal(*self)

    @property
    def words(self) -> str:
        """What the model receives instead of a result."""
        said = json.loads(self.stdout)["hookSpecificOutput"]
        return str(said["permissionDecisionReason"])


def hook(
    socket: str,
    event: object,
    *options: str,
    dialect: str = "claude",
    agent: str = "claude-code",
    home: Path = NO_HOME,
) -> Ran:
    started = start_hook(socket, event, *options, dialect=dialect, agent=agent, home=home)
    out, err = started.communicate(timeout=WAIT_S)
    return Ran(out, err, started.returncode)


def start_hook(
    socket: str,
    event: object,
    *options: str,
    dialect: str = "claude",
    agent: str = "claude-code",
    home: Path = NO_HOME,
) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", "-S", str(HOOK), dialect, "--socket", socket, "--agent", agent]
    started = subprocess.Popen(
        [*command, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOME": str(home)},
    )
    assert started.stdin is not None
    started.stdin.write(json.dumps(event))
    started.stdin.close()
    started.stdin = None
    return started


def bash(command: str, id_: str = "", *, cwd: str = str(PROJECT)) -> dict[str, object]:
    """Return Claude Code's event before a shell command."""
    return {
        "session_id": "s1",
        "cwd": cwd,
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": id_ or f"toolu_{abs(hash(command))}",
    }
