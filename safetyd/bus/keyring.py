"""Key files: who may connect, and as whom.

`NAME.nk` is an nkey seed (mode 0600) for its owner; `NAME.pub` beside it is what the server trusts,
so a seed may be moved to the agent's own account and the agent stays known.
"""

import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import nkeys
from nacl.signing import SigningKey

from safetyd.core.messages.proposal import is_token
from safetyd.host import write_whole

Role = Literal["agents", "operators", "observers"]

LOCAL_OPERATOR: Final = "local"

_is_seed = re.compile(r"SU[A-Z2-7]{56}\Z").match
_is_public_key = re.compile(r"U[A-Z2-7]{55}\Z").match
_is_token = re.compile(r"[A-Za-z0-9_-]{32,}\Z").match


class KeyExists(Exception):
    """The name already has a key."""


class KeyUnusable(Exception):
    """A key file does not hold a key; the text names it."""


class KeyMissing(Exception):
    """The name has no key."""


class Keyring:
    """The `keys` directory of a data dir."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def daemon(self) -> Path:
        return self._directory / "daemon.nk"

    @property
    def operator(self) -> Path:
        return self._directory / "operator.nk"

    @property
    def operator_token(self) -> Path:
        return self._directory / "operator.token"

    def seed_of(self, role: Role, name: str) -> Path:
        if role == "operators" and name == LOCAL_OPERATOR:
            return self.operator
        return self._directory / role / f"{name}.nk"

    def make_own(self) -> None:
        """Make what the daemon itself and the local operator need, where it is not there yet."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (self.daemon, self.operator):
            if not path.exists():
                _write_pair(path)
        if not self.operator_token.exists():
            write_whole(self.operator_token, f"{secrets.token_urlsafe(32)}\n".encode())

    def bearer(self) -> str:
        """Return what the local operator's HTTP requests carry."""
        token = self.operator_token.read_text(errors="replace").strip()
        if not _is_token(token):
            kind = "token (32 or more of A-Z a-z 0-9 _ -)"
            raise KeyUnusable(f"{self.operator_token} holds no {kind}")
        return token

    def add(self, role: Role, name: str) -> Path:
        """Make a key for `name` and return the path of its seed."""
        if not is_token(name):
            raise ValueError(f"{name!r} is not a name: use 1 to 64 of A-Z a-z 0-9 _ -")
        if name in dict(self.public(role)):
            raise KeyExists(f"{name} already has a key: {self.seed_of(role, name)}")
        path = self.seed_of(role, name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_pair(path)
        return path

    def revoke(self, role: Role, name: str) -> None:
        path = self.seed_of(role, name)
        if not path.with_suffix(".pub").exists():
            raise KeyMissing(f"{name} has no key; `safetyd {role[:-1]} list` shows who has")
        path.with_suffix(".pub").unlink()
        path.unlink(missing_ok=True)

    def public(self, role: Role) -> Iterator[tuple[str, str]]:
        """Yield every name of a role with its public key, sorted by name."""
        if role == "operators":
            yield LOCAL_OPERATOR, public_key(self.operator)
        for path in sorted((self._directory / role).glob("*.pub")):
            yield path.stem, _checked(path)


def seed_in(path: Path) -> str:
    """Return the nkey seed that a file holds."""
    seed = path.read_text(errors="replace").strip()
    if not _is_seed(seed):
        raise KeyUnusable(f"{path} holds no nkey seed of a user (58 characters, first SU)")
    return seed


def _checked(path: Path) -> str:
    key = path.read_text(errors="replace").strip()
    if not _is_public_key(key):
        raise KeyUnusable(f"{path} holds no public key of a user (56 characters, first a U)")
    return key


def public_key(seed: Path) -> str:
    """Return the public key beside a seed or, without one, the seed's own."""
    public = seed.with_suffix(".pub")
    if public.exists():
        return _checked(public)
    pair: str = nkeys.from_seed(seed_in(seed).encode()).public_key.decode()
    return pair


def new_pair() -> tuple[bytes, bytes]:
    """Return a seed and its public key."""
    seed = nkeys.encode_seed(bytes(SigningKey.generate()), nkeys.PREFIX_BYTE_USER)
    return seed, nkeys.from_seed(seed).public_key


def _write_pair(path: Path) -> None:
    seed, public = new_pair()
    write_whole(path, seed + b"\n")
    write_whole(path.with_suffix(".pub"), public + b"\n", mode=0o644)
