"""Reads older SafetyEvents from the audit files for readers that resume, in slices."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.to_thread
import msgspec

from safetyd.clock import uptime
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.journal.audit import Opened, files
from safetyd.journal.audit_reading import RESTS, SAFETY_EVENT, lines_after, read_event, seq_of
from safetyd.monitoring.recent_events import Missed

SLICE: Final = 300  # lines read at a time, which takes about half a millisecond


class Slice(NamedTuple):
    """The SafetyEvents in some lines. `seq` is the number of the last event, 0 if there is none."""

    events: Sequence[SafetyEvent]
    seq: int


class EventReplay:
    """Reads for one reader at a time, so that many readers do not slow down the daemon."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reading = anyio.Lock()

    async def events(self, missed: Missed) -> AsyncGenerator[Slice, None]:
        """Yield the missed events in order."""
        lines = lines_after(self._directory, missed.after)
        while True:
            async with self._reading:
                begun = uptime()
                found = await anyio.to_thread.run_sync(_slice, lines, missed.until)
                await anyio.sleep(RESTS * (uptime() - begun))
            yield found
            if not 0 < found.seq < missed.until:
                return

    async def gap(self, seq: int) -> int:
        """Return 0 if all events after `seq` are stored, else the event after which to resume."""
        return await anyio.to_thread.run_sync(_gap, self._directory, seq)


def _slice(lines: Iterator[bytes], until: int) -> Slice:
    events: list[SafetyEvent] = []
    seq = 0
    for line in islice(lines, SLICE):
        if seq_of(line) > until:
            return Slice(events, until)
        seq = seq_of(line)
        if line.startswith(SAFETY_EVENT) and isinstance(event := read_event(line), SafetyEvent):
            events.append(event)
    return Slice(events, seq)


def _gap(directory: Path, seq: int) -> int:
    """Check the first line of each file: files may be missing, or belong to another daemon."""
    after = 0
    for number, path in enumerate(files(directory)):
        with path.open("rb") as file:
            line = file.readline()
        try:
            opened = msgspec.json.decode(line, type=Opened)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if opened.after_seq > seq and (number == 0 or opened.missing):
            after = opened.after_seq
    return after
