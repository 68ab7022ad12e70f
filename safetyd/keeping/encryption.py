"""A passphrase that keeps a file from others: scrypt makes a key of it, AES-256-GCM uses it once.

See docs/decisions/0019. The package `cryptography` is used here and nowhere else.
"""

import errno
import secrets
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import GCM

TAG_BYTES: Final = 16
MIN_CHARS: Final = 12
MAX_BYTES: Final = 2**36 - 32  # of one message, by the standard

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_SALT_BYTES: Final = 16


class WrongPassphrase(Exception):
    """What was encrypted cannot be read with it."""


class Sealing(msgspec.Struct, frozen=True, kw_only=True):
    """How a key is made of the passphrase: 128 MiB and some tenths of a second for each guess.

    The bounds keep a file that somebody made up from taking all memory.
    """

    salt: Annotated[bytes, Meta(min_length=16, max_length=64)]
    nonce: Annotated[bytes, Meta(min_length=12, max_length=12)]
    n: Annotated[int, Meta(ge=2**14, le=2**20)] = 2**17
    r: Annotated[int, Meta(ge=8, le=8)] = 8
    p: Annotated[int, Meta(ge=1, le=4)] = 1


def fresh_sealing() -> Sealing:
    return Sealing(salt=secrets.token_bytes(_SALT_BYTES), nonce=secrets.token_bytes(_NONCE_BYTES))


def derived_key(passphrase: str, sealing: Sealing) -> bytes:
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt  # noqa: PLC0415 - only here

    scrypt = Scrypt(salt=sealing.salt, length=_KEY_BYTES, n=sealing.n, r=sealing.r, p=sealing.p)
    return scrypt.derive(passphrase.encode())


class Encrypting:
    """A file to write to; `finish` adds what proves that nothing was changed."""

    def __init__(self, file: BinaryIO, key: bytes, sealing: Sealing, header: bytes) -> None:
        self._file = file
        self._encryptor = _cipher(key, sealing).encryptor()
        self._encryptor.authenticate_additional_data(header)
        self._left = MAX_BYTES

    def write(self, data: bytes) -> int:
        self._left -= len(data)
        if self._left < 0:
            raise OSError(
                errno.EFBIG, "more than 64 GiB are not encrypted: move closed audit files away"
            )
        self._file.write(self._encryptor.update(data))
        return len(data)

    def finish(self) -> None:
        self._file.write(self._encryptor.finalize() + self._encryptor.tag)


class Decrypting:
    """A file to read from. What it gives is proved only once it has been read to its end."""

    def __init__(self, file: BinaryIO, key: bytes, sealing: Sealing, header: bytes) -> None:
        self._file = file
        self._decryptor = _cipher(key, sealing).decryptor()
        self._decryptor.authenticate_additional_data(header)

    def read(self, count: int) -> bytes:
        return self._decryptor.update(self._file.read(count))

    def finish(self, tag: bytes) -> None:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - only here

        try:
            self._decryptor.finalize_with_tag(tag)
        except InvalidTag:
            raise WrongPassphrase from None


def _cipher(key: bytes, sealing: Sealing) -> "Cipher[GCM]":
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415

    return Cipher(algorithms.AES(key), modes.GCM(sealing.nonce))
