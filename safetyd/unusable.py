"""Why the daemon cannot start or go on, in words for whoever started it."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from safetyd.host import Room, room

# A start writes some 100 KiB in some 30 files; with less than this it would soon stand still.
START_BYTES: Final = 1024 * 1024
START_FILES: Final = 64

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Unusable(Exception):
    """The daemon cannot start or go on here; the text says why and what to do."""


def check_room(directory: Path) -> None:
    """Refuse a start that would run out of room on its way."""
    found = room(directory)
    if found.bytes < START_BYTES or found.files < START_FILES:
        raise Unusable(_full(directory, found))


@contextmanager
def files_needed(directory: Path) -> Iterator[None]:
    """Say in plain words that the data directory cannot be used."""
    try:
        yield
    except TimeoutError:
        raise
    except OSError as exc:
        if exc.errno in _FULL:
            raise Unusable(f"{exc}: {_full(directory, room(directory))}") from exc
        raise Unusable(f"the data directory cannot be used: {exc}") from exc


def _full(directory: Path, found: Room) -> str:
    free, needed = f"{found.bytes // 1024} KiB free", f"{START_BYTES // 1024} KiB"
    if found.bytes >= START_BYTES and found.files < START_FILES:
        free, needed = f"room for {found.files} more files", str(START_FILES)
    return (
        f"the disk at {found.disk} that holds {directory} has {free}, and a start needs {needed}: "
        "make room on it and start again"
    )
