"""A folder that agents change, its history, and the user's git beside it."""

import os
import shutil
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from safetyd.extras.file_history.history_records import CommitMade, CommitOrder
from safetyd.extras.file_history.project_history import ProjectHistory

NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
# The user, whatever is configured on this machine.
USER: Final = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
}

Files = dict[bytes, tuple[str, bytes]]  # the kind: file, program or link


class ProjectFolder:
    """`root` is the project; `history` keeps it, in `store`."""

    def __init__(
        self,
        place: Path,
        *,
        repository: bool = True,
        root: str = "project",
        state_paths: tuple[str, ...] = ("memory",),
    ) -> None:
        self.top = place / "project"
        self.root = place / root
        self.root.mkdir(parents=True)
        self.store = place / "store"
        self.state_paths = state_paths
        self._orders = 0
        if repository:
            self.git("init", "-q", "-b", "main", str(self.top), at=place)
        self.history = self.reopened()

    def reopened(self) -> ProjectHistory:
        """Return the history as another process would find it."""
        return ProjectHistory("shop", self.root, self.state_paths, self.store)

    @property
    def bare(self) -> Path:
        return self.store / "shop-shadow.git"

    def order(self, **given: Any) -> CommitOrder:
        self._orders += 1
        usual = {"agent": "code", "session": "s1", "why": "after", "description": "does it"}
        at = NOON + timedelta(minutes=self._orders)
        return CommitOrder(**{"at": at, **usual, **given})

    def commit(self, **given: Any) -> CommitMade:
        """Commit something that changed."""
        made = self.history.commit(self.order(**given))
        assert made is not None
        return made

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def before_git(self, command: str, *happens: str) -> str:
        """Return a PATH with a git before which something happens once: a line of a shell."""
        place = self.top.parent
        real = shutil.which("git")
        (place / "bin").mkdir()
        lines = "\n".join((f"touch {place / 'happened'}", *happens))
        (place / "bin" / "git").write_text(
            f'#!/bin/sh\ncase "$*" in\n*{command}*) if [ ! -e {place / "happened"} ]; then\n'
            f'{lines}\nfi ;;\nesac\nexec {real} "$@"\n'
        )
        (place / "bin" / "git").chmod(0o755)
        return f"{place / 'bin'}:{os.environ['PATH']}"

    def git(self, *arguments: str, at: Path | None = None, stdin: bytes = b"") -> str:
        """Run the user's git."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=at or self.root,
            input=stdin,
            capture_output=True,
            check=False,
            env={**os.environ, **USER},
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode(errors="replace").rstrip("\n")

    def user_commits(self, text: str = "first\n") -> str:
        self.write("readme", text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "by hand")
        return self.git("rev-parse", "HEAD")

    def kept(self, commit: str) -> dict[str, str]:
        """Return what a commit has: paths and their modes and objects."""
        listed = self.git("ls-tree", "-r", "-z", "--full-tree", commit, at=self.bare)
        return {
            path: about.partition(" ")[0]
            for about, _, path in (line.partition("\t") for line in listed.split("\0")[:-1])
        }

    def content(self, commit: str, path: str) -> str:
        return self.git("cat-file", "blob", f"{commit}:{path}", at=self.bare)


def files(root: Path) -> Files:
    """Return every file below a folder, but for those of a `.git` in it."""
    found: Files = {}
    for path in root.rglob("*"):
        below = path.relative_to(root)
        if ".git" not in below.parts and (path.is_symlink() or not path.is_dir()):
            found[os.fsencode(below)] = _file(path)
    return found


def put(root: Path, wanted: Files) -> None:
    """Make a folder hold these files and no others."""
    for path in sorted(root.rglob("*"), reverse=True):
        if ".git" not in path.relative_to(root).parts:
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    for name, (kind, content) in wanted.items():
        path = root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "link":
            path.symlink_to(os.fsdecode(content))
            continue
        path.write_bytes(content)
        path.chmod(0o755 if kind == "program" else 0o644)


def _file(path: Path) -> tuple[str, bytes]:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return "link", os.fsencode(path.readlink())
    if not stat.S_ISREG(found.st_mode):
        return "other", b""
    return "program" if found.st_mode & stat.S_IXUSR else "file", path.read_bytes()
