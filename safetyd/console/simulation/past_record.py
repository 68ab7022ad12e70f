"""Decides recorded proposals again under other rules. The audit files are the record."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from safetyd.core.engine.journal_lines import decode
from safetyd.core.events.event import Event
from safetyd.core.policy import Configured, Policy
from safetyd.core.simulation.recorded_lines import read_line
from safetyd.core.simulation.report import SimulationReport
from safetyd.core.simulation.simulation import Simulation
from safetyd.journal.audit import files
from safetyd.journal.audit_reading import (
    WITHOUT_BOUNDS,
    NewestFirst,
    Rests,
    lines_after,
    read_event,
    seq_of,
)

CONFIGURED: Final = b'{"event":"configured",'
TOLD_EVERY: Final = 1_000  # lines

GARBAGE: Final = 200_000  # objects

Read = TypeVar("Read")
# Called with the share of the files read so far, and the number of repeated decisions.
Progress = Callable[[float, int], None]


class PastRun(msgspec.Struct, kw_only=True):
    """The report of a simulation, and counts of events that it did not decide again."""

    report: SimulationReport
    before: int = 0  # events before `--since`, which were only replayed
    missing: int = 0  # events that are not in the files
    damaged: int = 0  # lines that cannot be read
    from_the_start: bool = True  # False: earlier files are missing


def recorded_policy(where: Path) -> Policy | None:
    """Return the newest rules in the audit files, or None if there are none."""
    for line in NewestFirst(where, None, WITHOUT_BOUNDS, Rests(0.0)):
        if line.startswith(CONFIGURED) and isinstance(event := read_event(line), Configured):
            return event.policy
    return None


class PastRecord:
    """The lines of audit files, which a daemon may still be writing."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self._size = sum(path.stat().st_size for path in files(where))
        self._read = 0
        self._lines = 0
        self._first = self._last = b""

    @property
    def share(self) -> float:
        """Return the share of the files that has been read, from 0 to 1."""
        return min(1.0, self._read / self._size) if self._size else 1.0

    @property
    def begins(self) -> int:
        """Return the number of the first event read, or 0."""
        return seq_of(self._first)

    @property
    def missing(self) -> int:
        """Return how many events between the first and the last are missing."""
        return seq_of(self._last) - self.begins + 1 - self._lines if self._lines else 0

    def __iter__(self) -> Iterator[bytes]:
        for line in lines_after(self._where, 0):
            self._first = self._first or line
            self._last = line
            self._lines += 1
            self._read += len(line)
            yield line


class PastSimulation:
    """Replays the events before `since`, and decides the later proposals again."""

    def __init__(self, record: PastRecord, policy: Policy, progress: Progress) -> None:
        self._record = record
        self._policy = policy
        self._progress = progress
        self._before = 0
        self._damaged = 0

    def run(self, since: datetime | None) -> PastRun:
        with _collected_seldom():
            lines, first = iter(self._record), list[bytes]()
            past = () if since is None else self._past(lines, since, first)
            simulation = Simulation.after(self._policy, past)
            report = self._simulated(simulation, chain(first, lines))
        return PastRun(
            report=report,
            before=self._before,
            missing=self._record.missing,
            damaged=self._damaged,
            from_the_start=self._record.begins <= 1,
        )

    def _past(self, lines: Iterator[bytes], since: datetime, first: list[bytes]) -> Iterator[Event]:
        """Yield the events before `since`. Append the first later line to `first`."""
        last_t = -1.0
        for line in lines:
            event = self._decoded(decode, line)
            if event is None:
                continue
            # Events with the same cause have the same `t` and are not separated.
            if event.at >= since and event.t != last_t:
                first.append(line)
                return
            yield event
            last_t = event.t
            self._before += 1
            if self._before % TOLD_EVERY == 0:
                self._progress(self._record.share, 0)

    def _simulated(self, simulation: Simulation, lines: Iterable[bytes]) -> SimulationReport:
        for number, line in enumerate(lines, 1):
            if (event := self._decoded(read_line, line)) is not None:
                simulation.put(event)
            if number % TOLD_EVERY == 0:
                self._progress(self._record.share, simulation.decisions)
        return simulation.report()

    def _decoded(self, read: Callable[[bytes], Read], line: bytes) -> Read | None:
        try:
            return read(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._damaged += 1
            return None


@contextmanager
def _collected_seldom() -> Iterator[None]:
    """Collect garbage rarely during the block: there are many events, and none has cycles."""
    usual = gc.get_threshold()
    gc.set_threshold(GARBAGE)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
