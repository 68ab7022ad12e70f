"""Sample patches, and patches that git makes."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

LINES: Final = "".join(f"line {number}\n" for number in range(1, 10))
CHANGED: Final = LINES.replace("5", "five")
_ENVIRONMENT: Final = {
    "PATH": "/usr/bin:/bin:/usr/local/bin",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{f"GIT_{who}_NAME": "somebody" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "somebody@example.org" for who in ("AUTHOR", "COMMITTER")},
}


class Repository:
    """A repository with one commit, of which git says how the files differ."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main")
        self.write(files)
        self.commit()

    def git(self, *words: str) -> str:
        command = ("git", *words)
        done = subprocess.run(
            command, cwd=self.folder, env=_ENVIRONMENT, capture_output=True, check=True
        )
        return done.stdout.decode()

    def write(self, files: Mapping[str, str]) -> None:
        for name, content in files.items():
            file = self.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "a change")

    def diff(self, *options: str) -> str:
        self.git("add", "--all")
        return self.git("diff", "--cached", *options)


def named_by_git(folder: Path, text: str, option: str) -> list[str]:
    """Return the files that git would touch; none if it refuses a patch."""
    command = ("git", "apply", "--numstat", "-z", "--unsafe-paths", option)
    done = subprocess.run(
        command, cwd=folder, env=_ENVIRONMENT, input=text.encode(), capture_output=True, check=False
    )
    entries = done.stdout.decode().split("\0") if done.returncode == 0 else []
    return [entry.split("\t", 2)[2] for entry in entries if entry]


def unified(old: str, new: str) -> str:
    """Return a patch of one line."""
    return f"--- {old}\n+++ {new}\n@@ -1 +1 @@\n-a\n+b\n"
