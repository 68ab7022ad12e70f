"""Audit lines as rows. The hash of each row must follow from the previous one."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from safetyd.extras.postgres.export_problem import ExportProblem, MissingEvents
from safetyd.journal.audit import NO_HASH, Opened, files
from safetyd.journal.audit_reading import lines_after

_HASH: Final = b',"hash":"'
_TAIL: Final = len(_HASH) + len(NO_HASH) + len(b'"}\n')
_begin = re.compile(rb'\{"event":"([a-z_]+)","seq":(\d+),"at":"([^"]+)"').match
_agent = re.compile(rb'"agent(?:_id)?":"([A-Za-z0-9_-]{1,64})"').search


class Progress(NamedTuple):
    """The last exported event, and the hash of its audit line."""

    seq: int = 0
    hash: str = NO_HASH.decode()


class AuditRow(NamedTuple):
    """An event as a row of the table `events`. `line` is the event's line in the journal."""

    seq: int
    at: bytes
    event: bytes
    agent: bytes | None
    hash: bytes
    line: bytes

    @property
    def month(self) -> str:
        """Return its month, such as 2026-03."""
        return self.at[:7].decode()

    def copied(self) -> bytes:
        r"""Return the row in the text format of COPY; JSON has no raw tabs or newlines."""
        agent = rb"\N" if self.agent is None else self.agent
        line = self.line.replace(b"\\", rb"\\")
        return b"%d\t%b\t%b\t%b\t%b\t%b\n" % (
            *(self.seq, self.at, self.event, agent, self.hash, line),
        )


def row_of(line: bytes) -> AuditRow | None:
    """Return the row of an audit line, or None if it is not an event."""
    found = _begin(line)
    if found is None or line[-_TAIL : -_TAIL + len(_HASH)] != _HASH:
        return None
    content = line[:-_TAIL] + b"}"
    agent = _agent(content)
    return AuditRow(
        int(found[2]),
        found[3],
        found[1],
        agent[1] if agent else None,
        line[-_TAIL + len(_HASH) : -3],
        content,
    )


def rows_after(directory: Path, progress: Progress) -> Iterator[AuditRow]:
    """Yield the events after `progress` in order.

    Raises `MissingEvents` for a gap, and `ExportProblem` if a line does not follow from the
    previous one: the files belong to another journal, or were changed.
    """
    return following(lines_after(directory, progress.seq), progress, str(directory))


def following(lines: Iterable[bytes], progress: Progress, where: str) -> Iterator[AuditRow]:
    """Yield lines as rows, as long as each follows from the previous one."""
    seq, link = progress.seq, progress.hash.encode()
    for line in lines:
        row = row_of(line)
        if row is None:
            raise ExportProblem(
                f"the line after event {seq} in {where} was changed: see `safetyd audit verify`"
            )
        if row.seq != seq + 1:
            raise MissingEvents(seq + 1, row.seq - 1, where)
        if hashlib.sha256(link + row.line).hexdigest().encode() != row.hash:
            raise ExportProblem(
                f"event {row.seq} in {where} does not follow from event {seq} in the database: "
                "the events belong to another journal or an older backup, or were changed; see "
                "`safetyd audit verify`. If this is a different journal, give it its own schema"
            )
        seq, link = row.seq, row.hash
        yield row


def after_missing(directory: Path, last: int) -> Progress:
    """Return the progress after the missing events up to `last`, where an audit file starts."""
    for path in files(directory):
        with path.open("rb") as file:
            line = file.readline()
        try:
            opened = msgspec.json.decode(line, type=Opened)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if opened.after_seq == last:
            return Progress(last, opened.previous)
    raise ExportProblem(
        f"no audit file in {directory} starts after event {last}: lines were removed; see "
        "`safetyd audit verify`"
    )
