"""Reads backups of safetyd 0.1, which had their own file format and encryption.

The file starts with a header and ends with a hash of everything before, both in skippable Zstandard
frames. Between them is the tar, encrypted with AES-256-GCM if the header says so. With version 0.3,
delete this module, the package `cryptography` and tests/older_version/backups.
"""

import hashlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from safetyd.extras.backup.age_encryption import NotDecrypted
from safetyd.extras.backup.tar_zst import Damaged

MARK: Final = b"safetyd backup\n"

_FRAME: Final = struct.Struct("<II")
_HASH_BYTES: Final = 32
_TAG_BYTES: Final = 16


class _Sealing(msgspec.Struct, frozen=True):
    """Parameters that derive the key from the passphrase, with limits on memory."""

    salt: Annotated[bytes, Meta(min_length=16, max_length=64)]
    nonce: Annotated[bytes, Meta(min_length=12, max_length=12)]
    n: Annotated[int, Meta(ge=2**14, le=2**20)]
    r: Annotated[int, Meta(ge=8, le=8)]
    p: Annotated[int, Meta(ge=1, le=4)]


class _Header(msgspec.Struct):
    sealing: _Sealing | None = None


def is_old(start: bytes) -> bool:
    return start[_FRAME.size :].startswith(MARK)


def decoded(path: Path, passphrase: Callable[[], str]) -> bytes:
    """Return the compressed tar; raises `Damaged` or `NotDecrypted`."""
    data = path.read_bytes()
    hashed, body_begin = data[:-_HASH_BYTES], _FRAME.size + _FRAME.unpack_from(data)[1]
    if hashlib.sha256(hashed[: -_FRAME.size]).digest() != data[-_HASH_BYTES:]:
        raise Damaged("the hash does not match the content")
    head, body = data[_FRAME.size : body_begin], hashed[body_begin : -_FRAME.size]
    try:
        sealing = msgspec.json.decode(head.removeprefix(MARK), type=_Header).sealing
    except msgspec.DecodeError as exc:
        raise Damaged(f"cannot read its header: {exc}") from exc
    return body if sealing is None else _decrypted(body, head, sealing, passphrase())


def _decrypted(body: bytes, head: bytes, sealing: _Sealing, passphrase: str) -> bytes:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - only here
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415

    n, r, p = sealing.n, sealing.r, sealing.p
    key = hashlib.scrypt(
        passphrase.encode(), salt=sealing.salt, n=n, r=r, p=p, maxmem=2**31 - 1, dklen=32
    )
    tag = body[-_TAG_BYTES:]
    decryptor = Cipher(algorithms.AES(key), modes.GCM(sealing.nonce, tag)).decryptor()
    decryptor.authenticate_additional_data(head)
    try:
        return decryptor.update(body[:-_TAG_BYTES]) + decryptor.finalize()
    except InvalidTag:
        raise NotDecrypted("wrong passphrase") from None
