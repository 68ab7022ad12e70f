"""Copies file histories into a backup while commits are made.

Refs are read before objects, so every object of a ref is found. Objects never change, and only
packing removes them. Packing waits until the backup is written, but commits do not.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from safetyd.host import lock_within

DIRECTORY: Final = "history"
WAIT_S: Final = 60.0

_STORE: Final = "*.git"
_OBJECTS: Final = "objects"
_REFS: Final = "refs"
_HALF: Final = (".lock", ".new")  # being written
_HALF_OBJECT: Final = "tmp_"


class StoreBusy(Exception):
    """Packing a file history takes too long."""


def folders(data_dir: Path) -> tuple[Path, ...]:
    """Return the repositories of all file histories."""
    found = sorted((data_dir / DIRECTORY).glob(f"*/{_STORE}"))
    return tuple(path for path in found if path.is_dir() and not path.is_symlink())


@contextmanager
def not_packed(stores: Sequence[Path]) -> Iterator[None]:
    """Prevent packing inside the block. Raise `StoreBusy` if the store is in use."""
    with ExitStack() as held:
        for folder in stores:
            path = folder.with_suffix(".packing")
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            held.callback(os.close, lock)
            if not lock_within(lock, WAIT_S):
                raise StoreBusy(f"{folder} is being packed: try again later")
        yield


def contents(stores: Sequence[Path]) -> Iterator[tuple[Path, bytes | Path]]:
    """Yield every file with its content; files that can change are read now."""
    for folder in stores:
        for path in _changing(folder):
            yield path, path.read_bytes()
        for path in _files(folder / _OBJECTS):
            if not path.name.startswith(_HALF_OBJECT):
                yield path, path


def complete(data_dir: Path) -> None:
    """Create the empty folders that git needs in a repository."""
    for folder in folders(data_dir):
        for name in (_REFS, _OBJECTS):
            (folder / name).mkdir(mode=0o700, exist_ok=True)


def _changing(folder: Path) -> list[Path]:
    """Return all files except objects, refs first, then packed refs."""
    objects = folder / _OBJECTS
    found = [path for path in _files(folder) if not path.is_relative_to(objects)]
    kept = [path for path in found if not path.name.endswith(_HALF)]
    return sorted(kept, key=lambda path: not path.is_relative_to(folder / _REFS))


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
