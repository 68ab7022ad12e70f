"""Reads the files that a host loads, and returns their state by folder.

It runs in a thread, because a file system may hang. Files whose size, times and inode are unchanged
are not read again.
"""

import hashlib
import json
import os
import posixpath
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from safetyd.hosts import json_text
from safetyd.hosts.loaded_code import imports
from safetyd.hosts.loaded_files import Base, Kind, Pattern

MAX_FILES: Final = 20_000
MAX_READ_BYTES: Final = 256 * 1024 * 1024  # of all new files together
MAX_TEXT_BYTES: Final = 256 * 1024  # a longer file is not searched for imports
MAX_IMPORTS: Final = 5  # of a file that was imported by another, and so on
MAX_LINKED: Final = 32  # folders within folders
MAX_CACHED: Final = 100_000

# Members of settings that run nothing, and that hosts change when their user clicks.
_HARMLESS: Final = frozenset(
    {"permissions", "model", "theme", "ui", "projects", "tui", "notice", "general", "effortLevel"}
)
_LEFT_OUT: Final = frozenset({".git", ".system", ".DS_Store"})

Stamp = tuple[int, ...]


class Unseen(Exception):
    """The files cannot be compared; the text says why."""


class LoadedFile(NamedTuple):
    path: str  # where it is
    kind: Kind
    stamp: Stamp
    keys: tuple[str, ...] = ()


class FolderState(NamedTuple):
    """What a host loads from one folder. `digest` is empty if there is nothing."""

    base: Base
    files: Mapping[str, LoadedFile]  # by name: the path below the folder
    hashes: Mapping[str, str]

    @property
    def settings(self) -> "FolderState":
        """Return the part that hosts obey at once."""
        files = {name: file for name, file in self.files.items() if file.kind == "settings"}
        return FolderState(self.base, files, {name: self.hashes[name] for name in files})

    @property
    def digest(self) -> str:
        if not self.hashes:
            return ""
        written = json.dumps(sorted(self.hashes.items()))
        return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class LoadedReader:
    """Reads states, and remembers the hashes of files that have not changed since."""

    def __init__(self) -> None:
        self._known: dict[_Key, _Hashed] = {}

    def states(self, bases: Iterable[Base], cwd: str, home: str) -> list[FolderState]:
        """Return the state of each folder. Raise `Unseen` if one cannot be read."""
        if cwd:
            _check_visible(cwd)
        if len(self._known) > MAX_CACHED:
            self._known = {}
        reading = _Reading(self._known, home)
        return [reading.state(base) for base in bases]


class _Hashed(NamedTuple):
    hash: str  # empty if nothing in the file counts
    imports: tuple[str, ...]  # the names of the files that it may import


_Key = tuple[str, Stamp, tuple[str, ...]]


class _Reading:
    """One pass over all folders."""

    def __init__(self, known: dict[_Key, _Hashed], home: str) -> None:
        self._known = known
        self._home = home
        self._room = MAX_READ_BYTES

    def state(self, base: Base) -> FolderState:
        files: dict[str, LoadedFile] = {}
        hashes: dict[str, str] = {}
        for name, file in _found(base):
            hashed = self._hashed(file)
            if not hashed.hash:
                continue
            files[name], hashes[name] = file, hashed.hash
            if file.kind == "memory":
                hashes |= self._imported(file, hashed.imports)
        return FolderState(base, files, hashes)

    def _imported(self, file: LoadedFile, named: tuple[str, ...]) -> dict[str, str]:
        """Return the hashes of files that a memory file imports, also through other files."""
        found: dict[str, str] = {}
        ahead = [(file.path, one, MAX_IMPORTS) for one in named]
        while ahead:
            source, one, left = ahead.pop()
            named_path = f"{self._home}{one[1:]}" if one.startswith("~/") else one
            path = posixpath.normpath(posixpath.join(posixpath.dirname(source), named_path))
            seen = _look(path)
            if f"@{path}" in found or seen is None or not stat.S_ISREG(seen.st_mode):
                continue
            hashed = self._hashed(LoadedFile(path, "memory", _stamp(seen)))
            found[f"@{path}"] = hashed.hash
            if left > 1:
                ahead += [(path, other, left - 1) for other in hashed.imports]
            if len(found) > MAX_FILES:
                raise Unseen(f"{file.path} imports too many files")
        return found

    def _hashed(self, file: LoadedFile) -> _Hashed:
        key = file.path, file.stamp, file.keys
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._read(file)
        return known

    def _read(self, file: LoadedFile) -> _Hashed:
        try:
            content = read_file(file.path, self._room)
            link = os.readlink(file.path) if os.path.islink(file.path) else ""  # noqa: PTH114, PTH115
        except OSError as exc:
            raise Unseen(f"the daemon cannot read {file.path} ({exc.strerror or exc})") from exc
        self._room -= len(content)
        counted = _counted(file, content)
        if counted is None:
            return _Hashed("", ())
        named: tuple[str, ...] = ()
        if file.kind == "memory" and len(content) <= MAX_TEXT_BYTES:
            named = tuple(imports(content.decode("utf-8", "replace")))
        linked = link.encode("utf-8", "surrogateescape")
        return _Hashed(hashlib.sha256(linked + b"\0" + counted).hexdigest()[:32], named)


def read_file(path: str, most: int) -> bytes:
    """Return the content of a regular file."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with open(opened, "rb") as file:  # noqa: PTH123 - it is already open
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(f"{path} is no regular file")
        content = file.read(most + 1)
    if len(content) > most:
        raise Unseen(f"{path} and the files before it are too long")
    return content


def _check_visible(folder: str) -> None:
    """Raise `Unseen` if the daemon cannot look into the folder of a session."""
    try:
        os.listdir(folder)  # noqa: PTH208 - it must be readable
    except OSError as exc:
        raise Unseen(f"the daemon cannot read {folder} ({exc.strerror or exc})") from exc


def _found(base: Base) -> Iterator[tuple[str, LoadedFile]]:
    """Yield the files of a folder in order, each with its name below the folder."""
    count = 0
    for pattern in base.patterns:
        below = pattern.path.removesuffix("/**")
        path = f"{base.folder.rstrip('/')}/{below}"
        names = _tree(path, 0) if below != pattern.path else iter(("",))
        for rest in names:
            file = _file(f"{path}{rest}", pattern)
            if file is None:
                continue
            count += 1
            if count > MAX_FILES:
                raise Unseen(f"{base.folder} has too many files that are loaded")
            yield f"{below}{rest}", file


def _file(path: str, pattern: Pattern) -> LoadedFile | None:
    seen = _look(path)
    if seen is None or not stat.S_ISREG(seen.st_mode):
        return None
    return LoadedFile(path, pattern.kind, _stamp(seen), pattern.keys)


def _tree(folder: str, depth: int) -> Iterator[str]:
    """Yield the names below a folder, each with a slash before it. Links are followed."""
    if depth > MAX_LINKED:
        raise Unseen(f"{folder} is too deep")
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - faster
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as exc:
        raise Unseen(f"the daemon cannot read {folder} ({exc.strerror or exc})") from exc
    for name in names:
        if name in _LEFT_OUT:
            continue
        yield f"/{name}"
        if os.path.isdir(f"{folder}/{name}"):  # noqa: PTH112
            yield from (f"/{name}{rest}" for rest in _tree(f"{folder}/{name}", depth + 1))


def _look(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 - faster
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise Unseen(f"the daemon cannot read {path} ({why})") from exc


def _stamp(seen: os.stat_result) -> Stamp:
    """Return what changes with a file. Programs cannot set `st_ctime_ns`."""
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def _counted(file: LoadedFile, content: bytes) -> bytes | None:
    """Return the part of settings that counts, or the whole content of other files.

    Return None if nothing in the settings counts.
    """
    if file.kind != "settings" or not file.path.endswith((".json", ".jsonc", ".toml")):
        return content
    settings = None
    with suppress(ValueError, RecursionError, json_text.NotJson):
        text = content.decode()
        is_toml = file.path.endswith(".toml")
        settings = tomllib.loads(text) if is_toml else json_text.parse(text)
    if not isinstance(settings, dict):
        return content
    if file.keys:
        counted = _picked(settings, file.keys)
        projects = settings.get("projects")
        for name, project in projects.items() if isinstance(projects, dict) else ():
            own = _picked(project, file.keys) if isinstance(project, dict) else {}
            counted |= {f"projects {name}": own} if own else {}
    else:
        counted = {key: value for key, value in settings.items() if key not in _HARMLESS}
    return json.dumps(counted, sort_keys=True, default=str).encode() if counted else None


def _picked(settings: Mapping[str, object], keys: Iterable[str]) -> dict[str, object]:
    return {key: settings[key] for key in keys if settings.get(key)}
