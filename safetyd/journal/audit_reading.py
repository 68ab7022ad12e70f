"""Reads audit files while a daemon writes them: newest first, or starting at an event.

Incomplete and damaged lines are skipped. `safetyd audit verify` reports them.
"""

import math
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from safetyd.clock import uptime
from safetyd.core.engine.journal_lines import decode
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.event import Event
from safetyd.journal.audit import HASHED, Opened, files

BLOCK_BYTES: Final = 128 * 1024
LINES_AT_ONCE: Final = 1000
RESTS: Final = 3.0  # a pause lasts this many times as long as the work before it

DECIDED: Final = b'{"event":"decided",'
SAFETY_EVENT: Final = b'{"event":"safety_event",'

_numbered = re.compile(rb'\{"event":"[a-z_]+","seq":(\d+)').match
_steady = re.compile(rb'\{"event":"[a-z_]+","seq":\d+,"at":"[^"]+","t":([0-9.eE+-]+)').match
_dated = re.compile(rb'\{"event":"[a-z_]+","seq":\d+,"at":"([^".Z]+)([^"]*)').match


class ReadingBounds(NamedTuple):
    """The most that one query reads. To read more, the client sends another query."""

    max_bytes: int = 64 * 1024 * 1024
    lines: int = 500_000
    seconds: float = 4.0  # including pauses


AT_THE_START: Final = ReadingBounds(16 * 1024 * 1024, 100_000, 2.0)
WITHOUT_BOUNDS: Final = ReadingBounds(sys.maxsize, sys.maxsize, math.inf)


class Rests:
    """Pauses a worker thread, so that it does not slow down decisions."""

    def __init__(self, times: float = RESTS) -> None:
        self._times = times
        self._since = uptime()
        self.total_s = 0.0

    def begin(self) -> None:
        """Start to measure work. The time before this call was spent waiting."""
        self._since = uptime()

    def rest(self) -> None:
        """Pause for a multiple of the time worked since the last pause."""
        worked = uptime()
        time.sleep((worked - self._since) * self._times)
        self._since = uptime()
        self.total_s += self._since - worked


class PlacedLine(NamedTuple):
    """A line, its file and number, and the previous line."""

    line: bytes
    file: str = ""
    number: int = 0
    before: bytes = b""


class NewestFirst:
    """Iterates over the lines of events, newest first. With `before`, starts before that event.

    After the iteration, `ended` is True if there are no older events. It is False if a limit was
    reached first.
    """

    def __init__(
        self,
        directory: Path,
        before: int | None = None,
        bounds: ReadingBounds | None = None,
        rests: Rests | None = None,
    ) -> None:
        self._directory = directory
        self._before = before
        self._bounds = bounds or ReadingBounds()
        self.rests = rests or Rests()
        self.ended = False

    def __iter__(self) -> Iterator[bytes]:
        bounds, begun = self._bounds, uptime()
        seen_bytes = seen_lines = 0
        for block in self._blocks():
            yield from block
            seen_bytes += sum(map(len, block))
            seen_lines += len(block)
            self.rests.rest()
            over = seen_bytes >= bounds.max_bytes or seen_lines >= bounds.lines
            if over or uptime() - begun >= bounds.seconds:
                return
        self.ended = True

    def _blocks(self) -> Iterator[list[bytes]]:
        for path in reversed(files(self._directory)):
            with path.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                if self._before is not None:
                    end = start_of(file, self._before)
                yield from _backwards(file, end)


def seq_of(line: bytes) -> int:
    """Return the event number of a line, or 0 if it contains no event."""
    found = _numbered(line)
    return int(found[1]) if found else 0


def second_of(at: datetime) -> bytes:
    """Return a time in the format of audit lines, without fractions of a second."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}".encode()


def is_before(line: bytes, second: bytes) -> bool:
    """Return True if a line is older than `second`. The line is not decoded."""
    found = _dated(line)
    return found is not None and found[1] < second


def read_event(line: bytes) -> Event | None:
    """Return the event in a line, or None for the first line of a file or a damaged line."""
    try:
        return decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def lines_after(directory: Path, seq: int) -> Iterator[bytes]:
    """Yield the complete lines of events after `seq`, oldest first."""
    for path in later_files(files(directory), seq):
        with path.open("rb") as file:
            file.seek(start_of(file, seq + 1))
            for line in file:
                found = _numbered(line)
                if found and int(found[1]) > seq and line.endswith(b"\n"):
                    yield line


def safety_events_after(
    directory: Path, seq: int, until: int | None = None
) -> Iterator[SafetyEvent]:
    """Yield SafetyEvents after event `seq`, up to and including `until`, in order.

    It pauses now and then, so call it in a worker thread.
    """
    rests = Rests()
    for number, line in enumerate(lines_after(directory, seq), 1):
        if number % LINES_AT_ONCE == 0:
            rests.rest()
        if until is not None and seq_of(line) > until:
            return
        if line.startswith(SAFETY_EVENT) and isinstance(event := read_event(line), SafetyEvent):
            yield event


def newest_events(
    directory: Path, count: int, before: int, bounds: ReadingBounds = AT_THE_START
) -> tuple[list[Event], int]:
    """Return the newest decisions and SafetyEvents before event `before`, oldest first.

    Also return an event number. The result contains all such events after that number.
    """
    lines = NewestFirst(directory, before, bounds)
    found: list[Event] = []
    after = before - 1
    for line in lines:
        if line.startswith((DECIDED, SAFETY_EVENT)) and (event := read_event(line)) is not None:
            found.append(event)
        after = seq_of(line) - 1
        if len(found) >= count:
            break
    return found[::-1], after


def later_files(paths: Sequence[Path], seq: int) -> list[Path]:
    """Return the files that may contain events after `seq`, according to their first lines."""
    return [path for path, after in pairwise(paths) if not _begins_by(after, seq)] + [*paths[-1:]]


def placed_lines(directory: Path, rests: Rests | None = None) -> Iterator[PlacedLine]:
    """Yield all complete lines of all files, oldest first."""
    rests = rests or Rests()
    before = b""
    for path in files(directory):
        name = path.name
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield PlacedLine(line, name, number, before)
                before = line
                if number % LINES_AT_ONCE == 0:
                    rests.rest()


def hash_on(line: bytes) -> str:
    """Return the hash at the end of a line, or an empty string."""
    found = HASHED.search(line)
    return found[1].decode() if found else ""


def time_on(line: bytes) -> datetime | None:
    """Return the time of the event in a line, or None if it contains no event."""
    found = _dated(line)
    return datetime.fromisoformat((found[1] + found[2]).decode()) if found else None


def steady_on(line: bytes) -> float | None:
    """Return `t` of the event in a line: monotonic seconds, which ignore clock changes."""
    found = _steady(line)
    return float(found[1]) if found else None


def _begins_by(path: Path, seq: int) -> bool:
    with path.open("rb") as file:
        line = file.readline()
    try:
        return msgspec.json.decode(line, type=Opened).after_seq <= seq
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def start_of(file: BinaryIO, seq: int) -> int:
    """Return the position of the first line with event `seq` or later."""
    low, high = 0, file.seek(0, os.SEEK_END)
    while low < high:
        middle = (low + high) // 2
        _to_line(file, middle)
        line = file.readline()
        if line.endswith(b"\n") and seq_of(line) < seq:
            low = middle + 1
        else:
            high = middle
    return _to_line(file, low)


def _to_line(file: BinaryIO, offset: int) -> int:
    """Seek to the first line that starts at `offset` or later."""
    if offset:
        file.seek(offset - 1)
        file.readline()
    else:
        file.seek(0)
    return file.tell()


def _backwards(file: BinaryIO, end: int) -> Iterator[list[bytes]]:
    """Yield the complete lines before `end`, last first, in blocks."""
    rest, torn = b"", True
    while end > 0:
        begin = max(0, end - BLOCK_BYTES)
        file.seek(begin)
        lines = (file.read(end - begin) + rest).split(b"\n")
        if torn:
            lines.pop()  # the text after the last newline is an incomplete line
            torn = not lines
        rest = lines.pop(0) if begin and lines else b""
        end = begin
        yield [line for line in reversed(lines) if _numbered(line)]
