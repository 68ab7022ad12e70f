"""The difference between what a host loads and what an operator accepted.

The accepted states are in the journal, as hashes. The texts of accepted files are stored in the
data directory, only to show differences. They may be missing, such as on another machine.
"""

import difflib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from safetyd.hosts.loaded_code import would_run
from safetyd.hosts.loaded_state import FolderState, LoadedFile, Unseen, read_file

MAX_TEXT_BYTES: Final = 64 * 1024  # of one file
MAX_STORED_BYTES: Final = 1024 * 1024  # of one folder
MAX_DIFF: Final = 8 * 1024
MAX_LISTED: Final = 40
MAX_NAME: Final = 300


class StoredFolder(msgspec.Struct, kw_only=True):
    """The accepted files of one folder."""

    digest: str
    hashes: dict[str, str]
    texts: dict[str, str]


class Changes(msgspec.Struct):
    """What differs, in words for an operator."""

    changed: list[str] = []
    runs: list[str] = []
    diff: str = ""


class AcceptedTexts:
    """Stores the accepted files of each folder, in files that only the daemon can read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def store(self, host: str, state: FolderState) -> None:
        """Store the files of an accepted state."""
        known = self.load(host, state.base.name)
        if (known.digest if known else "") == state.digest:
            return
        texts: dict[str, str] = {}
        room = MAX_STORED_BYTES
        for name, text in _texts(state, state.files):
            room -= len(text)
            if room >= 0:
                texts[name] = text
        stored = StoredFolder(digest=state.digest, hashes=dict(state.hashes), texts=texts)
        self._directory.mkdir(mode=0o700, exist_ok=True)
        path = self._path(host, state.base.name)
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_bytes(msgspec.json.encode(stored))
        draft.replace(path)

    def load(self, host: str, name: str) -> StoredFolder | None:
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode(self._path(host, name).read_bytes(), type=StoredFolder)
        return None

    def changes(
        self, host: str, states: Sequence[FolderState], accepted: Mapping[str, str]
    ) -> Changes:
        """Return what differs from the accepted states."""
        found = Changes()
        for state in states:
            before = accepted.get(state.base.name, "")
            stored = self.load(host, state.base.name)
            if before and (stored is None or stored.digest != before):
                found.changed.append(f"{state.base.name}: safetyd has no copy of what was accepted")
                stored = None
            _add(found, state, stored if before else None)
        found.changed = _listed(found.changed)
        found.runs = _listed(found.runs)
        if len(found.diff) > MAX_DIFF:
            found.diff = found.diff[:MAX_DIFF] + "\n[…] The difference is longer than this.\n"
        return found

    def _path(self, host: str, name: str) -> Path:
        hashed = hashlib.sha256(f"{host} {name}".encode("utf-8", "surrogateescape")).hexdigest()
        return self._directory / f"{hashed[:32]}.json"


def _add(found: Changes, state: FolderState, stored: StoredFolder | None) -> None:
    before = stored.hashes if stored else {}
    names = [name for name in state.hashes if before.get(name) != state.hashes[name]]
    gone = [name for name in before if name not in state.hashes]
    for name in names:
        how = "changed" if name in before else "new"
        found.changed.append(f"{_shown(state, name)}: {how}")
    found.changed += [f"{_shown(state, name)}: gone" for name in gone]
    changed = {name: file for name, file in state.files.items() if name in names}
    texts = dict(_texts(state, changed))
    for name, text in texts.items():
        path = _shown(state, name)
        found.runs += would_run(path, text)
        if changed[name].kind == "settings" and len(found.diff) <= MAX_DIFF:
            continue  # settings may contain secrets
        old = stored.texts.get(name, "") if stored else ""
        lines = old.splitlines(), text.splitlines()
        if len(found.diff) <= MAX_DIFF:
            found.diff += "\n".join(difflib.unified_diff(*lines, path, path, lineterm="")) + "\n"


def _texts(state: FolderState, files: Mapping[str, LoadedFile]) -> Iterator[tuple[str, str]]:
    """Yield the files that are text and really in the folder, not behind a link."""
    base = os.path.realpath(state.base.folder)
    for name, file in files.items():
        if os.path.realpath(file.path) != f"{base.rstrip('/')}/{name}":
            continue
        with suppress(OSError, Unseen, UnicodeDecodeError):
            yield name, read_file(file.path, MAX_TEXT_BYTES).decode()


def _shown(state: FolderState, name: str) -> str:
    path = name[1:] if name.startswith("@") else f"{state.base.folder.rstrip('/')}/{name}"
    return path.encode("utf-8", "replace").decode()[:MAX_NAME]


def _listed(lines: list[str]) -> list[str]:
    more = len(lines) - MAX_LISTED
    return [*lines[:MAX_LISTED], f"and {more} more"] if more > 0 else lines
