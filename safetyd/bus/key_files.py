"""The files of the `keys` directory that daemons share.

Seeds are not shared: they stay where they were created. `locals/` contains the public keys of the
local operators of other daemons, each named after its daemon.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from safetyd.bus.agent_tokens import hashes_in
from safetyd.bus.key_entry import NameKeys
from safetyd.bus.keyring import (
    LOCAL_OPERATOR,
    OLD,
    ROLES,
    TOKENS,
    Keyring,
    locked,
    old_keys_in,
    public_key,
)
from safetyd.core.messages.proposal import is_token
from safetyd.host import write_whole

LOCALS: Final = "locals"
SECRETS: Final = {"telemetry": "telemetry.key", "links": "links.json"}
_GROUPS: Final = (*ROLES, LOCALS)
# A change this soon after another one may leave the time of a directory as it is.
_RACY_NS: Final = 50_000_000


class EntryName(NamedTuple):
    """The name of an entry: a group and a name, such as agents and code. Secrets have no name."""

    group: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.group}.{self.name}" if self.name else self.group


def entry_name(text: str) -> EntryName | None:
    """Return the name of an entry, or None if it is not known."""
    group, _, name = text.partition(".")
    known = group in _GROUPS and is_token(name) if name else group in SECRETS
    return EntryName(group, name) if known and not is_own(group, name) else None


def is_own(group: str, name: str) -> bool:
    """Return True for the local operator, whose key is in `locals` of the other daemons."""
    return group == "operators" and name == LOCAL_OPERATOR


class KeyFiles:
    """The shared files of one daemon. `daemon` is its public key."""

    def __init__(self, directory: Path, daemon: str) -> None:
        self._directory = directory
        self._own = EntryName(LOCALS, daemon)

    @property
    def own(self) -> EntryName:
        """Return the name of this daemon's local operator."""
        return self._own

    def locked(self) -> AbstractContextManager[None]:
        """Prevent changes during the block. Raise BlockingIOError if a change is in progress."""
        return locked(self._directory, wait=False)

    def stamp(self) -> tuple[int, ...]:
        """Return a value that differs after each change of a file."""
        directories = (self._directory, *(self._directory / group for group in _GROUPS))
        times = tuple(_changed_ns(path) for path in directories)
        now = time.time_ns()
        return (*times, now) if now - max(times) < _RACY_NS else times

    def names(self) -> Iterator[EntryName]:
        """Yield the names that have files."""
        yield self._own
        for group in _GROUPS:
            paths = (self._directory / group).iterdir() if self._exists(group) else ()
            suffixes = (TOKENS, ".pub")
            found = {p.name.removesuffix(s) for p in paths for s in suffixes if p.name.endswith(s)}
            names = (EntryName(group, name) for name in sorted(found) if not is_own(group, name))
            yield from (name for name in names if name != self._own)

    def read(self, name: EntryName) -> NameKeys:
        seed = self._seed(name)
        tokens = seed.with_suffix(TOKENS)
        hashes = hashes_in(tokens) if name != self._own and tokens.exists() else ()
        if name != self._own and not seed.with_suffix(".pub").exists():
            return NameKeys(tokens=hashes)
        return NameKeys(public_key(seed), old_keys_in(seed), hashes)

    def write(self, name: EntryName, keys: NameKeys) -> None:
        """Write the files of a name; delete all of them, and its seed, if it is revoked."""
        seed = self._seed(name)
        seed.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if keys.revoked:
            seed.unlink(missing_ok=True)
        _write(seed.with_suffix(OLD), msgspec.json.encode(keys.old) if keys.old else b"")
        _write(seed.with_suffix(".pub"), (keys.public or "").encode())
        content = msgspec.json.encode(keys.tokens) if keys.tokens else b""
        _write(seed.with_suffix(TOKENS), content, 0o600)

    def read_secret(self, group: str) -> str:
        """Return a secret, or an empty string if there is none yet."""
        try:
            return (self._directory / SECRETS[group]).read_text().strip()
        except FileNotFoundError:
            return ""

    def write_secret(self, group: str, secret: str) -> None:
        _write(self._directory / SECRETS[group], secret.encode(), 0o600)

    def _exists(self, group: str) -> bool:
        return (self._directory / group).is_dir()

    def _seed(self, name: EntryName) -> Path:
        if name == self._own:
            return Keyring(self._directory).operator
        return self._directory / name.group / f"{name.name}.nk"


def _changed_ns(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime_ns
    return 0


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    if content:
        write_whole(path, content + b"\n", mode=mode)
    else:
        path.unlink(missing_ok=True)
