"""Exports events from the audit files to PostgreSQL in the background.

New events in the journal trigger it. Nothing waits for it, and it holds no events in memory.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from safetyd.core.events.event import Event
from safetyd.extras.postgres.export_problem import ExportProblem
from safetyd.extras.postgres.journal_id import journal_id
from safetyd.extras.postgres.postgres_config import PostgresConfig
from safetyd.host import NoSecret, read_secret, secret_directories
from safetyd.journal.audit_reading import Rests
from safetyd.operators.contract.status_contract import ExporterState

if TYPE_CHECKING:
    from safetyd.extras.postgres.database import Database
    from safetyd.extras.postgres.loading import Loader

NAME: Final = "postgres"
NOT_INSTALLED: Final = "psycopg is not installed: run `pip install 'safetyd[postgres]'`"
AGAIN_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
GATHER_S: Final = 0.2  # the pause between batches, so that several decisions share a transaction
DEADLINE_S: Final = 180.0  # for one batch; after that, the connection is closed

log = logging.getLogger("safetyd.postgres")


class PostgresExporter:
    """Exports with one task, one thread and one connection."""

    def __init__(
        self,
        config: PostgresConfig,
        data_dir: Path,
        *,
        written: Callable[[], int],
        now: Callable[[], datetime],
    ) -> None:
        self._config = config
        self._data_dir = data_dir
        self._written = written  # the number of the last event in the audit files
        self._now = now
        self._told = anyio.Event()
        self._told.set()
        self._database: Database | None = None
        self._loader: Loader | None = None
        self._seq: int | None = None
        self._last_success: datetime | None = None
        self._errors = 0
        self._failures = 0  # failures in a row
        self._problem = ""

    def observe(self, _events: Sequence[Event]) -> None:
        """Note that there are new events."""
        self._told.set()

    @property
    def state(self) -> ExporterState:
        return ExporterState(
            name=NAME,
            seq=self._seq,
            behind=max(0, self._written() - (self._seq or 0)),
            last_success=self._last_success,
            errors=self._errors,
            problem=self._problem,
        )

    async def run(self) -> None:
        """Export forever, and retry after every error."""
        limiter = anyio.CapacityLimiter(1)
        try:
            while True:
                await self._told.wait()
                self._told = anyio.Event()
                await self._catch_up(limiter)
        finally:
            self._give_up()

    async def _catch_up(self, limiter: anyio.CapacityLimiter) -> None:
        try:
            before = self._seq
            with anyio.fail_after(DEADLINE_S):
                self._seq = await anyio.to_thread.run_sync(
                    self._load, abandon_on_cancel=True, limiter=limiter
                )
        except ExportProblem as exc:
            await self._failed(str(exc))
        except TimeoutError:
            self._give_up()
            await self._failed(f"PostgreSQL has not answered for {DEADLINE_S:.0f} s")
        else:
            self._succeeded()
            if self._seq - (before or 0) >= self._config.batch:
                self._told.set()  # there may be more
            else:
                await anyio.sleep(GATHER_S)

    def _load(self) -> int:
        """Export one batch, in another thread."""
        try:
            if self._loader is None:
                self._database, self._loader = open_loader(self._config, self._data_dir, Rests())
            return self._loader.load().seq
        except ExportProblem:
            raise
        except Exception as exc:
            # A bug must not crash the daemon; the log has the details.
            log.exception("the export to PostgreSQL failed")
            raise ExportProblem(f"internal error: {type(exc).__name__}") from None

    def _give_up(self) -> None:
        """Close the connection, even if a thread is waiting for it."""
        database, self._database, self._loader = self._database, None, None
        if database is not None:
            database.hang_up()

    def _succeeded(self) -> None:
        if self._problem:
            log.warning("the export to PostgreSQL works again, from event %s", self._seq)
        self._problem, self._failures = "", 0
        self._last_success = self._now()

    async def _failed(self, why: str) -> None:
        if why != self._problem:
            log.error("cannot export to PostgreSQL, trying again later: %s", why)
        self._problem = why
        self._errors += 1
        wait_s = AGAIN_S[min(self._failures, len(AGAIN_S) - 1)]
        self._failures += 1
        await anyio.sleep(wait_s)
        self._told.set()


def open_loader(
    config: PostgresConfig, data_dir: Path, rests: Rests, audit: Path | None = None, **options: bool
) -> "tuple[Database, Loader]":
    """Return a database and a loader for a data directory; raise if something is missing."""
    try:
        from safetyd.extras.postgres.database import Database  # noqa: PLC0415 - only where it is configured
        from safetyd.extras.postgres.loading import Loader  # noqa: PLC0415 - see above
    except ImportError as exc:
        raise ExportProblem(NOT_INSTALLED) from exc
    database = Database(lambda: dsn_of(config, data_dir), config.schema)
    where = audit or data_dir / "audit"
    loader = Loader(
        database, where, journal_id(data_dir), batch=config.batch, rests=rests, **options
    )
    return database, loader


def dsn_of(config: PostgresConfig, data_dir: Path) -> str:
    """Return the address of the database."""
    try:
        return read_secret(config.dsn_file, secret_directories(data_dir))
    except NoSecret as exc:
        raise ExportProblem(f"outlets.postgres.dsn_file: {exc}") from None
