"""Audit files, and a schema of a real PostgreSQL that they are loaded into."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetyd.core.events.event import Event
from safetyd.extras.postgres.audit_rows import Progress
from safetyd.extras.postgres.comparing import Compared, compare
from safetyd.extras.postgres.database import Database
from safetyd.extras.postgres.journal_id import journal_id
from safetyd.extras.postgres.loading import Loader
from safetyd.journal.audit_reading import lines_after
from tests.extras.postgres.event_mix import write_audit
from tests.postgres_server import PostgresServer


class PostgresStore:
    def __init__(self, server: PostgresServer, schema: str, data_dir: Path) -> None:
        self.server = server
        self.schema = schema
        self.data_dir = data_dir
        self.audit = data_dir / "audit"
        self.database = Database(server.dsn, schema)

    def write(self, events: Iterable[Event], **options: int) -> None:
        write_audit(self.data_dir, iter(events), **options)

    def loader(self, batch: int = 1000, **options: Any) -> Loader:
        return Loader(self.database, self.audit, self.journal, batch=batch, **options)

    @property
    def journal(self) -> str:
        return journal_id(self.data_dir)

    def load(self, batch: int = 1000, **options: Any) -> Progress:
        """Load everything that is there."""
        loader = self.loader(batch, **options)
        before = loader.reached()
        while (now := loader.load()) != before:
            before = now
        return now

    def compare(self, after: int = 0) -> Compared:
        return compare(self.database, self.audit, self.journal, after)

    def one(self, text: str) -> Any:
        with self.database.transaction() as connection:
            found = connection.execute(text.encode()).fetchone()
        assert found is not None
        return found[0]

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        with self.database.transaction() as connection:
            return connection.execute(text.encode()).fetchall()

    def change(self, text: str) -> None:
        with self.database.transaction() as connection:
            connection.execute(text.encode())

    def loaded_lines(self) -> list[str]:
        """Return what stands in the table as audit lines, in order."""
        return [
            f'{line[:-1]},"hash":"{digest}"}}\n'
            for line, digest in self.rows("SELECT line, hash FROM events ORDER BY seq")
        ]

    def audit_lines(self) -> list[str]:
        return [line.decode() for line in lines_after(self.audit, 0)]
