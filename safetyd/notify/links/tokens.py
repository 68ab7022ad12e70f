"""Tokens and codes with which recipients answer messages, and nonces and cookies of pages.

The token of a link is `1`, the letter of its key, and 32 bytes as 43 characters:

    8 bytes identify the message, 8 bytes the request, and 16 bytes are a MAC of both

A token does not reveal its request. safetyd finds the request by computing the ids of sent
messages. Nothing is stored, so losing or revoking a key invalidates everything made with it.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

DEVICE_TIME: Final = timedelta(days=90)
PAIRING_TIME: Final = timedelta(minutes=10)
FORM_TIME: Final = timedelta(minutes=10)
FEWEST_DIGITS: Final = 4
MOST_DIGITS: Final = 6
MESSAGE_BYTES: Final = 8  # the part of a token's id that all requests of one message share

_LINK: Final = "1"
_PAIRING: Final = "2"
_MAC_BYTES: Final = 16
_TIME_BYTES: Final = 8
_MARK_BYTES: Final = 6

_is_base64 = re.compile(r"[A-Za-z0-9_-]{2,512}\Z").match
_is_code = re.compile(r"[0-9]{4,6}\Z").match
_is_nonce = re.compile(r"([0-9]{1,12})\.([A-Za-z0-9_-]{22})\Z").match


class LinkKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key. The newest active key signs; all keys that are not revoked verify."""

    kid: str  # a to z
    secret: bytes
    created: datetime
    state: Literal["active", "verify", "revoked"] = "active"


class _SubKeys:
    """The keys that are derived from one key, one for each use."""

    def __init__(self, key: LinkKey) -> None:
        self.kid = key.kid
        self.message = _derived(key.secret, "message")
        self.link = _derived(key.secret, "link")
        self.form = _derived(key.secret, "form")
        self.button = _derived(key.secret, "button")
        self.code = _derived(key.secret, "sms-code")
        self.mail = _derived(key.secret, "mail")
        self.device = _derived(key.secret, "device")
        self.pairing = _derived(key.secret, "pairing")


class Signer:
    """Makes and verifies tokens, codes, nonces and cookies."""

    def __init__(self, keys: Sequence[LinkKey]) -> None:
        self.take_on(keys)

    def take_on(self, keys: Sequence[LinkKey]) -> None:
        """Replace the keys. At least one of the new keys must be active."""
        live = sorted((key for key in keys if key.state != "revoked"), key=_age)
        newest = max((key for key in live if key.state == "active"), key=_age)
        self._signing = _SubKeys(newest)
        self._live = {key.kid: _SubKeys(key) for key in live}

    def token(self, delivery: str, request_id: str, recipient: str) -> str:
        """Return the token of a request, or without a request, of the list in the message."""
        key = self._signing
        id_ = _token_id(key, delivery, request_id, recipient)
        return _LINK + key.kid + _encoded(id_ + _mac(key.link, b"safetyd/link/v1\0", id_))

    def check(self, token: str) -> bytes | None:
        """Return the id of a token, or None if it is not valid."""
        key = self._live.get(token[1:2])
        raw = _decoded(token[2:])
        if key is None or token[:1] != _LINK or len(raw) != 2 * _MAC_BYTES:
            return None
        id_, mac = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        ours = _mac(key.link, b"safetyd/link/v1\0", id_)
        return id_ if hmac.compare_digest(mac, ours) else None

    def token_id(self, delivery: str, request_id: str, recipient: str) -> bytes:
        """Return the id of the token that `token` would make."""
        return _token_id(self._signing, delivery, request_id, recipient)

    def token_ids(self, delivery: str, request_id: str, recipient: str) -> tuple[bytes, ...]:
        """Return the ids of all tokens that open this request, one for each key."""
        keys = self._live.values()
        return tuple(_token_id(key, delivery, request_id, recipient) for key in keys)

    def message_ids(self, delivery: str, recipient: str) -> tuple[bytes, ...]:
        """Return the bytes with which the token ids of a message begin, one prefix for each key."""
        keys = self._live.values()
        return tuple(_message_id(key, delivery, recipient) for key in keys)

    def code(self, request_id: str, recipient: str, digits: int = FEWEST_DIGITS) -> str:
        """Return the code that approves a request; messages show it, but links never contain it."""
        return _code(self._signing, request_id, recipient)[:digits]

    def shortest_code(self, request_id: str, recipient: str, others: Iterable[str]) -> str:
        """Return the code, with just enough digits to differ from `others`; at most six digits."""
        code = self.code(request_id, recipient, MOST_DIGITS)
        taken = [self.code(id_, recipient, MOST_DIGITS) for id_ in others if id_ != request_id]
        for digits in range(FEWEST_DIGITS, MOST_DIGITS):
            if not any(other.startswith(code[:digits]) for other in taken):
                return code[:digits]
        return code

    def code_ok(self, request_id: str, recipient: str, given: str) -> bool:
        """Return True if these four to six digits are the start of the code."""
        if not is_code(given):
            return False
        codes = [_code(key, request_id, recipient)[: len(given)] for key in self._live.values()]
        # Compare all of them, so that the time reveals nothing.
        return sum(hmac.compare_digest(code, given) for code in codes) > 0

    def nonce(self, token_id: bytes, now: datetime) -> str:
        """Return the nonce of a form, which proves that safetyd made the form recently."""
        ends = int((now + FORM_TIME).timestamp())
        return f"{ends}.{_encoded(_form_mac(self._signing, token_id, ends))}"

    def nonce_ok(self, token_id: bytes, given: str, now: datetime) -> bool:
        found = _is_nonce(given)
        if found is None:
            return False
        ends, mac = int(found[1]), _decoded(found[2])
        ours = (_form_mac(key, token_id, ends) for key in self._live.values())
        return sum(hmac.compare_digest(mac, each) for each in ours) > 0 and now.timestamp() < ends

    def button(self, token_id: bytes, answer: str, digest: str) -> str:
        """Return the nonce of a button in a message, which gives one answer to a request.

        `digest` is the digest of the request, as the message shows it. The nonce is valid as long
        as the link.
        """
        return _encoded(_button_mac(self._signing, token_id, answer, digest))

    def button_ok(self, token_id: bytes, answer: str, digest: str, given: str) -> bool:
        mac = _decoded(given)
        ours = (_button_mac(key, token_id, answer, digest) for key in self._live.values())
        return sum(hmac.compare_digest(mac, each) for each in ours) > 0

    def mark(self, delivery: str, request_id: str) -> str:
        """Return the mark of a request in the id of a mail that shows its code."""
        return _mark(self._signing, delivery, request_id)

    def mark_ok(self, delivery: str, request_id: str, marks: Collection[str]) -> bool:
        """Return True if one of the marks in the id of a mail is that of this request."""
        return any(_mark(key, delivery, request_id) in marks for key in self._live.values())

    def pairing(self, recipient: str, now: datetime) -> str:
        """Return the token of a page that pairs a browser with a recipient."""
        key = self._signing
        return _PAIRING + key.kid + _sealed(key.pairing, recipient, now + PAIRING_TIME)

    def pairing_of(self, token: str, now: datetime) -> str | None:
        """Return the recipient of a token from `pairing`; None if it is invalid or expired."""
        key = self._live.get(token[1:2])
        if key is None or token[:1] != _PAIRING:
            return None
        return _unsealed(key.pairing, token[2:], now)

    def device(self, recipient: str, now: datetime) -> str:
        """Return the cookie of a browser that is paired with a recipient."""
        key = self._signing
        return key.kid + _sealed(key.device, recipient, now + DEVICE_TIME)

    def device_of(self, cookie: str, now: datetime) -> str | None:
        """Return the recipient of a cookie from `device`; None if it is invalid or expired."""
        key = self._live.get(cookie[:1])
        return None if key is None else _unsealed(key.device, cookie[1:], now)


def is_code(given: str) -> bool:
    return _is_code(given) is not None


def _age(key: LinkKey) -> datetime:
    return key.created


def _derived(secret: bytes, label: str) -> bytes:
    """Derive the key for one use: HKDF-SHA256 (RFC 5869), one block, no salt."""
    root = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(root, b"safetyd/" + label.encode() + b"\x01", "sha256")


def _mac(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"".join(parts), "sha256")[:_MAC_BYTES]


def _named(key: bytes, *names: str) -> bytes:
    """Return a MAC of several names, each prefixed with its length to separate them."""
    parts = (name.encode() for name in names)
    return _mac(key, *(len(part).to_bytes(4, "big") + part for part in parts))


def _token_id(key: _SubKeys, delivery: str, request_id: str, recipient: str) -> bytes:
    about = _named(key.message, delivery, request_id, recipient)
    return _message_id(key, delivery, recipient) + about[MESSAGE_BYTES:]


def _message_id(key: _SubKeys, delivery: str, recipient: str) -> bytes:
    return _named(key.message, delivery, recipient)[:MESSAGE_BYTES]


def _code(key: _SubKeys, request_id: str, recipient: str) -> str:
    number = int.from_bytes(_named(key.code, request_id, recipient), "big")
    return f"{number % 10**MOST_DIGITS:0{MOST_DIGITS}}"


def _form_mac(key: _SubKeys, token_id: bytes, ends: int) -> bytes:
    return _mac(key.form, hashlib.sha256(token_id).digest(), ends.to_bytes(_TIME_BYTES, "big"))


def _button_mac(key: _SubKeys, token_id: bytes, answer: str, digest: str) -> bytes:
    return _named(key.button, _encoded(token_id), answer, digest)


def _mark(key: _SubKeys, delivery: str, request_id: str) -> str:
    return _encoded(_named(key.mail, delivery, request_id)[:_MARK_BYTES])


def _sealed(key: bytes, recipient: str, ends: datetime) -> str:
    said = int(ends.timestamp()).to_bytes(_TIME_BYTES, "big") + recipient.encode()
    return _encoded(_mac(key, said) + said)


def _unsealed(key: bytes, sealed: str, now: datetime) -> str | None:
    raw = _decoded(sealed)
    mac, said = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(key, said)):
        return None
    ends, recipient = int.from_bytes(said[:_TIME_BYTES], "big"), said[_TIME_BYTES:]
    return recipient.decode() if now.timestamp() < ends else None


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    """Decode base64. Return b"" unless encoding the result gives the same text."""
    if not _is_base64(text) or len(text) % 4 == 1:
        return b""
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return raw if _encoded(raw) == text else b""
