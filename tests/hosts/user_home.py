"""A user with a home, a project and programs of hosts, in a folder of a test."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.conftest import COMMAND_S, RunningDaemon, environment

# What each host's program prints; nothing else of it is used.
PRINTED: Final = {
    "claude": "2.1.326 (Claude Code)",
    "codex": "codex-cli 0.169.0",
    "copilot": "GitHub Copilot CLI 1.0.102.",
    "gemini": "0.61.0",
    "opencode": "1.18.33",
}


class UserHome:
    def __init__(self, daemon: RunningDaemon, folder: Path) -> None:
        self.path = folder / "home"
        self.project = folder / "project"
        self.programs = folder / "programs"
        self._daemon = daemon
        for path in (self.path, self.project, self.programs):
            path.mkdir(parents=True)

    def install(self, program: str, printed: str = "") -> None:
        """Install a program that prints a version and can do nothing else."""
        path = self.programs / program
        path.write_text(f'#!/bin/sh\necho "{printed or PRINTED[program]}"\n')
        path.chmod(0o755)

    def safetyd(self, *words: str) -> subprocess.CompletedProcess[str]:
        variables = environment(
            SAFETYD_DATA_DIR=str(self._daemon.data_dir),
            HOME=str(self.path),
            PATH=os.pathsep.join((str(self.programs), "/usr/bin", "/bin")),
        )
        return subprocess.run(
            [sys.executable, "-m", "safetyd", *words],
            cwd=self.project,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S,
        )

    def protect(self, *hosts: str) -> None:
        done = self.safetyd("protect", *hosts, "--yes")
        assert done.returncode == 0, done.stdout + done.stderr

    def status(self, host: str, *options: str) -> Any:
        """Return what `protect --status` says about a host, and its exit code as `exit`."""
        done = self.safetyd("protect", "--status", host, *options, "--json")
        (state,) = json.loads(done.stdout)["hosts"]
        return {**state, "exit": done.returncode}

    def problems(self, host: str) -> set[str]:
        return {problem["code"] for problem in self.status(host)["problems"]}

    def files(self) -> list[str]:
        """Return the paths of all files in the home."""
        return sorted(
            str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file()
        )
