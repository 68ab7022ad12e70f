"""The file with the signing keys of links. Losing it invalidates links, and nothing else."""

import secrets
import string
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from safetyd.bus.keyring import KeyUnusable
from safetyd.host import write_whole
from safetyd.notify.links.tokens import LinkKey

ROTATED_AFTER: Final = timedelta(days=90)
LINK_TIME: Final = timedelta(days=7)  # the longest lifetime of a link
SECRET_BYTES: Final = 32

_decode = msgspec.json.Decoder(tuple[LinkKey, ...]).decode


class LinkKeys:
    """`keys/links.json` of a data directory, made on first use and readable only by its owner."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def keys(self, now: datetime) -> tuple[LinkKey, ...]:
        """Return the keys, newest last, after creating, rotating or dropping keys as needed."""
        if not self._path.exists():
            return self._kept((_made("a", now),))
        keys = self._read()
        if now >= keys[-1].created + ROTATED_AFTER:
            return self.rotate(now)
        current = _without_old(keys, now)
        return keys if current == keys else self._kept(current)

    def rotate(self, now: datetime, *, revoke_now: bool = False) -> tuple[LinkKey, ...]:
        """Sign with a new key; `revoke_now` invalidates every link sent so far."""
        keys = self._read() if self._path.exists() else ()
        retired = tuple(_retired(key, revoked=revoke_now) for key in _without_old(keys, now))
        fresh = _made(_next_letter(keys), now)
        return self._kept((*(key for key in retired if key.kid != fresh.kid), fresh))

    def _read(self) -> tuple[LinkKey, ...]:
        try:
            keys = _decode(self._path.read_bytes())
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise self._unusable(str(exc)) from None
        letters = {key.kid for key in keys}
        if not keys or keys[-1].state != "active" or not letters <= set(string.ascii_lowercase):
            raise self._unusable("it contains no active key")
        if len(letters) < len(keys) or any(len(key.secret) != SECRET_BYTES for key in keys):
            raise self._unusable("it contains invalid keys")
        return keys

    def _unusable(self, why: str) -> KeyUnusable:
        hint = "remove it; safetyd then creates new keys, and links that were sent stop working"
        return KeyUnusable(f"{self._path} cannot be used: {why}; {hint}")

    def _kept(self, keys: tuple[LinkKey, ...]) -> tuple[LinkKey, ...]:
        """Write the file atomically, readable only by its owner. Return the keys."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._path, msgspec.json.encode(keys) + b"\n")
        return keys


def _made(kid: str, now: datetime) -> LinkKey:
    return LinkKey(kid=kid, secret=secrets.token_bytes(SECRET_BYTES), created=now)


def _retired(key: LinkKey, *, revoked: bool) -> LinkKey:
    state = "revoked" if revoked or key.state == "revoked" else "verify"
    return msgspec.structs.replace(key, state=state)


def _without_old(keys: tuple[LinkKey, ...], now: datetime) -> tuple[LinkKey, ...]:
    """Return the newest key, and the older keys whose links may still be valid.

    A key signs no more links once the next key exists.
    """
    followed = pairwise(keys)
    alive = tuple(key for key, after in followed if now < after.created + LINK_TIME)
    return (*alive, *keys[-1:])


def _next_letter(keys: tuple[LinkKey, ...]) -> str:
    letters = string.ascii_lowercase
    return letters[(letters.index(keys[-1].kid) + 1) % len(letters)] if keys else letters[0]
