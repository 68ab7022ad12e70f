"""The engine's state on disk, so that a start need not replay everything."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from safetyd.core.engine.engine_state import SCHEMA, Checkpoint
from safetyd.host import write_whole

KEPT: Final = 2

_encode = msgspec.msgpack.Encoder().encode


class SavedCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's checkpoint and where in the journal it was taken."""

    stream_seq: int
    t: float
    engine: Checkpoint


class Sealed(msgspec.Struct, frozen=True):
    sha256: bytes
    body: bytes


class Unloadable(Exception):
    """A checkpoint file is damaged or of another version."""


class Checkpoints:
    """The two newest checkpoints as `<seq>.msgpack`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, saved: SavedCheckpoint) -> Path:
        """Write one whole or not at all, and drop those that are no longer needed."""
        body = _encode(saved)
        path = self._directory / f"{saved.engine.seq:020d}.msgpack"
        write_whole(path, _encode(Sealed(hashlib.sha256(body).digest(), body)))
        for old in self.paths()[KEPT:]:
            old.unlink()
        return path

    def adopt(self, name: str, content: bytes) -> None:
        """Take in a checkpoint that another daemon wrote."""
        write_whole(self._directory / name, content)

    def paths(self) -> list[Path]:
        """Return what is there, newest first."""
        return sorted(self._directory.glob("*.msgpack"), reverse=True)

    def load(self) -> Iterator[SavedCheckpoint | Unloadable]:
        """Yield what is there, newest first; a file that does not load is yielded as its error.

        Such a file is put aside, so that it is not counted as one of those to keep.
        """
        for path in self.paths():
            try:
                yield read(path)
            except Unloadable as error:
                path.rename(path.with_suffix(".unloadable"))
                yield error


def read(path: Path, content: bytes | None = None) -> SavedCheckpoint:
    """Return the checkpoint of a file, or in what was read of it; raises `Unloadable`."""
    try:
        data = path.read_bytes() if content is None else content
        sealed = msgspec.msgpack.decode(data, type=Sealed)
        if hashlib.sha256(sealed.body).digest() != sealed.sha256:
            raise Unloadable(f"{path}: its checksum is wrong")
        saved = msgspec.msgpack.decode(sealed.body, type=SavedCheckpoint)
    except (OSError, msgspec.DecodeError) as exc:
        raise Unloadable(f"{path}: {exc}") from exc
    if saved.engine.schema != SCHEMA:
        raise Unloadable(f"{path}: schema {saved.engine.schema}, this version reads {SCHEMA}")
    return saved


def state_digest(checkpoint: Checkpoint) -> str:
    """Return what two engines have in common exactly if they know the same."""
    known = [(name, checkpoint.actors[name]) for name in sorted(checkpoint.actors)]
    return hashlib.sha256(_encode((checkpoint.seq, known))).hexdigest()
