"""Real commits on the user's current branch, for projects that ask for them.

Files are read with safetyd's own configuration here too. git sees the user's only to move refs,
which starts no program but hooks, and those are off. Which commits are ours is noted beside the
data, since whoever writes the repository can write any message.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from safetyd.history.commit_messages import reference
from safetyd.history.commit_writing import (
    CommitLimits,
    Limits,
    StatePaths,
    is_noted,
    signed,
    write_commit,
)
from safetyd.history.file_restore import LINK, Fill, stored
from safetyd.history.folder_changes import IndexedFolder, Select, tree_changes
from safetyd.history.git_process import Git
from safetyd.history.history_records import (
    Change,
    CommitMade,
    CommitOrder,
    Entry,
    HistoryError,
    named,
)
from safetyd.history.private_store import PrivateStore
from safetyd.history.repository_layout import Layout, small_file

_OURS: Final = b"safetyd\n"  # in a lock of ours, so that it is known again
_CHUNK: Final = 500
_MAX_INDEX: Final = 1 << 30
_LENGTHS: Final = (40, 64)  # of a commit's name; a line that a power cut tore is shorter
_NO_VALUE: Final = frozenset({b"unspecified", b"unset"})
_CONVERTING: Final = ("text", "eol", "ident", "working-tree-encoding")


class BranchCommits:
    """The commits that safetyd made on branches of the user's repository."""

    def __init__(
        self, project: str, root: Path, state: StatePaths, store: Path, limits: Limits
    ) -> None:
        self._limits = limits
        self._store = PrivateStore(project, root, "branch", store)
        self._root = root
        self._state = state

    @property
    def folder(self) -> Path:
        return self._store.folder

    def layout(self) -> Layout:
        return self._store.layout()

    def moved(self) -> str:
        return self._store.moved()

    def reading(self) -> Git:
        """Return git that finds the user's objects, with a configuration of our own."""
        if not self._store.exists:
            raise HistoryError("nothing is kept yet")
        return _with_objects(self._store.git(), self._repository())

    def commits(self) -> Iterator[list[str]]:
        """Yield the names of all commits that are still there, the newest first, some at a time."""
        names = _noted(self._store.folder)
        for end in range(len(names), 0, -_CHUNK):
            asked = "\n".join(names[max(end - _CHUNK, 0) : end][::-1]) + "\n"
            checked = self.reading().read("cat-file", "--batch-check", stdin=asked.encode())
            lines = [line.split() for line in checked.decode().splitlines()]
            yield [line[0] for line in lines if line[1] == "commit"]

    def find(self, commit: str) -> str:
        found = {name for name in _noted(self._store.folder) if name.startswith(commit)}
        return found.pop() if len(found) == 1 else ""

    def finish(self) -> None:
        """Nothing goes on by itself: the repository is the user's to pack."""

    @contextlib.contextmanager
    def working(self) -> Iterator["BranchWork"]:
        """Own the store and the user's index, to commit or to bring files back."""
        layout = self._repository()
        user = Git(_git_dir(layout), {})
        object_format = user.line("rev-parse", "--show-object-format")
        with self._store.locked(object_format) as git, _index_lock(layout):
            self._store.note_excludes(layout, None)
            yield BranchWork(self._store.folder, git, layout, self._state, self._limits())

    def _repository(self) -> Layout:
        layout = self._store.layout()
        if layout.git_dir is None:
            raise HistoryError(
                f'{self._root} is in no repository; run git init there, or set history = "shadow"'
            )
        if not layout.owns_repository():
            raise HistoryError(
                f"{layout.top / '.git'} leads to a repository that is not of this folder; "
                'set history = "shadow"'
            )
        return layout


class BranchWork:
    """What can be done while the store and the index are ours."""

    def __init__(
        self, store: Path, git: Git, layout: Layout, state: StatePaths, limits: CommitLimits
    ) -> None:
        self._store = store
        self._state = state
        self.layout = layout
        self._user = Git(_git_dir(layout), {})
        self._index = store / "index"
        self.git = _with_objects(git, layout)
        looking = self.git.using(GIT_WORK_TREE=str(layout.top), GIT_INDEX_FILE=str(self._index))
        self.indexed = IndexedFolder(looking, layout.top, layout.within, limits)

    def commit(
        self,
        order: CommitOrder,
        select: Select | None = None,
        only: Mapping[bytes, Entry | None] | None = None,
    ) -> CommitMade | None:
        """Commit the folder, or what is selected of it, on the current branch.

        With `only`, take the selected files that are as it says, and no others. Return None if
        nothing changed.
        """
        branch, head = self._ready()
        self._refuse_filters(self.indexed.changes(select).present)
        self.indexed.take_in(select)
        tree = self.indexed.tree()
        before = f"{head}^{{tree}}" if head else self.git.line("mktree")
        changes = tree_changes(self.git, before, tree)
        tree, changes = self.indexed.without_late(tree, changes, select, only)
        left_out = self.indexed.left_out
        if not changes and is_noted(self.git, head, order, left_out):
            return None
        state = self._state.cover(changes, self.layout.within)
        made = write_commit(self.git, order, (tree, head), changes, state=state, left_out=left_out)
        self._move(order, (branch, head), made.commit, made.commit)
        return made

    def newest(self) -> str:
        wanted = ("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return self._user.line(*wanted, codes=(0, 1, 128))

    def keep(self, order: CommitOrder) -> str:
        """Return the commit that has the folder as it is now; it is ours from now on."""
        made = self.commit(order)
        kept = made.commit if made else self.newest()
        if not kept:
            raise HistoryError("nothing is kept yet")
        if made is None:
            _note(self._store, kept)
        return kept

    def reset(self, order: CommitOrder, kept: str, commit: str) -> CommitMade:
        """Move the branch to a commit whose files are in the folder.

        The rollback has a commit too, which is on no branch; through it `kept` stays reachable.
        """
        branch, head = self._ready()
        self.indexed.git.read("read-tree", "--reset", commit)
        self.indexed.git.run("update-index", "-q", "--refresh", codes=(0, 1))
        tree = self.git.line("rev-parse", f"{commit}^{{tree}}")
        changes = tree_changes(self.git, kept, commit)
        made = write_commit(self.git, order, (tree, kept), changes, state=False)
        _note(self._store, kept)
        self._move(order, (branch, head), commit, made.commit)
        return made

    @contextlib.contextmanager
    def filling(self, changes: Sequence[Change]) -> Iterator[Fill]:
        """Yield what fills files as git would: with the line ends that attributes ask for."""
        paths = [change.path for change in changes if change.new and change.new.mode != LINK]
        self._refuse_filters(paths)
        converted = set(self._having(_CONVERTING, paths))
        with stored(self.git) as plain:

            def fill(change: Change, into: IO[bytes]) -> None:
                if change.path not in converted or change.new is None:
                    plain(change, into)
                    return
                here = ("-C", str(self.layout.top))  # where it looks for attributes
                name = f"--path={os.fsdecode(change.path)}"
                asked = ("cat-file", "--filters", name, change.new.object)
                into.write(self.indexed.git.read(*here, *asked))

            yield fill

    def _ready(self) -> tuple[str, str]:
        """Return the branch and its commit, with a copy of the user's index; or refuse."""
        where = self.layout.root
        if waiting := self.layout.under_way():
            raise HistoryError(f"{waiting} is under way in {where}; finish or abort it")
        branch = self._user.line("symbolic-ref", "--quiet", "HEAD", codes=(0, 1))
        if not branch.startswith("refs/heads/"):
            raise HistoryError(f"{where} is on no branch; switch to one with git switch")
        head = self.newest()
        _copy(_git_dir(self.layout) / "index", self._index)
        self._refuse_unseen()
        compared = head or self.git.line("mktree")
        staged = self.indexed.git.read("diff-index", "--cached", "-z", "--name-only", compared)
        if staged:
            paths = staged.split(b"\0")[:-1]
            raise HistoryError(
                f"{named(paths)} is staged in {where}, and the commit would take it along; "
                "commit it, or take it out with git reset"
            )
        return branch, head

    def _move(self, order: CommitOrder, place: tuple[str, str], commit: str, kept: str) -> None:
        """Put our index in its place and move the branch; if that fails, the old one returns."""
        branch, head = place
        index = _git_dir(self.layout) / "index"
        _note(self._store, commit)
        _note(self._store, kept)
        before = self._store / "index.before"
        _copy(index, before)
        _replace(index, self._index)
        session = reference(order.agent, order.session)
        refs = f"update {branch} {commit} {head or '0' * len(commit)}\n"
        refs += f"update {session} {kept}\n"
        try:
            _refuse_links(self.layout, (branch, session))
            moving = signed(self._user, order)
            moving.read("update-ref", "-m", "safetyd", "--stdin", stdin=refs.encode())
        except HistoryError:
            if before.exists():
                _replace(index, before)
            else:
                index.unlink(missing_ok=True)
            raise

    def _refuse_unseen(self) -> None:
        """Refuse an index by which git does not look at files: what changes there is not kept."""
        listed = self.indexed.git.read("ls-files", "-v", "-z").split(b"\0")[:-1]
        if unseen := [line[2:] for line in listed if line[:1] == b"S" or line[:1].islower()]:
            raise HistoryError(
                f"{named(unseen)} is marked as one that git shall not look at; undo it with "
                "git update-index --no-skip-worktree --no-assume-unchanged"
            )

    def _refuse_filters(self, paths: Sequence[bytes]) -> None:
        if filtered := self._having(("filter",), paths):
            raise HistoryError(
                f"{named(filtered)} has a filter in .gitattributes, which safetyd does not run; "
                'commit it by hand, or set history = "shadow"'
            )

    def _having(self, attributes: Sequence[str], paths: Sequence[bytes]) -> list[bytes]:
        """Return the paths for which one of the attributes is set."""
        if not paths:
            return []
        listed = b"\0".join(paths) + b"\0"
        found = self.indexed.git.read("check-attr", "-z", "--stdin", *attributes, stdin=listed)
        words = found.split(b"\0")[:-1]
        having = (
            path
            for path, value in zip(words[::3], words[2::3], strict=True)
            if value not in _NO_VALUE
        )
        return list(dict.fromkeys(having))


def _refuse_links(layout: Layout, refs: Sequence[str]) -> None:
    """Refuse if what git writes when it moves refs may be a file of elsewhere."""
    written = [_git_dir(layout) / name for name in ("HEAD", "logs/HEAD")]
    common = layout.common_dir or _git_dir(layout)
    written += [common / name for name in ("packed-refs", "objects")]
    written += [common / below / ref for ref in refs for below in ("", "logs")]
    for path in written:
        for part in (path, *path.parents):
            if part in {common, _git_dir(layout)}:
                break
            if part.is_symlink():
                raise HistoryError(f"{part} is a link, and git would write where it leads")


def _git_dir(layout: Layout) -> Path:
    if layout.git_dir is None:
        raise HistoryError(f"{layout.root} is in no repository")
    return layout.git_dir


def _with_objects(git: Git, layout: Layout) -> Git:
    common = layout.common_dir or _git_dir(layout)
    shallow = common / "shallow"
    more = {"GIT_SHALLOW_FILE": str(shallow)} if shallow.is_file() else {}
    return git.using(GIT_OBJECT_DIRECTORY=str(common / "objects"), **more)


@contextlib.contextmanager
def _index_lock(layout: Layout) -> Iterator[None]:
    """Keep the user's git from changing the index. A lock of ours that was left is ours again."""
    path = _git_dir(layout) / "index.lock"
    if small_file(path, len(_OURS)) == _OURS:
        path.unlink()
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        raise HistoryError(
            f"{path} is there: another git is at work in {layout.root}, or one was killed"
        ) from None
    except OSError as exc:
        raise HistoryError(f"{path} cannot be written: {exc.strerror}") from exc
    try:
        os.write(file, _OURS)
        os.close(file)
        yield
    finally:
        path.unlink(missing_ok=True)


def _replace(index: Path, by: Path) -> None:
    """Put a copy in the place of the index, as readable as that was."""
    fresh = index.with_name("index.safetyd")
    fresh.unlink(missing_ok=True)
    mode = stat.S_IMODE(index.lstat().st_mode) if index.exists() else 0o644
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(file, "wb") as into:
        into.write(by.read_bytes())
    _keep_time(by, fresh)
    fresh.replace(index)


def _copy(index: Path, into: Path) -> None:
    """Copy an index, or nothing if there is none. A link could lead to any file, and is refused."""
    into.unlink(missing_ok=True)
    content = small_file(index, _MAX_INDEX)
    if content is not None:
        into.write_bytes(content)
        _keep_time(index, into)
    elif index.is_symlink() or index.exists():
        raise HistoryError(f"{index} is no plain file of at most {_MAX_INDEX >> 20} MiB")


def _keep_time(index: Path, copy: Path) -> None:
    """Let a copy be as old as its index: git reads files anew that may have changed since that."""
    found = index.lstat()
    os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))


def _noted(store: Path) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        words = (store / "commits").read_text().split()
        return list(dict.fromkeys(word for word in words if len(word) in _LENGTHS))
    return []


def _note(store: Path, commit: str) -> None:
    """Write down that a commit is ours, before any ref leads to it."""
    with (store / "commits").open("a") as file:
        file.write(f"\n{commit}\n")
        file.flush()
        os.fsync(file.fileno())
