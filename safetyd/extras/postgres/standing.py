"""The state of the export, read without changing anything."""

from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from safetyd.extras.postgres.database import Connection, Database
from safetyd.extras.postgres.schema_migrations import has_reader, reader_of
from safetyd.journal.audit_reading import WITHOUT_BOUNDS, NewestFirst, Rests, seq_of


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a schema, compared with the audit files."""

    server: str  # version, database and user
    schema: str
    tables: bool  # created by the first export
    seq: int = 0
    loaded_at: datetime | None = None
    audit_seq: int
    behind: int
    missing: int = 0  # events that were skipped because no file had them
    reader: str = ""  # the read-only role; empty if it could not be created
    other_journal: bool = False


def standing(database: Database, audit: Path, journal: str) -> Standing:
    """Return the state of the export; raises `ExportProblem` if the server does not answer."""
    end = seq_of(next(iter(NewestFirst(audit, None, WITHOUT_BOUNDS, Rests(0.0))), b""))
    with database.transaction() as connection:
        nothing = Standing(
            server=_server(connection),
            schema=database.schema,
            tables=False,
            audit_seq=end,
            behind=end,
        )
        if connection.execute("SELECT to_regclass('progress')").fetchone() == (None,):
            return nothing
        found = connection.execute("SELECT journal, seq, loaded_at FROM progress").fetchone()
        owner, seq, loaded_at = found or (journal, 0, None)
        gaps = connection.execute("SELECT first_seq, last_seq FROM gaps").fetchall()
        known = has_reader(connection, database.schema)
        return replace(
            nothing,
            tables=True,
            seq=seq,
            loaded_at=loaded_at,
            behind=max(0, end - seq),
            missing=sum(last - first + 1 for first, last in gaps),
            reader=reader_of(database.schema) if known else "",
            other_journal=owner != journal,
        )


def _server(connection: Connection) -> str:
    info = connection.info
    return f"PostgreSQL {info.server_version // 10_000}, database {info.dbname}, user {info.user}"
