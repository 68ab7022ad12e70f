"""A git that a test can hold up."""

import shutil
from pathlib import Path
from typing import Final

SLOW_GIT: Final = """#!/bin/sh
while [ -e {hold} ]; do sleep 0.02; done
exec {git} "$@"
"""


class SlowGit:
    """A git that begins nothing while the test holds it."""

    def __init__(self, directory: Path) -> None:
        self._hold = directory / "hold"
        (folder := directory / "bin").mkdir()
        git = folder / "git"
        git.write_text(SLOW_GIT.format(hold=self._hold, git=shutil.which("git")))
        git.chmod(0o755)
        self.variables = {"PATH": f"{folder}:/usr/bin:/bin"}

    def hold(self) -> None:
        self._hold.touch()

    def let_go(self) -> None:
        self._hold.unlink()
