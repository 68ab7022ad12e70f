"""Exports audit files to the tables in batches, each in one transaction."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from psycopg import sql

from safetyd.extras.postgres.audit_rows import AuditRow, Progress, after_missing, rows_after
from safetyd.extras.postgres.database import Connection, Database
from safetyd.extras.postgres.export_problem import ExportProblem, MissingEvents
from safetyd.extras.postgres.schema_migrations import migrate
from safetyd.journal.audit_reading import Rests

MAX_BATCH_BYTES: Final = 16 * 1024 * 1024
# Lines between two pauses, so that decisions wait for only a fraction of a millisecond.
LINES_AT_ONCE: Final = 20
BLOCK_ROWS: Final = 50  # rows sent to PostgreSQL at a time
# For each of these tables, a view over `events` yields its rows.
TABLES: Final = (
    "decisions",
    "outcomes",
    "requests",
    "request_steps",
    "deliveries",
    "delivery_steps",
)
COPY: Final = "COPY events (seq, at, event, agent, hash, line) FROM STDIN"


class Batch(NamedTuple):
    """The rows after those already exported. `missing` is a range of events to skip."""

    rows: Sequence[AuditRow]
    months: Sequence[str]  # the months of the rows, in order
    missing: tuple[int, int] | None = None

    @property
    def after(self) -> Progress:
        return Progress(self.rows[-1].seq, self.rows[-1].hash.decode())


class Loader:
    """Exports the audit files of a directory to one schema. It blocks; use it in one thread."""

    def __init__(
        self,
        database: Database,
        audit: Path,
        journal: str,
        *,
        batch: int,
        rests: Rests | None = None,
        without_missing: bool = False,
    ) -> None:
        self._database = database
        self._audit = audit
        self._journal = journal
        self._batch = batch
        self._rests = rests or Rests(0.0)
        self._without_missing = without_missing
        self._migrated = False
        self._months: set[str] = set()
        self._progress: Progress | None = None

    def reached(self) -> Progress:
        """Return the progress of the export. Create the tables if needed."""
        if not self._migrated:
            migrate(self._database)
            self._migrated = True
        with self._database.transaction() as connection:
            self._progress = claimed(connection, self._journal)
        return self._progress

    def load(self) -> Progress:
        """Export one batch, if any. Return the progress afterwards."""
        before = self._progress or self.reached()
        self._rests.begin()  # do not count the time since the last batch as work
        batch = self._read(before)
        if not batch.rows:
            return before
        # If the transaction fails, months and progress stay unknown.
        months, self._months, self._progress = self._months, set(), None
        with self._database.transaction() as connection:
            reached = claimed(connection, self._journal)
            if reached == before:  # otherwise another process exported in the meantime
                self._write(connection, batch, months)
                reached = batch.after
        self._months, self._progress = months.union(batch.months), reached
        return reached

    def _read(self, before: Progress) -> Batch:
        """Read and check the next batch, before anything is locked."""
        try:
            return self._batch_after(before)
        except MissingEvents as exc:
            if not self._without_missing:
                raise
            batch = self._batch_after(after_missing(self._audit, exc.last))
            return batch._replace(missing=(exc.first, exc.last))

    def _batch_after(self, before: Progress) -> Batch:
        rows: list[AuditRow] = []
        months: set[str] = set()
        size = 0
        try:
            for row in islice(rows_after(self._audit, before), self._batch):
                rows.append(row)
                months.add(row.month)
                size += len(row.line)
                if len(rows) % LINES_AT_ONCE == 0:
                    self._rests.rest()
                if size >= MAX_BATCH_BYTES:
                    break
        except MissingEvents:
            if not rows:
                raise
        except OSError as exc:
            raise ExportProblem(f"cannot read the audit files: {exc}") from None
        return Batch(rows, sorted(months))

    def _write(self, connection: Connection, batch: Batch, months: set[str]) -> None:
        for month in batch.months:
            if month not in months:
                _add_months(connection, month)
        if batch.missing:
            connection.execute(
                "INSERT INTO gaps (first_seq, last_seq) VALUES (%s, %s)", batch.missing
            )
        with connection.cursor() as cursor, cursor.copy(COPY) as copy:
            self._rests.begin()  # do not count the time of PostgreSQL as work
            for first in range(0, len(batch.rows), BLOCK_ROWS):
                copy.write(b"".join(r.copied() for r in batch.rows[first : first + BLOCK_ROWS]))
                self._rests.rest()
        _derive(connection, batch)
        connection.execute(
            "UPDATE progress SET seq = %s, hash = %s, loaded_at = now()", batch.after
        )


def claimed(connection: Connection, journal: str) -> Progress:
    """Return the progress of the export, and lock it until the transaction ends."""
    connection.execute(
        "INSERT INTO progress (journal, seq, hash) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
        (journal, *Progress()),
    )
    found = connection.execute("SELECT journal, seq, hash FROM progress FOR UPDATE").fetchone()
    assert found is not None  # noqa: S101 - it was just put there
    owner, seq, digest = found
    if owner != journal:
        raise ExportProblem(
            f"the schema contains the events of another journal ({owner[:8]}…, this one is "
            f"{journal[:8]}…); choose another outlets.postgres.schema"
        )
    return Progress(seq, digest)


def _add_months(connection: Connection, month: str) -> None:
    """Create the partitions of a month and the next one."""
    connection.execute(
        "SELECT add_month(%(first)s::date), "
        "add_month((%(first)s::date + interval '1 month')::date)",
        {"first": f"{month}-01"},
    )


def _derive(connection: Connection, batch: Batch) -> None:
    """Fill all other tables from the new events."""
    connection.execute("SET LOCAL enable_seqscan = off")  # the new rows have no statistics yet
    for table in TABLES:
        connection.execute(
            sql.SQL("INSERT INTO {table} SELECT * FROM {view} WHERE {range}").format(
                table=sql.Identifier(table),
                view=sql.Identifier(f"events_as_{table}"),
                range=_RANGE,
            ),
            {
                "first": batch.rows[0].seq,
                "last": batch.rows[-1].seq,
                "from": f"{batch.months[0]}-01 00:00:00+00",
                "to": f"{batch.months[-1]}-01 00:00:00+00",
            },
        )


_RANGE: Final = sql.SQL(
    "seq BETWEEN %(first)s AND %(last)s AND at >= %(from)s::timestamptz "
    "AND at < %(to)s::timestamptz + interval '32 days'"
)
