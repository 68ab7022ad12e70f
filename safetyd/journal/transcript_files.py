"""Writes transcripts to files: one for each finished session, named after its start time.

Every transcript is in the journal first. `.written` contains the number of the last event that was
written. If files are missing after a crash or a full disk, they are written from the audit files.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from safetyd.core.events.decision_events import Transcribed
from safetyd.core.events.event import Event
from safetyd.core.messages.transcript import Transcript
from safetyd.host import write_whole
from safetyd.journal.audit_reading import lines_after, read_event

DIRECTORY: Final = "transcripts"
MAX_WAITING: Final = 256
AGAIN_S: Final = 5.0
WRITTEN: Final = ".written"

_TOLD: Final = b'{"event":"transcribed",'
_NAME: Final = re.compile(r"(\d{4}-\d\d-\d\d-\d{6})(?:-(\d+))?")

log = logging.getLogger("safetyd.transcripts")


class Filed(Transcript, frozen=True, kw_only=True, gc=False):
    """The content of a file: a transcript, and its event number."""

    seq: int


class TranscriptFiles:
    """Writes transcripts in another thread, in order and once each."""

    def __init__(self, data_dir: Path) -> None:
        self._directory = data_dir / DIRECTORY
        self._audit = data_dir / "audit"
        self._waiting: list[Transcribed] = []
        self._behind = True  # True: the audit files may contain unwritten transcripts
        self._told = anyio.Event()
        self._told.set()

    def observe(self, events: Sequence[Event]) -> None:
        """Queue transcripts. If there are too many, read the rest from the audit files later."""
        for event in events:
            if type(event) is Transcribed:
                if len(self._waiting) < MAX_WAITING:
                    self._waiting.append(event)
                else:
                    self._behind = True
                self._told.set()

    async def run(self) -> None:
        while True:
            await self._told.wait()
            self._told = anyio.Event()
            await self._catch_up()

    async def _catch_up(self) -> None:
        told, self._waiting = self._waiting, []
        behind, self._behind = self._behind, False
        try:
            await anyio.to_thread.run_sync(self._write, told, behind)
        except OSError as exc:
            log.error("cannot write transcripts; will retry: %s", exc)  # noqa: TRY400 - the cause is in the text
            self._behind = True
            await anyio.sleep(AGAIN_S)
            self._told.set()

    def _write(self, told: Iterable[Transcribed], behind: bool) -> None:  # noqa: FBT001 - a thread's
        self._directory.mkdir(mode=0o700, exist_ok=True)
        written = last_written(self._directory)
        if behind:
            for event in told_since(self._audit, written):
                written = self._file(event, written)
        for event in told:
            written = self._file(event, written)

    def _file(self, event: Transcribed, written: int) -> int:
        if event.seq <= written:
            return written
        path = self._free(event)
        if path is not None:
            filed = {**msgspec.structs.asdict(event.transcript), "seq": event.seq}
            data = msgspec.json.format(msgspec.json.encode(filed), indent=2)
            write_whole(path, data + b"\n")
        write_whole(self._directory / WRITTEN, b"%d\n" % event.seq)
        return event.seq

    def _free(self, event: Transcribed) -> Path | None:
        """Return the first free name, or None if the event already has a file.

        It already has one if the daemon crashed before it updated `.written`.
        """
        start = f"{event.transcript.started_at:%Y-%m-%d-%H%M%S}"
        last, path = None, self._directory / f"{start}.json"
        numbers = count(2)
        while path.exists():
            last, path = path, self._directory / f"{start}-{next(numbers)}.json"
        return None if last is not None and seq_in(last) == event.seq else path


def last_written(directory: Path) -> int:
    """Return the number of the last event that was written to a file."""
    try:
        return int((directory / WRITTEN).read_text())
    except (FileNotFoundError, ValueError):
        return 0


def names(directory: Path) -> list[str]:
    """Return the names of all transcripts in a directory, oldest first."""
    found = (_NAME.fullmatch(path.stem) for path in directory.glob("*.json"))
    return [name[0] for name in sorted(filter(None, found), key=_order)]


def read(directory: Path, name: str) -> Filed:
    """Return a transcript. Raise OSError or `msgspec.DecodeError` if it cannot be read."""
    return msgspec.json.decode((directory / f"{name}.json").read_bytes(), type=Filed)


def told_since(audit: Path, seq: int) -> Iterator[Transcribed]:
    """Yield transcripts from the audit files after event `seq`, in order."""
    for line in lines_after(audit, seq):
        if line.startswith(_TOLD) and isinstance(event := read_event(line), Transcribed):
            yield event


def _order(name: re.Match[str]) -> tuple[str, int]:
    return name[1], int(name[2] or 1)


def seq_in(path: Path) -> int:
    """Return the event number in a transcript file, or 0 if the file is not a transcript."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Filed).seq
    except (OSError, msgspec.DecodeError):
        return 0
