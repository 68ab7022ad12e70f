"""Checkpoints: the engine's state on disk, so that a start need not replay the whole journal."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from safetyd.core.engine.engine_state import SCHEMA, Checkpoint
from safetyd.host import write_whole

KEPT: Final = 2

_encode = msgspec.msgpack.Encoder().encode


class SavedCheckpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint: the engine's state, and its position in the journal."""

    stream_seq: int
    t: float
    engine: Checkpoint
    audit_head: str = ""  # the hash of the last event in the audit file


class Sealed(msgspec.Struct, frozen=True):
    sha256: bytes
    body: bytes


class Unloadable(Exception):
    """A checkpoint file is damaged, or was written by an incompatible version."""


class Checkpoints:
    """The directory of the two newest checkpoints, `<seq>.msgpack`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, saved: SavedCheckpoint) -> Path:
        """Write a checkpoint atomically, and delete old ones."""
        body = _encode(saved)
        path = self._directory / f"{saved.engine.seq:020d}.msgpack"
        write_whole(path, _encode(Sealed(hashlib.sha256(body).digest(), body)))
        self._prune()
        return path

    def adopt(self, name: str, content: bytes) -> None:
        """Store a checkpoint of another daemon, and delete old ones."""
        write_whole(self._directory / name, content)
        self._prune()

    def _prune(self) -> None:
        for old in self.paths()[KEPT:]:
            old.unlink()

    def paths(self) -> list[Path]:
        """Return all files, newest first."""
        return sorted(self._directory.glob("*.msgpack"), reverse=True)

    def load(self) -> Iterator[SavedCheckpoint | Unloadable]:
        """Yield all checkpoints, newest first. For a damaged file, yield the error.

        Damaged files are renamed, so that they are not counted as checkpoints.
        """
        for path in self.paths():
            try:
                yield read(path)
            except Unloadable as error:
                path.rename(path.with_suffix(".unloadable"))
                yield error


def read(path: Path, content: bytes | None = None) -> SavedCheckpoint:
    """Return the checkpoint in a file, or in `content` if given. Raise `Unloadable` on errors."""
    try:
        data = path.read_bytes() if content is None else content
        sealed = msgspec.msgpack.decode(data, type=Sealed)
        if hashlib.sha256(sealed.body).digest() != sealed.sha256:
            raise Unloadable(f"{path}: wrong checksum")
        saved = msgspec.msgpack.decode(sealed.body, type=SavedCheckpoint)
    except (OSError, msgspec.DecodeError) as exc:
        raise Unloadable(f"{path}: {exc}") from exc
    if saved.engine.schema != SCHEMA:
        raise Unloadable(f"{path}: schema {saved.engine.schema}; this version reads {SCHEMA}")
    return saved


def state_digest(checkpoint: Checkpoint) -> str:
    """Return a digest of the engine's state. Equal states have equal digests."""
    known = [(name, checkpoint.actors[name]) for name in sorted(checkpoint.actors)]
    return hashlib.sha256(_encode((checkpoint.seq, known))).hexdigest()
