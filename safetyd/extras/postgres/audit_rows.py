"""Lines of the audit files as rows, each of which must follow from the one before it."""

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
    """The last event that is loaded, and the hash that ends its audit line."""

    seq: int = 0
    hash: str = NO_HASH.decode()


class AuditRow(NamedTuple):
    """An event as the table has it; `line` is the journal's."""

    seq: int
    at: bytes
    event: bytes
    agent: bytes | None
    hash: bytes
    line: bytes

    @property
    def month(self) -> str:
        """Return the month that it belongs to, as 2026-03."""
        return self.at[:7].decode()

    def copied(self) -> bytes:
        r"""Return it as a line of COPY's text format; JSON has no raw tab and no raw newline."""
        agent = rb"\N" if self.agent is None else self.agent
        line = self.line.replace(b"\\", rb"\\")
        return b"%d\t%b\t%b\t%b\t%b\t%b\n" % (
            *(self.seq, self.at, self.event, agent, self.hash, line),
        )


def row_of(line: bytes) -> AuditRow | None:
    """Return what a line of the audit files says, None if it is no event's."""
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
    """Yield the events after `progress` in order, as far as they are written.

    Raises `MissingEvents` where some are not there, and `ExportProblem` where one does not follow
    from the one before: then these are the files of another journal, or were changed.
    """
    return following(lines_after(directory, progress.seq), progress, str(directory))


def following(lines: Iterable[bytes], progress: Progress, where: str) -> Iterator[AuditRow]:
    """Yield lines as rows, as long as each follows from the one before."""
    seq, link = progress.seq, progress.hash.encode()
    for line in lines:
        row = row_of(line)
        if row is None:
            raise ExportProblem(
                f"the line after event {seq} in {where} is not as it was written: see "
                "`safetyd audit verify`"
            )
        if row.seq != seq + 1:
            raise MissingEvents(seq + 1, row.seq - 1, where)
        if hashlib.sha256(link + row.line).hexdigest().encode() != row.hash:
            raise ExportProblem(
                f"event {row.seq} in {where} does not follow from event {seq} in the database: "
                "these are events of another journal, of an older backup, or were changed; see "
                "`safetyd audit verify`, and load another journal into another schema"
            )
        seq, link = row.seq, row.hash
        yield row


def after_missing(directory: Path, last: int) -> Progress:
    """Return from where to go on without the events up to `last`: a file begins there."""
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
        f"no audit file in {directory} begins after event {last}: lines were taken out; see "
        "`safetyd audit verify`"
    )
