"""The file that stops everything: three lines, written whole."""

import os
import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from safetyd.agents.stop_reserve import FREE

NAME: Final = "EMERGENCY_STOP"

_OURS: Final = re.compile(r"Stopped by: [^\n]*\nTime: [^\n]*\nReason: [^\n]*\n?")
_READ_BYTES: Final = 64 * 1024


def write(path: Path, by: str, at: datetime, reason: str) -> None:
    """Write who, when and why; what somebody else put there stays as it is."""
    if is_there(path) and not is_ours(path):
        return
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    lines = (f"Stopped by: {by}", f"Time: {at:%Y-%m-%dT%H:%M:%SZ}", f"Reason: {_one_line(reason)}")
    try:
        fresh.write_text("\n".join(lines) + "\n")
        fresh.rename(path)
    finally:
        fresh.unlink(missing_ok=True)


def put(path: Path) -> bool:
    """Put there what needs no room for words: an empty file, or the one that is kept in reserve."""
    for make in (path.touch, lambda: path.with_name(FREE).rename(path)):
        with suppress(OSError):
            make()
            return True
    return False


def is_there(path: Path) -> bool:
    return os.path.lexists(path)


def is_ours(path: Path) -> bool:
    """Say whether `safetyd stop` wrote it."""
    return _OURS.fullmatch(text_of(path)) is not None


def text_of(path: Path) -> str:
    """Return what the file says, nothing if it is no regular file or cannot be read."""
    try:
        if path.is_symlink() or not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_READ_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _one_line(text: str) -> str:
    return " ".join(text.split())
