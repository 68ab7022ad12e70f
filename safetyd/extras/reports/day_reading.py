"""Reads the audit files for a report: the days of the report, and the week before them.

Only a few kinds of events of that week are needed; the others are skipped without decoding. The
numbers of a day depend only on these files, so they are the same whenever the report is made.
"""

import math
import mmap
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Final

from safetyd.core.daily_report.report_fold import UNCOUNTED, WEEK, ReportFold
from safetyd.core.policy import Configured, Policy
from safetyd.journal.audit import ChainCheck, files
from safetyd.journal.audit_reading import (
    DECIDED,
    LINES_AT_ONCE,
    Rests,
    is_before,
    read_event,
    second_of,
    steady_on,
    time_on,
)

# In any time zone, a day begins at most 14 hours before the UTC day, and ends at most 12 hours
# after it.
_EAST: Final = timedelta(hours=14)
_WEST: Final = timedelta(hours=12)
_STEPPED: Final = timedelta(hours=1)  # the clock may be set back by this much
_NEAR: Final = timedelta(days=2)  # covers the budget's UTC day, and actions that still ran

_CONFIGURED: Final = b'{"event":"configured",'
_ASKS: Final = b'"asks":{'
_USES: Final = b'"uses":{'  # an approval


def _tags(*names: str) -> tuple[bytes, ...]:
    return tuple(f'{{"event":"{name}",'.encode() for name in names)


_PASSED_OVER: Final = _tags(*(str(kind.__struct_config__.tag) for kind in UNCOUNTED), "opened")
# The events needed from the days before: requests, their ends, and operator activity.
_FAR: Final = _tags(
    "answered",
    "budget_raised",
    "cancelled",
    "claimed",
    "configured",
    "cost_struck",
    "expired",
    "forgotten",
    "paused",
    "person_seen",
    "released",
    "resumed",
    "safe_mode_entered",
    "safe_mode_exited",
    "stopped",
    "superseded",
    "unpaused",
)

Progress = Callable[[float], None]  # called with the share of the files that has been read


def no_progress(_part: float) -> None:
    """Ignore the progress."""


class DayReading:
    """Reads the days from `since` to `until`. Each call of `read` continues where the last stopped.

    `fold` contains the days, and `broken` the first place where the audit chain is broken.
    """

    def __init__(self, audit: Path, since: date, until: date) -> None:
        self._audit = audit
        self._until = until
        begins = datetime.combine(since, time.min, UTC) - _EAST
        ends = datetime.combine(until, time.min, UTC) + timedelta(days=1) + _WEST + _STEPPED
        self._far, self._near = second_of(begins - WEEK), second_of(begins - _NEAR)
        self._ends_at, self._end = ends, second_of(ends)
        self._ends_t = (
            math.inf
        )  # the monotonic time at which the days are over, even if the clock was changed
        self._skipping = False
        self._is_near = self._is_over = False
        self._place: tuple[str, int, int] | None = (
            None  # the file, and how many of its lines and bytes were read
        )
        self._chain = ChainCheck()
        self._begins = begins - WEEK
        self.fold = ReportFold()

    @property
    def broken(self) -> str:
        return self._chain.broken

    @property
    def passed(self) -> bool:
        """True if the last event belongs to a later day. The clock may still be set back."""
        return self.fold.today > self._until

    @property
    def over(self) -> bool:
        """True if all events of the days were read, so that they cannot change any more."""
        return self._is_over

    def read(self, rests: Rests | None = None, progress: Progress = no_progress) -> None:
        """Read all events so far, with pauses. Call it in a worker thread."""
        rests = rests or Rests()
        paths = files(self._audit)
        if self._place is None:
            paths = self._begin(paths)
        else:
            paths = [path for path in paths if path.name >= self._place[0]]
        total, before = sum(path.stat().st_size for path in paths) or 1, 0
        for path in paths:
            for offset in self._read_file(path):
                rests.rest()
                progress((before + offset) / total)
            if self._is_over:
                return
            before += path.stat().st_size

    def _begin(self, paths: Sequence[Path]) -> list[Path]:
        """Return the files to read. Start with the configuration that was active at that time."""
        first = len(paths) - 1
        while first > 0 and not self._begins_before(paths[first]):
            first -= 1
        earlier, left = paths[: max(first, 0)], list(paths[max(first, 0) :])
        began = next(filter(None, map(_first_time, left)), None)
        self.fold = ReportFold(None if began is None else max(began, self._begins))
        if (known := last_configured(earlier)) is not None:
            self.fold.fold(known)
        return left

    def _begins_before(self, path: Path) -> bool:
        began = _first_time(path)
        return began is not None and began < self._begins

    def _read_file(self, path: Path) -> Iterator[int]:
        """Continue to read a file. Yield the offset after each group of lines."""
        number = offset = 0
        if self._place is not None and self._place[0] == path.name:
            _, number, offset = self._place
        with path.open("rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # a daemon is writing it
                number, offset = number + 1, offset + len(line)
                self._take(path.name, number, line)
                if self._is_over:
                    break
                if number % LINES_AT_ONCE == 0:
                    yield offset
        self._place = path.name, number, offset

    def _take(self, name: str, number: int, line: bytes) -> None:
        if self._ends(line):
            self._is_over = True
            return
        if self._wanted(line) and (event := read_event(line)) is not None:
            self.fold.fold(event)
            if not self.passed:
                self._ends_t = event.t + (self._ends_at - event.at).total_seconds()
        if self.passed:
            self._skipping = True
        elif self._skipping:
            self._chain.skip_to(line)
            self._skipping = False
        else:
            self._chain.follow(name, number, line)

    def _ends(self, line: bytes) -> bool:
        """Return True if the days are over by the wall clock and by the monotonic clock."""
        if not self.passed or is_before(line, self._end):
            return False
        steady = steady_on(line)
        return steady is None or steady >= self._ends_t

    def _wanted(self, line: bytes) -> bool:
        """Return True if an event is needed, without decoding it."""
        if self._is_near:
            return not line.startswith(_PASSED_OVER)
        if line.startswith(_PASSED_OVER) or time_on(line) is None:
            return False
        if not is_before(line, self._near):
            self._is_near = True
            return True
        if is_before(line, self._far):
            return line.startswith(_CONFIGURED)
        return line.startswith(_FAR) or (
            line.startswith(DECIDED) and (_ASKS in line or _USES in line)
        )


def policy_now(audit: Path) -> Policy:
    """Return the last policy in the audit files."""
    known = last_configured(files(audit))
    return Policy() if known is None else known.policy


def last_configured(paths: Sequence[Path]) -> Configured | None:
    """Return the last `Configured` event in these files."""
    for path in reversed(paths):
        if path.stat().st_size == 0:
            continue
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            end = len(text)
            while (begin := text.rfind(b"\n" + _CONFIGURED, 0, end)) >= 0:
                end = begin
                stop = text.find(b"\n", begin + 1)
                event = read_event(text[begin + 1 : stop]) if stop > 0 else None
                if isinstance(event, Configured):
                    return event
    return None


def _first_time(path: Path) -> datetime | None:
    """Return the time of the first event in a file, which is on the second line."""
    with path.open("rb") as file:
        file.readline()
        return time_on(file.readline())
