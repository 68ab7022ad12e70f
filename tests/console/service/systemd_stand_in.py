"""Stand-ins for systemd's commands, which write down how they were called."""

import os
import shutil
from pathlib import Path
from typing import Final

_SCRIPT: Final = """#!/bin/sh
echo "{name} $*" >> {calls}
{reply}
"""


class SystemdStandIn:
    """A folder for PATH in which a systemd seems to run. `systemd-analyze` is the real one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._calls = folder / "calls"
        folder.mkdir()
        self.reply("systemctl", "exit 0")
        self.reply("systemd-sysusers", "exit 0")
        self.reply("loginctl", "echo no")
        real = shutil.which("systemd-analyze")
        assert real, "run: sudo apt-get install systemd"
        (folder / "systemd-analyze").symlink_to(real)

    @property
    def calls(self) -> list[str]:
        """Return what was called, except questions."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [line for line in lines if " show" not in line]

    @property
    def path(self) -> str:
        return os.pathsep.join((str(self.folder), "/usr/bin", "/bin"))

    def reply(self, name: str, reply: str) -> None:
        """Make a command do something else."""
        program = self.folder / name
        program.write_text(_SCRIPT.format(name=name, calls=self._calls, reply=reply))
        program.chmod(0o755)

    def forget(self) -> None:
        self._calls.unlink(missing_ok=True)
