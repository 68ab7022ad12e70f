"""Tokens for agents that propose over HTTP.

A token is `NAME.SECRET` and is printed once. `keys/agents/NAME.tokens.json` stores its SHA-256 and,
after a rotation, the hashes of older tokens with their expiry.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec

from safetyd.bus.keyring import TOKENS, KeyExists, KeyMissing, KeyUnusable, locked
from safetyd.clock import uptime
from safetyd.core.messages.proposal import is_token
from safetyd.host import write_whole

SECRET_BYTES: Final = 32
SHOWN_CHARS: Final = 12  # how much of a hash is shown
_NOBODY: Final = "0" * 64


class TokenHash(msgspec.Struct, frozen=True, omit_defaults=True):
    """The hash of a token. For a replaced token, `until` is when it expires."""

    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
    until: Annotated[datetime, msgspec.Meta(tz=True)] | None = None

    @property
    def shown(self) -> str:
        return self.sha256[:SHOWN_CHARS]


Hashes = tuple[TokenHash, ...]  # newest first
_read = msgspec.json.Decoder(Hashes).decode


class AgentTokens:
    """The token files in the `keys` directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, name: str) -> str:
        """Create the first token of an agent and return it."""
        if not is_token(name):
            raise ValueError(f"{name!r} is not a valid name: use 1 to 64 of A-Z a-z 0-9 _ -")
        path = self._path(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self._directory):
            if path.exists():
                another = f"`safetyd agent rotate {name} --token` creates a new one"
                raise KeyExists(f"{name} already has a token; {another}")
            return _write(path, name, ())

    def rotate(self, name: str, *, now: datetime, until: datetime) -> str:
        """Create a new token and return it. Older tokens expire at `until` or earlier."""
        path = self._path(name)
        with locked(self._directory):
            if not path.exists():
                make = f"`safetyd agent add {name} --token` creates one"
                raise KeyMissing(f"{name} has no token; {make}")
            return _write(path, name, tuple(_ending(hashes_in(path), now, until)))

    def read(self, name: str) -> bytes | None:
        """Return the content of an agent's token file, for `restore`."""
        path = self._path(name)
        return path.read_bytes() if path.exists() else None

    def restore(self, name: str, content: bytes | None) -> None:
        """Undo a change that the daemon rejected."""
        path = self._path(name)
        with locked(self._directory):
            if content is None:
                path.unlink(missing_ok=True)
            else:
                write_whole(path, content)

    def hashes(self) -> dict[str, Hashes]:
        """Return the hashes of all tokens, sorted by agent."""
        paths = sorted((self._directory / "agents").glob(f"*{TOKENS}"))
        return {path.name.removesuffix(TOKENS): hashes_in(path) for path in paths}

    def _path(self, name: str) -> Path:
        return self._directory / "agents" / f"{name}{TOKENS}"


class TokenBook:
    """The tokens that a running daemon accepts."""

    def __init__(self) -> None:
        self._hashes: Mapping[str, Hashes] = {}
        self._end_t: dict[str, float] = {}

    def take_on(self, hashes: Mapping[str, Hashes], now: datetime) -> None:
        """Accept exactly these tokens. They expire even if the wall clock is set back."""
        steady = uptime()
        ends = {
            one.sha256: steady + (one.until - now).total_seconds()
            for each in hashes.values()
            for one in each
            if one.until is not None
        }
        self._end_t = {key: min(t, self._end_t.get(key, t)) for key, t in ends.items()}
        self._hashes = hashes

    @property
    def agents(self) -> frozenset[str]:
        return frozenset(self._hashes)

    def agent_of(self, token: str, now: datetime) -> str:
        """Return the agent of a token, or an empty string if the token is not valid."""
        name = token.rpartition(".")[0]
        given = _hash(token)
        known = self._hashes.get(name) or (TokenHash(_NOBODY),)
        same = [one for one in known if hmac.compare_digest(one.sha256, given)]
        return name if any(self._accepted(one, now) for one in same) else ""

    def _accepted(self, one: TokenHash, now: datetime) -> bool:
        if one.until is None:
            return True
        return now < one.until and uptime() < self._end_t.get(one.sha256, 0.0)


def hashes_in(path: Path) -> Hashes:
    """Return the hashes in a token file."""
    try:
        return _read(path.read_bytes())
    except msgspec.DecodeError as exc:
        raise KeyUnusable(f"{path} does not contain token hashes ({exc})") from exc


def _write(path: Path, name: str, older: Hashes) -> str:
    token = f"{name}.{secrets.token_urlsafe(SECRET_BYTES)}"
    write_whole(path, msgspec.json.encode((TokenHash(_hash(token)), *older)) + b"\n")
    return token


def _ending(hashes: Hashes, now: datetime, until: datetime) -> Iterator[TokenHash]:
    for one in hashes:
        ends = until if one.until is None else min(one.until, until)
        if ends > now:
            yield TokenHash(one.sha256, ends)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
