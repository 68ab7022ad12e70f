"""Encrypts and decrypts files with age (https://age-encryption.org), as the program `age` does.

Only this module uses the package `pyrage`. With a passphrase it encrypts in memory; with public
keys it streams, in another thread.
"""

import errno
import io
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from safetyd.extras.backup.tar_zst import Writable

MARK: Final = b"age-encryption.org/v1\n"
MIN_CHARS: Final = 12
MAX_BYTES: Final = 1024**3  # the maximum with a passphrase

_PASSPHRASE_STANZA: Final = MARK + b"-> scrypt "


class BadKey(Exception):
    """A text is not a valid age recipient or identity."""


class NotDecrypted(Exception):
    """A file cannot be decrypted; the text says why."""


class _Buffer(io.BytesIO):
    """A buffer in memory for data to be encrypted with a passphrase."""

    def write(self, data: Any, /) -> int:
        if self.tell() + len(data) > MAX_BYTES:
            raise OSError(
                errno.EFBIG, "a passphrase can encrypt at most 1 GiB; use --recipient instead"
            )
        return super().write(data)


@contextmanager
def encrypting(file: BinaryIO, passphrase: str, recipients: Sequence[str]) -> Iterator[Writable]:
    """Yield an object for writing. Everything written to it is encrypted into `file`."""
    import pyrage  # noqa: PLC0415 - only an encrypted backup needs it

    if recipients:
        keys = [_parsed(pyrage.x25519.Recipient, text, "recipient") for text in recipients]

        def encrypt(pipe: BinaryIO) -> None:
            try:
                pyrage.encrypt_io(pipe, file, keys)
            except pyrage.EncryptError as exc:  # such as a full disk
                raise OSError(str(exc)) from exc

        with _piped(encrypt, "wb") as plain:
            yield plain
    else:
        buffer = _Buffer()
        yield buffer
        file.write(pyrage.passphrase.encrypt(buffer.getvalue(), passphrase))


def needs_passphrase(start: bytes) -> bool:
    """Return True if a file with this start is encrypted with a passphrase."""
    return start.startswith(_PASSPHRASE_STANZA)


def decrypted(path: Path, passphrase: str) -> bytes:
    """Return the content of a file encrypted with a passphrase; raises `NotDecrypted`."""
    import pyrage  # noqa: PLC0415 - see above

    try:
        content: bytes = pyrage.passphrase.decrypt(path.read_bytes(), passphrase)
    except pyrage.DecryptError as exc:
        if str(exc) == "Decryption failed":
            raise NotDecrypted(f"wrong passphrase for {path}") from exc
        raise NotDecrypted(f"cannot decrypt {path}: {exc}") from exc
    return content


@contextmanager
def decrypting(path: Path, identity: Path) -> Iterator[BinaryIO]:
    """Yield the content of a file encrypted for an identity; may raise `NotDecrypted`."""
    import pyrage  # noqa: PLC0415 - see above

    lines = identity.read_text(encoding="utf-8", errors="replace").splitlines()
    texts = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    keys = [_parsed(pyrage.x25519.Identity, text, f"identity in {identity}") for text in texts]

    def decrypt(pipe: BinaryIO) -> None:
        try:
            with path.open("rb") as file:
                pyrage.decrypt_io(file, pipe, keys)
        except (pyrage.DecryptError, OSError) as exc:
            wrong = str(exc) == "No matching keys found"
            raise NotDecrypted(
                f"{identity} cannot decrypt {path}" if wrong else f"{path} is damaged: {exc}"
            ) from exc

    with _piped(decrypt, "rb") as plain:
        yield plain


def _parsed(kind: Any, text: str, called: str) -> object:
    try:
        return kind.from_str(text)
    except Exception as exc:  # pyrage has a separate exception for each kind of key
        raise BadKey(f"not an age {called}: {exc}") from exc


@contextmanager
def _piped(work: Callable[[BinaryIO], object], mode: str) -> Iterator[BinaryIO]:
    """Yield one end of a pipe; `work` gets the other end, in another thread.

    If the block and `work` both fail, the exception of `work` is raised.
    """
    ends = os.pipe()
    ours, theirs = ends if mode == "rb" else reversed(ends)
    failed: list[BaseException] = []

    def run() -> None:
        pipe = os.fdopen(theirs, "wb" if mode == "rb" else "rb")
        try:
            work(pipe)
        except BaseException as exc:  # noqa: BLE001 - it is raised below
            failed.append(exc)
        finally:
            with suppress(BrokenPipeError):  # the reader closed the pipe early
                pipe.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        with os.fdopen(ours, mode) as pipe:
            yield cast("BinaryIO", pipe)
    except Exception:
        if failed:
            raise failed[0] from None
        raise
    finally:
        thread.join()
    if failed:
        raise failed[0]
