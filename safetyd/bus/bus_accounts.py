"""Keeps the accounts of an external nats-server equal to the keys in the bucket."""

import logging
import os
import signal
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import nats.errors
import nats.js.errors

from safetyd.bus.embedded_server import ServerRefused, try_config
from safetyd.bus.key_bucket import KeyBucket, Remote
from safetyd.bus.key_entry import NameKeys
from safetyd.bus.key_files import LOCALS, EntryName
from safetyd.bus.keyring import ROLES, OldKey, Role
from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.server_config import Users, accounts
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.host import write_whole

LOOK_S: Final = 0.5
HEAD: Final = "# Written by `safetyd nats-accounts` whenever keys change; edits are lost.\n"
_SERVER: Final = "nats-server"
_NEVER: Final = datetime.max.replace(tzinfo=UTC)

log = logging.getLogger("safetyd.accounts")


class NoServer(Exception):
    """The process to signal is not a nats-server. The text says why."""


class AccountsFile:
    """The file that a nats-server includes. Without `pid_file`, no server is signalled.

    `binary` is the nats-server that tests a new file; without it, none does.
    """

    def __init__(self, path: Path, pid_file: Path | None, binary: str) -> None:
        self._path = path
        self._pid_file = pid_file
        self._binary = binary
        self._told = True  # the server has loaded the file
        self._problem = ""

    def update(self, text: str) -> bool:
        """Write the file and make the server load it. Return True if the file was written.

        If a step fails, log it once. The next call tries again.
        """
        wrote, problem = False, ""
        try:
            wrote = self._write(text.encode())
            if not self._told:
                self._signal()
        except (OSError, ServerRefused, NoServer) as exc:
            problem = str(exc)
        if problem and problem != self._problem:
            log.error("the accounts of the bus are not up to date: %s", problem)
        self._problem = problem
        return wrote

    def _write(self, content: bytes) -> bool:
        if self._path.exists() and self._path.read_bytes() == content:
            return False
        test = partial(try_config, self._binary) if self._binary else _untested
        write_whole(self._path, content, mode=0o644, look=test)
        self._told = self._pid_file is None
        log.info("wrote the accounts of the bus to %s", self._path)
        return True

    def _signal(self) -> None:
        if self._pid_file is None:
            return
        text = self._pid_file.read_text(errors="replace").strip()
        pid = int(text) if text.isascii() and text.isdigit() else 0
        # SIGHUP ends most programs, and the file may be older than the process.
        name = Path(f"/proc/{pid}/comm")
        if not pid or not name.exists() or name.read_text().strip() != _SERVER:
            raise NoServer(f"{self._pid_file} does not contain the pid of a running {_SERVER}")
        os.kill(pid, signal.SIGHUP)
        self._told = True


class AccountsFollower:
    """Follows the bucket, and updates the file."""

    def __init__(
        self,
        client: HardenedClient,
        subjects: Subjects,
        daemons: tuple[str, ...],
        file: AccountsFile,
        replicas: int = 1,
    ) -> None:
        self._subjects = subjects
        self._replicas = replicas
        self._daemons = daemons
        self._file = file
        self._bucket = KeyBucket(client, subjects, frozenset(daemons))
        self._clock = Clock()
        self._woken = anyio.Event()
        self._text = ""
        self._expires = _NEVER  # when the next old key does
        self._problem = ""

    async def run(self) -> None:
        """Update the file whenever keys change or expire, forever."""
        await self._bucket.follow(lambda: self._woken.set())  # noqa: PLW0108 - it is replaced
        while True:
            await self._try()
            with anyio.move_on_after(LOOK_S):
                await self._woken.wait()
            self._woken = anyio.Event()

    async def once(self) -> bool:
        """Update the file. Return False if no daemon has written its keys to the bucket yet."""
        changed, now = await self._bucket.refresh(), self._clock.now().at
        if not self._bucket.complete:
            return False
        if changed or now >= self._expires:
            users = users_in(self._bucket.entries, self._daemons, now)
            ends = [old.until for keys in users.old_keys.values() for _, old in keys]
            self._expires = min(ends, default=_NEVER)
            self._text = HEAD + accounts(users, self._subjects, replicas=self._replicas)
        self._file.update(self._text)
        return True

    async def _try(self) -> None:
        problem = ""
        try:
            if not await self.once():
                problem = "no daemon with bus.daemons has written its keys yet"
        except (nats.errors.Error, nats.js.errors.Error, TimeoutError) as exc:
            problem = f"the key bucket cannot be read ({exc})"
        if problem and problem != self._problem:
            log.warning("waiting: %s", problem)
        self._problem = problem


def users_in(entries: Mapping[EntryName, Remote], daemons: tuple[str, ...], now: datetime) -> Users:
    """Return the users that may connect."""
    found = {
        name: remote.entry.keys.at(now)
        for name, remote in sorted(entries.items())
        if remote.entry is not None and remote.entry.keys is not None
    }
    locals_ = (keys for (group, _), keys in found.items() if group == LOCALS)
    return Users(
        daemons=daemons,
        agents=dict(_newest("agents", found)),
        operators=dict(_newest("operators", found)),
        observers=dict(_newest("observers", found)),
        relays=dict(_newest("relays", found)),
        other_locals=tuple(
            key for keys in locals_ for key in (keys.public, *(o.public for o in keys.old)) if key
        ),
        old_keys={role: tuple(_old(role, found)) for role in ROLES},
        open_agents=False,
    )


def _newest(role: Role, found: Mapping[EntryName, NameKeys]) -> Iterator[tuple[str, str]]:
    for (group, name), keys in found.items():
        if group == role and keys.public:
            yield name, keys.public


def _old(role: Role, found: Mapping[EntryName, NameKeys]) -> Iterator[tuple[str, OldKey]]:
    for (group, name), keys in found.items():
        if group == role:
            yield from ((name, old) for old in keys.old if old.public != keys.public)


def _untested(_path: Path) -> None:
    """Accept a file without a nats-server."""
