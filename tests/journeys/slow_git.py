"""A git that a test can pause."""

import shutil
from pathlib import Path
from typing import Final

SLOW_GIT: Final = """#!/bin/sh
while [ -e {hold} ]; do sleep 0.02; done
case "$*" in
*"cat-file --batch")
    if [ -e {some} ]; then
        for _ in $(seq "$(cat {some})"); do read -r name && echo "$name"; done | {{
            {git} "$@"
            while [ -e {some} ]; do sleep 0.02; done
        }}
        exit
    fi ;;
esac
exec {git} "$@"
"""


class SlowGit:
    """A git that starts nothing while the test holds it."""

    def __init__(self, directory: Path) -> None:
        self._hold = directory / "hold"
        self._some = directory / "some"
        (folder := directory / "bin").mkdir()
        git = folder / "git"
        git.write_text(SLOW_GIT.format(hold=self._hold, some=self._some, git=shutil.which("git")))
        git.chmod(0o755)
        self.variables = {"PATH": f"{folder}:/usr/bin:/bin"}

    def hold(self) -> None:
        self._hold.touch()

    def hold_after(self, files: int) -> None:
        """Let a rollback restore this many files before it pauses."""
        self._some.write_text(str(files))

    def let_go(self) -> None:
        self._hold.unlink(missing_ok=True)
        self._some.unlink(missing_ok=True)
