"""Writes and reads the stop file, and describes stops."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from safetyd.agents.stop_reserve import FREE
from safetyd.console.render.layout import when
from safetyd.console.terminal_text import plain
from safetyd.core.guards.stop import Stop, no_reason
from safetyd.host import write_whole

NAME: Final = "EMERGENCY_STOP"
_OURS: Final = re.compile(r"Stopped by: [^\n]*\nTime: [^\n]*\nReason: [^\n]*\n?")
_READ_BYTES: Final = 64 * 1024


def write(path: Path, by: str, at: datetime, reason: str) -> None:
    """Write the author, time and reason of a stop, unless someone else wrote the file."""
    if is_there(path) and not is_ours(path):
        return
    lines = (f"Stopped by: {by}", f"Time: {at:%Y-%m-%dT%H:%M:%SZ}", f"Reason: {_one_line(reason)}")
    text = "\n".join(lines) + "\n"
    write_whole(path, text.encode(), mode=0o644, suffix=f".{os.getpid()}")


def put(path: Path) -> bool:
    """Create an empty stop file on a full disk or, if that fails, rename the reserve file."""
    for make in (path.touch, lambda: path.with_name(FREE).rename(path)):
        with suppress(OSError):
            make()
            return True
    return False


def is_there(path: Path) -> bool:
    return os.path.lexists(path)


def is_ours(path: Path) -> bool:
    """Return True if `safetyd stop` wrote the file."""
    return _OURS.fullmatch(text_of(path)) is not None


def text_of(path: Path) -> str:
    """Return the text of the file, or an empty string if it cannot be read."""
    try:
        if path.is_symlink() or not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_READ_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def told_of(stops: Sequence[Stop]) -> Iterator[tuple[str, str]]:
    """Yield the cause of each stop, and how to end it. A stop of everything comes first.

    `safetyd stop` sends a command and writes a file. Both together are described as one stop.
    """
    written = {_meant(stop): stop for stop in stops if _kind(stop) == "file"}
    given = {_meant(stop) for stop in stops if _kind(stop) == "operator"}
    for stop in sorted(stops, key=lambda stop: stop.agent is not None):
        both = written.get(_meant(stop)) if _kind(stop) == "operator" else None
        if _kind(stop) == "file" and _meant(stop) in given:
            continue
        by = _by(stop) if both is None else f"{_by(stop)} and the file {_path(both)}"
        yield _cause(stop, by), _ending(both or stop)


def _meant(stop: Stop) -> tuple[object, ...]:
    return stop.agent, stop.by, " ".join(_reason(stop).split())


def _kind(stop: Stop) -> str:
    return stop.source.partition(":")[0]


def _path(stop: Stop) -> str:
    return plain(stop.source.partition(":")[2])


def _reason(stop: Stop) -> str:
    return "" if stop.reason == _unsaid(stop) else stop.reason


def _cause(stop: Stop, by: str) -> str:
    whom = plain(stop.agent) if stop.agent else "everything"
    reason = f": {plain(_reason(stop))}" if _reason(stop) else ""
    return f"{whom} by {by} since {when(stop.since)}{reason}"


def _ending(stop: Stop) -> str:
    kind, _, path = stop.source.partition(":")
    if kind == "file":
        return _file_ending(Path(path))
    if kind == "environment":
        return "to end it, restart the daemon without that variable"
    agent = f" --agent {plain(stop.agent)}" if stop.agent else ""
    return f"to end it, run `safetyd resume{agent}`"


def _unsaid(stop: Stop) -> str:
    """Return the reason that the daemon uses for a stop file without one."""
    return no_reason(stop.source.partition(":")[2])


def _by(stop: Stop) -> str:
    kind, _, path = stop.source.partition(":")
    match kind:
        case "operator":
            return f"{plain(stop.by)}'s command"
        case "file":
            signed = "" if stop.by == "file" else f" of {plain(stop.by)}"
            return f"the file {plain(path)}{signed}"
        case "environment":
            return "the daemon's environment"
        case "anomaly":
            return "an anomaly"
    return f"{plain(stop.by)} ({plain(stop.source)})"


def _file_ending(path: Path) -> str:
    if not is_there(path):
        return f"to end it, delete the daemon's file {plain(path)}, which is not visible from here"
    if path.is_dir() and not path.is_symlink():
        return f"to end it, run `rm -r {plain(path)}`: `safetyd resume` does not delete directories"
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return f"to end it, delete the file as a user who can write to {plain(path.parent)}"
    asks = "" if is_ours(path) else ", which asks before it deletes the file"
    return f"to end it, run `safetyd resume`{asks}"
