"""Key files, which define who may connect and under which name.

- `NAME.nk` is the secret nkey seed (mode 0600). It can be moved to the agent's own account.
- `NAME.pub` is the public key that the server trusts. A rotation replaces both files.
- `NAME.old.json` lists replaced public keys that are still trusted for a while.
- `NAME.next.nk` is the new seed of an unfinished rotation.
"""

import fcntl
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, get_args

import msgspec
import nkeys
from nacl.signing import SigningKey

from safetyd.core.messages.proposal import is_token
from safetyd.host import write_whole

Role = Literal["agents", "operators", "observers", "relays"]

LOCAL_OPERATOR: Final = "local"
ROLES: Final[tuple[Role, ...]] = get_args(Role)
OLD: Final = ".old.json"
TOKENS: Final = ".tokens.json"  # see agent_tokens.py
KEY_BYTES: Final = 32  # of the key for telemetry_tokens.py
_NEXT: Final = ".next.nk"

_is_seed = re.compile(r"SU[A-Z2-7]{56}\Z").match
is_public_key = re.compile(r"U[A-Z2-7]{55}\Z").match
_is_token = re.compile(r"[A-Za-z0-9_-]{32,}\Z").match


class KeyExists(Exception):
    """The name already has a key."""


class KeyUnusable(Exception):
    """A key file is invalid. The text names it."""


class KeyMissing(Exception):
    """The name has no key."""


class OldKey(msgspec.Struct, frozen=True):
    """The public key of a replaced pair. It is trusted until `until`."""

    public: str
    until: Annotated[datetime, msgspec.Meta(tz=True)]


OldKeys = Mapping[Role, tuple[tuple[str, OldKey], ...]]  # pairs of a name and an old key


class Rotation(NamedTuple):
    """The new pair of a rotation, and the previous content of each file."""

    seed: Path
    public: str
    old_keys: tuple[OldKey, ...]
    before: Mapping[Path, bytes | None]


_read_old = msgspec.json.Decoder(tuple[OldKey, ...]).decode


class Keyring:
    """The `keys` directory."""

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

    @property
    def telemetry_key(self) -> Path:
        return self._directory / "telemetry.key"

    def seed_of(self, role: Role, name: str) -> Path:
        if role == "operators" and name == LOCAL_OPERATOR:
            return self.operator
        return self._directory / role / f"{name}.nk"

    def make_own(self) -> None:
        """Create the keys of the daemon and the local operator, if missing."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (self.daemon, self.operator):
            if not path.exists():
                _write_pair(path)
        if not self.operator_token.exists():
            self._write_token()
        if not self.telemetry_key.exists():
            write_whole(self.telemetry_key, f"{secrets.token_hex(KEY_BYTES)}\n".encode())

    def bearer(self) -> str:
        """Return the token for HTTP requests of the local operator."""
        token = self.operator_token.read_text(errors="replace").strip()
        if not _is_token(token):
            kind = "token (32 or more of A-Z a-z 0-9 _ -)"
            raise KeyUnusable(f"{self.operator_token} does not contain a {kind}")
        return token

    def add(self, role: Role, name: str) -> Path:
        """Create a key for `name` and return the path of its seed."""
        if not is_token(name):
            raise ValueError(f"{name!r} is not a valid name: use 1 to 64 of A-Z a-z 0-9 _ -")
        if name in dict(self.public(role)):
            raise KeyExists(self.known(role, name))
        path = self.seed_of(role, name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self._directory):
            _write_pair(path)
        return path

    def known(self, role: Role, name: str) -> str:
        """Return where the key of a name is, and how to replace it."""
        seed = self.seed_of(role, name)
        where = str(seed) if seed.exists() else f"{seed} (moved away)"
        another = f"`safetyd {_group(role)} rotate {name}` creates a new one"
        return f"{name} already has a key: {where}; {another}"

    def revoke(self, role: Role, name: str, *, tokens: bool = True) -> None:
        """Delete all keys of a name and, by default, its tokens."""
        path = self.seed_of(role, name)
        if not path.with_suffix(TOKENS).exists():
            _check_known(path, role, name)
        with locked(self._directory):
            for suffix in (OLD, _NEXT, ".pub", ".nk", *((TOKENS,) if tokens else ())):
                path.with_suffix(suffix).unlink(missing_ok=True)

    def rotate(self, role: Role, name: str, *, now: datetime, until: datetime) -> Rotation:
        """Create a new pair for `name`. The old key is trusted until `until`, which can be `now`.

        Keys from earlier rotations expire at that time or earlier. A crash during a rotation is
        safe: the seed file then contains a key that is trusted.
        """
        seed = self.seed_of(role, name)
        if seed != self.operator:
            _check_known(seed, role, name)
        with locked(self._directory):
            _finish(seed)
            before = self._contents(seed)
            old_keys = tuple(_ending(public_key(seed), old_keys_in(seed), now, until))
            fresh, public = new_pair()
            write_whole(seed.with_suffix(_NEXT), fresh + b"\n")
            _write_old(seed, old_keys)
            write_whole(seed.with_suffix(".pub"), public + b"\n", mode=0o644)
            seed.with_suffix(_NEXT).rename(seed)
            if seed == self.operator:
                self._write_token()
        return Rotation(seed, public.decode(), old_keys, before)

    def undo(self, rotation: Rotation) -> None:
        """Restore all files of a rotation that the daemon rejected."""
        with locked(self._directory):
            for path, content in rotation.before.items():
                if content is None:
                    path.unlink(missing_ok=True)
                else:
                    write_whole(path, content, mode=_mode(path))

    def end_old_keys(self, role: Role, name: str) -> None:
        """Delete the replaced keys of a name, so that only the newest is trusted."""
        with locked(self._directory):
            self.seed_of(role, name).with_suffix(OLD).unlink(missing_ok=True)

    def settle(self, now: datetime) -> None:
        """Finish interrupted rotations, and remove expired old keys.

        Do nothing if another process is changing keys.
        """
        try:
            with locked(self._directory, wait=False):
                for path in self._directory.rglob(f"*{_NEXT}"):
                    _finish(path.with_name(path.name.removesuffix(_NEXT) + ".nk"))
                for path in self._directory.rglob(f"*{OLD}"):
                    seed = path.with_name(path.name.removesuffix(OLD) + ".nk")
                    _forget_ended(seed, now)
        except BlockingIOError:
            return

    def public(self, role: Role) -> Iterator[tuple[str, str]]:
        """Yield every name of a role with its public key, sorted by name."""
        if role == "operators":
            yield LOCAL_OPERATOR, public_key(self.operator)
        for path in sorted((self._directory / role).glob("*.pub")):
            yield path.stem, _checked(path)

    def other_locals(self, now: datetime) -> tuple[str, ...]:
        """Return the keys of the local operators of other daemons (see key_files.py)."""
        found = []
        for path in sorted((self._directory / "locals").glob("*.pub")):
            found += [_checked(path), *(key.public for key in old_keys_in(path) if key.until > now)]
        return tuple(found)

    def old_keys(self, now: datetime) -> OldKeys:
        """Return the replaced keys of each role that are still trusted."""
        return {role: tuple(self._old_keys(role, now)) for role in ROLES}

    def _old_keys(self, role: Role, now: datetime) -> Iterator[tuple[str, OldKey]]:
        for name, public in self.public(role):
            for key in old_keys_in(self.seed_of(role, name)):
                # After an interrupted rotation, the list may contain the current key.
                if key.until > now and key.public != public:
                    yield name, key

    def _contents(self, seed: Path) -> Mapping[Path, bytes | None]:
        """Return the files that a rotation changes, in the order to restore them."""
        paths = [seed, seed.with_suffix(".pub"), seed.with_suffix(OLD)]
        if seed == self.operator:
            paths.append(self.operator_token)
        return {path: path.read_bytes() if path.exists() else None for path in paths}

    def _write_token(self) -> None:
        write_whole(self.operator_token, f"{secrets.token_urlsafe(32)}\n".encode())


@contextmanager
def locked(directory: Path, *, wait: bool = True) -> Iterator[None]:
    """Prevent other processes from changing keys during the block."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(opened)


def old_keys_in(seed: Path) -> tuple[OldKey, ...]:
    """Return the old keys next to a seed, including expired ones."""
    path = seed.with_suffix(OLD)
    try:
        found = _read_old(path.read_bytes())
    except FileNotFoundError:
        return ()
    except msgspec.DecodeError as exc:
        raise KeyUnusable(f"{path} does not contain a list of old keys ({exc})") from exc
    if not all(is_public_key(key.public) for key in found):
        raise KeyUnusable(
            f"{path} does not contain public user keys (56 characters, starting with U)"
        )
    return found


def seed_in(path: Path) -> str:
    """Return the nkey seed in a file."""
    seed = path.read_text(errors="replace").strip()
    if not _is_seed(seed):
        raise KeyUnusable(
            f"{path} does not contain an nkey user seed (58 characters, starting with SU)"
        )
    return seed


def _checked(path: Path) -> str:
    key = path.read_text(errors="replace").strip()
    if not is_public_key(key):
        raise KeyUnusable(
            f"{path} does not contain a public user key (56 characters, starting with U)"
        )
    return key


def public_key_in(path: Path) -> str:
    """Return the public key in a file that contains it or its seed."""
    text = path.read_text(errors="replace").strip()
    return _public_key_of(path) if _is_seed(text) else _checked(path)


def public_key(seed: Path) -> str:
    """Return the public key from the `.pub` file or, if it is missing, from the seed."""
    public = seed.with_suffix(".pub")
    if public.exists():
        return _checked(public)
    return _public_key_of(seed)


def _public_key_of(seed: Path) -> str:
    public: str = nkeys.from_seed(seed_in(seed).encode()).public_key.decode()
    return public


def new_pair() -> tuple[bytes, bytes]:
    """Return a seed and its public key."""
    seed = nkeys.encode_seed(bytes(SigningKey.generate()), nkeys.PREFIX_BYTE_USER)
    return seed, nkeys.from_seed(seed).public_key


def _write_pair(path: Path) -> None:
    path.with_suffix(OLD).unlink(missing_ok=True)  # left by an earlier key of this name
    seed, public = new_pair()
    write_whole(path, seed + b"\n")
    write_whole(path.with_suffix(".pub"), public + b"\n", mode=0o644)


def _check_known(seed: Path, role: Role, name: str) -> None:
    if not seed.with_suffix(".pub").exists():
        raise KeyMissing(f"{name} has no key; `safetyd {_group(role)} list` lists all keys")


def _ending(
    public: str, old_keys: tuple[OldKey, ...], now: datetime, until: datetime
) -> Iterator[OldKey]:
    """Yield the old keys that stay trusted after a rotation."""
    older = (OldKey(key.public, min(key.until, until)) for key in old_keys if key.public != public)
    for key in (OldKey(public, until), *older):
        if key.until > now:
            yield key


def _write_old(seed: Path, keys: tuple[OldKey, ...]) -> None:
    path = seed.with_suffix(OLD)
    if keys:
        write_whole(path, msgspec.json.encode(keys) + b"\n", mode=0o644)
    else:
        path.unlink(missing_ok=True)


def _forget_ended(seed: Path, now: datetime) -> None:
    known = seed.with_suffix(".pub").exists()
    left = tuple(key for key in old_keys_in(seed) if known and key.until > now)
    if left != old_keys_in(seed):
        _write_old(seed, left)


def _finish(seed: Path) -> None:
    """Finish a rotation if its public key is already written, else delete its new seed."""
    fresh, public = seed.with_suffix(_NEXT), seed.with_suffix(".pub")
    if not fresh.exists():
        return
    if public.exists() and _checked(public) == _public_key_of(fresh):
        fresh.rename(seed)
    else:
        fresh.unlink()


def _group(role: Role) -> str:
    """Return the name of the command that manages keys of a role."""
    return "operator" if role == "observers" else role.removesuffix("s")


def _mode(path: Path) -> int:
    return 0o600 if path.suffix in {".nk", ".token"} else 0o644
