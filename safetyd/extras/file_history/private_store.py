"""A bare git repository in safetyd's data directory. Only file contents come from agents.

Only one process and thread changes it at a time. git inherits the lock, so the repository stays
locked if git outlives a killed daemon. The owner of the lock may remove leftovers.
"""

import contextlib
import logging
import os
import shutil
from collections.abc import Iterator
from functools import cached_property
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Final
from urllib.parse import quote

import msgspec

from safetyd.extras.file_history.folder_changes import CommitLimits
from safetyd.extras.file_history.git_process import Git
from safetyd.extras.file_history.history_records import HistoryError
from safetyd.extras.file_history.repository_layout import Layout, find, small_file
from safetyd.host import lock_within, write_whole

log = logging.getLogger("safetyd.file_history")

NEWEST: Final = "refs/history"  # the newest commit of all sessions
LOCK_S: Final = 60.0
_LOOSE: Final = 2048  # loose objects that cause packing
_MAX_EXCLUDES: Final = 1024 * 1024
_CHUNK: Final = 500  # commits listed at a time

_CONFIG: Final = b"""\
# Written by safetyd, which writes it again if it differs.
[core]
	repositoryFormatVersion = 0
	bare = true
	fileMode = true
	symlinks = true
	ignoreCase = false
	precomposeUnicode = false
	protectHFS = false
	protectNTFS = false
	autocrlf = false
	safecrlf = false
	excludesFile = /dev/null
	attributesFile = /dev/null
	hooksPath = /dev/null
	fsmonitor = false
	logAllRefUpdates = false
	fsyncMethod = batch
[pack]
	threads = 1
[repack]
	writeBitmaps = false
"""
# This overrides every .gitattributes: files are stored byte for byte.
_ATTRIBUTES: Final = b"* -text -crlf !eol -ident -filter !working-tree-encoding !diff !merge\n"


class StorePlace(msgspec.Struct, frozen=True):
    """The folder of a file history. Its top never changes after the first commit."""

    root: str
    top: str


class PrivateStore:
    """The repository of a project, created when it is first needed."""

    def __init__(self, project: str, root: Path, store: Path) -> None:
        name = quote(project, safe="", errors="replace").replace(".", "%2E")
        self.folder = store.absolute() / f"{name}-shadow.git"
        self._root = root
        self._swept = False
        self._packing: Thread | None = None

    @property
    def exists(self) -> bool:
        return (self.folder / "project.json").is_file()

    def layout(self) -> Layout:
        """Return the folder's repository layout, with the top of the first commit."""
        found = find(self._root)
        place = self._place()
        if place is None or place.top == str(found.top):
            return found
        return Layout(found.root, Path(place.top))

    def moved(self) -> str:
        """Return an error if this history belongs to another folder, or an empty text."""
        place, now = self._place(), str(self._root.resolve())
        if place is None or place.root == now:
            return ""
        link = f"{self._root} is a link now; " if self._root.is_symlink() else ""
        return (
            f"{link}{self.folder} has the history of {place.root}, not of {now}; "
            "move it away, or rename the project"
        )

    def git(self) -> Git:
        """Return git for reading the repository."""
        return Git(self.folder, {})

    def find(self, name: str) -> str:
        """Return the full name of a commit, or an empty text."""
        if not self.exists:
            return ""
        asked = ("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return self.git().line(*asked, codes=(0, 1, 128))

    def commits(self) -> Iterator[list[str]]:
        """Yield the names of all commits, newest first, in chunks."""
        if not self.find(NEWEST):
            return
        for page in count():
            listing = ("rev-list", f"--max-count={_CHUNK}", f"--skip={page * _CHUNK}", NEWEST)
            names = self.git().read(*listing).decode().split()
            yield names
            if len(names) < _CHUNK:
                return

    @contextlib.contextmanager
    def locked(self) -> Iterator[Git]:
        """Lock the repository, create it if needed, and remove leftovers."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.folder.with_suffix(".lock")
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not lock_within(held, LOCK_S):
                raise HistoryError(
                    f"another commit has held {path} for {LOCK_S:g} s; the first commit of a "
                    "large folder can take minutes. Try again later"
                )
            self._make()
            if not self._swept:
                self._sweep()
            self._swept = False
            _keep(self.folder / "info" / "exclude", self._excludes())
            yield self.git().holding(held)
            self._swept = True
        finally:
            os.close(held)

    def pack(self, git: Git, limits: CommitLimits) -> None:
        """Start packing once there are many objects. Commits do not wait for it."""
        if len(list(self.folder.glob("objects/0?/*"))) * 16 <= _LOOSE:  # a sixteenth of all
            return
        objects = self.folder / "objects"
        size = sum(path.lstat().st_size for path in objects.rglob("*"))
        if size > limits.spare(objects).bytes:
            log.warning("cannot pack %s: its disk has too little space for a copy", self.folder)
            return
        held = self._pack_lock()
        if held is not None:
            git.read("pack-refs", "--all")
            self._packing = Thread(target=self._pack, args=(held,), daemon=True)
            self._packing.start()

    def finish(self) -> None:
        """Wait for background work."""
        if self._packing is not None:
            self._packing.join()

    def _excludes(self) -> bytes:
        """Return the user's global ignore patterns, and those of this repository."""
        everywhere = small_file(self._everywhere, _MAX_EXCLUDES) if self._everywhere else None
        return b"\n".join((everywhere or b"", self.layout().excludes(), b""))

    @cached_property
    def _everywhere(self) -> Path | None:
        """Return the `core.excludesFile` of safetyd's user, or git's default."""
        home = os.environ.get("HOME", "")
        if not home:
            return None
        settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path(home) / ".config") / "git"
        looking = self.git().using(HOME=home)
        for file in (Path(home) / ".gitconfig", settings / "config"):
            asked = ("config", "--file", str(file), "--includes", "--type=path")
            found = looking.run(*asked, "--get", "core.excludesFile", codes=(0, 1, 128))
            if found.code == 0 and found.out.strip():
                return Path(os.fsdecode(found.out.rstrip(b"\n")))
        return settings / "ignore"

    def _pack(self, held: int) -> None:
        try:
            self.git().holding(held).read("repack", "--geometric=2", "-d", "-q")
        except HistoryError as exc:
            log.warning("%s stays unpacked: %s", self.folder, exc)
        finally:
            os.close(held)

    def _pack_lock(self) -> int | None:
        """Take the lock for packing, which git inherits. Return None if another process packs."""
        path = self.folder.with_suffix(".packing")
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if lock_within(held, 0.0):
            return held
        os.close(held)
        return None

    def _place(self) -> StorePlace | None:
        content = small_file(self.folder / "project.json", _MAX_EXCLUDES)
        return None if content is None else msgspec.json.decode(content, type=StorePlace)

    def _make(self) -> None:
        if self._place() is None:
            self._make_new()
        if moved := self.moved():
            raise HistoryError(moved)
        _keep(self.folder / "config", _CONFIG)
        _keep(self.folder / "info" / "attributes", _ATTRIBUTES)

    def _make_new(self) -> None:
        if self.folder.exists():
            raise HistoryError(f"{self.folder} is not a repository of safetyd; move it away")
        fresh = self.folder.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)  # an unfinished attempt
        fresh.mkdir(mode=0o700)
        git = Git(fresh, {})
        git.read("init", "--bare", "--quiet", "--template=", "--object-format=sha1")
        (fresh / "info").mkdir(exist_ok=True)
        found = find(self._root)
        place = StorePlace(str(found.root), str(_top(git, found)))
        (fresh / "project.json").write_bytes(msgspec.json.encode(place))
        fresh.rename(self.folder)

    def _sweep(self) -> None:
        """Remove leftovers of a killed git. The lock is held, so no other process uses them."""
        for left in (*self.folder.glob("*.lock"), *self.folder.glob("refs/**/*.lock")):
            left.unlink(missing_ok=True)
        packing = self._pack_lock()
        if packing is None:
            return  # another process is packing and writes the temporary files
        for left in self.folder.glob("objects/**/tmp_*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
        os.close(packing)


def _keep(path: Path, content: bytes) -> None:
    """Write a file unless it already has this content."""
    if small_file(path, _MAX_EXCLUDES * 3) != content:
        write_whole(path, content)


def _top(git: Git, found: Layout) -> Path:
    """Return the folder where paths start: the repository, unless it ignores the whole root."""
    if not found.within:
        return found.top
    write_whole(git.folder / "info" / "exclude", found.excludes())
    # check-ignore always takes paths literally, and rejects GIT_LITERAL_PATHSPECS=1.
    looking = git.using(GIT_WORK_TREE=str(found.top), GIT_LITERAL_PATHSPECS="0")
    ignored = looking.run("check-ignore", "--quiet", "--", f"./{found.within}/", codes=(0, 1))
    return found.root if ignored.code == 0 else found.top
