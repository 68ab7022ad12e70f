"""Compares the tables with the audit files, line by line."""

import hashlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from psycopg import sql

from safetyd.extras.postgres.audit_rows import AuditRow, row_of
from safetyd.extras.postgres.database import Connection, Database
from safetyd.extras.postgres.export_problem import ExportProblem
from safetyd.extras.postgres.loading import TABLES
from safetyd.journal.audit_reading import lines_after

AT_ONCE: Final = 20_000  # the number of events that one query compares with the other tables
_COLUMNS: Final = ("at", "event", "agent", "hash", "line")
_SELECT: Final = """
SELECT seq, at, event, agent, hash, sha256(convert_to(line, 'UTF8'))
FROM events WHERE seq > %s AND seq <= %s ORDER BY seq"""
_DERIVED: Final = """
WITH had AS (SELECT * FROM {table} WHERE seq > %(after)s AND seq <= %(last)s),
wanted AS (SELECT * FROM {view} WHERE seq > %(after)s AND seq <= %(last)s)
SELECT min(seq) FROM (
    (SELECT seq FROM (SELECT * FROM had EXCEPT ALL SELECT * FROM wanted) AS more)
    UNION ALL
    (SELECT seq FROM (SELECT * FROM wanted EXCEPT ALL SELECT * FROM had) AS less)
) AS different"""

Found = tuple[Any, ...]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a comparison. `difference` describes the first difference, if any."""

    events: int
    last_seq: int
    missing: int  # events that were skipped because no file had them
    difference: str = ""
    seq: int | None = None  # the event that differs


def compare(database: Database, audit: Path, journal: str, after: int = 0) -> Compared:
    """Compare all exported events after event `after`."""
    with database.transaction() as connection:
        # A consistent view of the database.
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        last = _loaded(connection, journal)
        gaps = list(connection.execute("SELECT first_seq, last_seq FROM gaps ORDER BY first_seq"))
        counted, difference = _events(connection, audit, after, last, gaps)
        if difference is None:
            connection.execute("SET LOCAL enable_seqscan = off")
            difference = _derived(connection, after, last)
        seq, says = difference or (None, "")
        missing = sum(to - first + 1 for first, to in gaps)
        return Compared(events=counted, last_seq=last, missing=missing, difference=says, seq=seq)


def _loaded(connection: Connection, journal: str) -> int:
    found = connection.execute("SELECT journal, seq FROM progress").fetchone()
    if found is None:
        return 0
    owner, seq = found
    if owner != journal:
        raise ExportProblem("the schema contains the events of another journal")
    return int(seq)


def _events(
    connection: Connection, audit: Path, after: int, last: int, gaps: list[Found]
) -> tuple[int, tuple[int, str] | None]:
    """Return how many events are the same, and the first that differs."""
    files = _file_rows(audit, after, last, gaps)
    counted, seq = 0, after
    with connection.cursor(name="rows") as cursor:
        cursor.itersize = 1000
        cursor.execute(_SELECT, (after, last))
        for had in cursor:
            if had[0] == seq:
                return counted, (seq, f"event {seq} is in the database twice")
            wanted = next(files, None)
            if difference := _different(had, wanted):
                return counted, difference
            counted, seq = counted + 1, had[0]
    wanted = next(files, None)
    if wanted is not None:
        return counted, _absent(wanted)
    beyond = connection.execute("SELECT min(seq) FROM events WHERE seq > %s", (last,)).fetchone()
    if beyond is not None and beyond[0] is not None:
        found = (
            f"event {beyond[0]} is in the database, but the export has only reached event {last}"
        )
        return counted, (beyond[0], found)
    return counted, None


def _file_rows(audit: Path, after: int, last: int, gaps: list[Found]) -> Iterator[AuditRow]:
    for line in lines_after(audit, after):
        row = row_of(line)
        if row is None:
            continue  # `safetyd audit verify` reports it
        if row.seq > last:
            return
        if not any(first <= row.seq <= to for first, to in gaps):
            yield row


def _different(had: Found, wanted: AuditRow | None) -> tuple[int, str] | None:
    seq = had[0]
    if wanted is None or wanted.seq > seq:
        return seq, f"event {seq} is in the database but not in the audit files"
    if wanted.seq < seq:
        return _absent(wanted)
    fields = (
        datetime.fromisoformat(wanted.at.decode()),
        wanted.event.decode(),
        wanted.agent.decode() if wanted.agent is not None else None,
        wanted.hash.decode(),
        hashlib.sha256(wanted.line).digest(),
    )
    for name, in_database, in_file in zip(_COLUMNS, had[1:], fields, strict=True):
        if in_database != in_file:
            return seq, f"event {seq} has a different {name} in the database"
    return None


def _absent(wanted: AuditRow) -> tuple[int, str]:
    return wanted.seq, f"event {wanted.seq} is in the audit files but not in the database"


def _derived(connection: Connection, after: int, last: int) -> tuple[int, str] | None:
    """Return the first event whose rows in another table do not match its line."""
    for begin in range(after, last, AT_ONCE):
        bounds = {"after": begin, "last": min(begin + AT_ONCE, last)}
        for table in TABLES:
            names = {"table": sql.Identifier(table), "view": sql.Identifier(f"events_as_{table}")}
            found = connection.execute(sql.SQL(_DERIVED).format(**names), bounds).fetchone()
            if found is not None and found[0] is not None:
                return found[0], f"event {found[0]} does not match its rows in {table}"
    return None
