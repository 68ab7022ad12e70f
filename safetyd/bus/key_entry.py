"""Entries of the key bucket: signed by a daemon, with secrets encrypted to all daemons.

The daemons' own nkeys sign and decrypt. Which daemons are trusted is a setting, `bus.daemons`, so
another user of the same account can neither read a secret nor add a key.
"""

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Final

import msgspec
import nkeys
from nacl.exceptions import BadSignatureError, CryptoError
from nacl.public import SealedBox
from nacl.signing import SigningKey, VerifyKey

from safetyd.bus.agent_tokens import Hashes
from safetyd.bus.keyring import OldKey

# Not valid UTF-8. To log in, a daemon signs a text that the server chooses, which is always UTF-8,
# so a server cannot obtain the signature of an entry that way.
_SIGNED: Final = b"\xffsafetyd key entry 1\0"
_KEY_CHARS: Final = re.compile(r"U[A-Z2-7]{55}\Z")
_KEY_BYTES: Final = 32
_CRC_BYTES: Final = 2

PublicKey = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^U[A-Z2-7]{55}(?![\s\S])",
        description="a public user key of 56 characters that starts with U",
    ),
]


class NameKeys(msgspec.Struct, frozen=True, omit_defaults=True):
    """The keys and tokens of one name. Without any, the name is revoked."""

    public: PublicKey | None = None
    old: tuple[OldKey, ...] = ()  # replaced keys that are still trusted
    tokens: Hashes = ()

    @property
    def revoked(self) -> bool:
        return self.public is None and not self.tokens

    def at(self, now: datetime) -> "NameKeys":
        """Return the keys and tokens that have not expired."""
        old = tuple(key for key in self.old if key.until > now)
        tokens = tuple(one for one in self.tokens if one.until is None or one.until > now)
        return NameKeys(self.public, old if self.public else (), tokens)


REVOKED: Final = NameKeys()


class KeyEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of an entry. A later entry of the same name has a higher version."""

    version: Annotated[int, msgspec.Meta(ge=1)]
    by: str  # the public key of the daemon that wrote it
    keys: NameKeys | None = None
    sealed: Mapping[str, bytes] | None = None  # a secret, encrypted to each daemon


class _Envelope(msgspec.Struct, frozen=True):
    entry: str
    signature: bytes


class Rejected(Exception):
    """An entry is not from a trusted daemon. The text says why."""


class DaemonKey:
    """The own key of a daemon, which signs entries and decrypts secrets."""

    def __init__(self, seed: str) -> None:
        _, raw = nkeys.decode_seed(seed.encode())
        self._signing = SigningKey(bytes(raw))
        self._box = SealedBox(self._signing.to_curve25519_private_key())
        self.public: str = nkeys.from_seed(seed.encode()).public_key.decode()

    def signed(self, name: str, entry: KeyEntry) -> bytes:
        """Return an entry as bytes, signed together with its name."""
        text = msgspec.json.encode(entry)
        signature = self._signing.sign(_message(name, text)).signature
        return msgspec.json.encode(_Envelope(text.decode(), signature))

    def opened(self, sealed: Mapping[str, bytes]) -> bytes | None:
        """Return a secret, or None if it is not encrypted to this daemon."""
        try:
            return self._box.decrypt(sealed.get(self.public, b""))
        except CryptoError:
            return None


def sealed(secret: bytes, daemons: Collection[str]) -> dict[str, bytes]:
    """Encrypt a secret to every daemon."""
    keys = {public: verify_key(public) for public in daemons}
    return {
        public: SealedBox(key.to_curve25519_public_key()).encrypt(secret)
        for public, key in keys.items()
    }


def read_entry(name: str, data: bytes, daemons: Collection[str]) -> KeyEntry:
    """Return an entry that one of the daemons signed for this name; otherwise raise `Rejected`."""
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        entry = msgspec.json.decode(envelope.entry, type=KeyEntry)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Rejected(f"it cannot be decoded ({exc})") from exc
    if entry.by not in daemons:
        raise Rejected(f"it is from {entry.by!r}, which is not in bus.daemons")
    try:
        verify_key(entry.by).verify(_message(name, envelope.entry.encode()), envelope.signature)
    except (BadSignatureError, ValueError) as exc:
        raise Rejected(f"the signature of {entry.by} is wrong") from exc
    return entry


def verify_key(public: str) -> VerifyKey:
    """Return the key in a public nkey. Raise ValueError if it has a typing error."""
    if not _KEY_CHARS.match(public):
        raise ValueError(f"{public!r} is not a public user key")
    try:
        raw = base64.b32decode(public)
    except binascii.Error as exc:
        raise ValueError(f"{public!r} is not a public user key") from exc
    body, crc = raw[:-_CRC_BYTES], raw[-_CRC_BYTES:]
    if nkeys.crc16(bytearray(body)) != int.from_bytes(crc, "little"):
        raise ValueError(f"{public!r} has a wrong checksum")
    return VerifyKey(body[-_KEY_BYTES:])


def _message(name: str, entry: bytes) -> bytes:
    return _SIGNED + name.encode() + b"\0" + entry
