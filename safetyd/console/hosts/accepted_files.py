"""The files that hosts load for this user and in this folder, and those that were accepted."""

import os
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from safetyd.console.failure import Failure
from safetyd.console.locations import Location, endpoint
from safetyd.console.operator_connection import ask
from safetyd.console.terminal_text import plain
from safetyd.hosts.host_catalog import HOSTS, Host
from safetyd.hosts.loaded_changes import AcceptedTexts, Changes
from safetyd.hosts.loaded_files import bases
from safetyd.hosts.loaded_state import FolderState, LoadedReader, Unseen
from safetyd.operators.contract.host_contract import (
    AcceptedFolder,
    AcceptFilesCommand,
    HostFilesQuestion,
)

FOLDER: Final = "host_files"  # in the data directory


class FoundFiles(NamedTuple):
    """What one host loads, and how it differs from what was accepted."""

    host: Host
    states: Sequence[FolderState]
    differing: Sequence[FolderState]
    changes: Changes
    problem: str = ""  # why the files cannot be accepted

    def lines(self) -> Iterator[str]:
        """Yield what an operator accepts."""
        if self.changes.changed:
            yield f"{self.host.title} loads these files, which no operator has accepted:"
        for line in (*self.changes.changed, *self.changes.runs):
            yield f"  {plain(line, 1000)}"


class AcceptedFiles:
    """Asks the daemon what was accepted, and accepts the present files."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._location = Location(data_dir=data_dir)
        self._texts = AcceptedTexts(data_dir / FOLDER)

    def accepted(self, names: Sequence[str]) -> tuple[AcceptedFolder, ...]:
        """Return the accepted folders of these hosts, or of all; none if the daemon is away."""
        dialects = {HOSTS[name].dialect for name in names or HOSTS}
        try:
            return tuple(one for one in self._known() if one.host in dialects)
        except Failure:
            return ()

    def found(self, host: Host) -> FoundFiles:
        """Return the files that a host loads now."""
        try:
            states = _states(host)
            known = {one.folder: one.state for one in self._known() if one.host == host.dialect}
        except (Failure, Unseen) as exc:
            return FoundFiles(host, (), (), Changes(), str(exc))
        differing = [one for one in states if one.digest != known.get(one.base.name, "")]
        changes = self._texts.changes(host.dialect, differing, known)
        return FoundFiles(host, states, differing, changes)

    def accept(self, found: FoundFiles, written: Sequence[Path]) -> str:
        """Accept the files, of which `protect` itself has written some. Return a sentence."""
        title = found.host.title
        why = found.problem
        if not why:
            try:
                self._accept(found, {str(path) for path in written})
            except (Failure, Unseen) as exc:
                why = str(exc)
        if not why:
            return f"The files that {title} loads for you and in this folder are accepted."
        return (
            f"The files that {title} loads were not accepted, so a call may need approval: "
            f"{plain(why, 1000)}"
        )

    def _accept(self, found: FoundFiles, written: Container[str]) -> None:
        states = _states(found.host)
        _check_same(found.states, states, written)
        digests = {one.base.name: one.digest for one in states}
        ask(self._location, AcceptFilesCommand(host=found.host.dialect, states=digests))

    def _known(self) -> tuple[AcceptedFolder, ...]:
        if endpoint(self._data_dir) is None:
            raise Failure("the daemon is not running", "unreachable")
        return ask(self._location, HostFilesQuestion()).folders


def shown(folder: AcceptedFolder) -> str:
    """Return an accepted folder in one line."""
    return f"accepted: {folder.folder}, by {folder.by}, {folder.at:%Y-%m-%d %H:%M}Z"


def _states(host: Host) -> list[FolderState]:
    cwd, home = str(Path.cwd()), str(Path.home())
    return LoadedReader().states(bases(host.dialect, cwd, home, os.environ), cwd, home)


def _check_same(
    before: Sequence[FolderState], after: Sequence[FolderState], written: Container[str]
) -> None:
    """Raise `Failure` if a file changed that was not written by `protect`."""
    for old, new in zip(before, after, strict=True):
        files = {**old.files, **new.files}
        for name in {**old.hashes, **new.hashes}:
            path = files[name].path if name in files else name
            if old.hashes.get(name) != new.hashes.get(name) and path not in written:
                raise Failure(f"{path} has changed in the meantime", "changed")
