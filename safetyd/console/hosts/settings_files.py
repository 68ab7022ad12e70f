"""Remembers how the settings files of hosts were before.

The record is in the user's own state folder, not in the daemon's.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from safetyd.console.failure import Failure, using_file
from safetyd.console.recorded_files import FileRecord, read_record, write_record
from safetyd.host import user_name
from safetyd.hosts.host_catalog import Scope


class HostRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What `protect` wrote for one host, so that `unprotect` can undo exactly that."""

    host: str
    scope: Scope
    agent: str
    files: tuple[FileRecord, ...]


class HostRecords:
    """The records of one user."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        state = environment.get("XDG_STATE_HOME") or home / ".local" / "state"
        self._folder = Path(state) / "safetyd" / "hosts"

    def read(self, host: str, scope: Scope) -> HostRecord | None:
        return read_record(self._path(host, scope), HostRecord)

    def write(self, record: HostRecord) -> None:
        write_record(self._path(record.host, record.scope), record)

    def remove(self, host: str, scope: Scope) -> None:
        with using_file(self._path(host, scope), "write"):
            self._path(host, scope).unlink(missing_ok=True)

    def token_file(self, agent: str) -> Path:
        """Return where the token of an agent is, if it needs one."""
        return self._folder / f"{agent}.token"

    def _path(self, host: str, scope: Scope) -> Path:
        return self._folder / f"{host}-{scope}.json"


def check_owner(path: Path) -> None:
    """Refuse a file that belongs to another user."""
    with using_file(path, "read"):
        owner = path.stat().st_uid if path.exists() else os.geteuid()
    if owner != os.geteuid():
        raise Failure(
            f"{path} belongs to {user_name(owner)}. Run this as {user_name(owner)}. "
            "Nothing was written",
            "not_yours",
        )
