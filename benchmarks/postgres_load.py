"""Time to export events to PostgreSQL, compared with a bare COPY of the same bytes."""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Final

import psycopg

from benchmarks.scale import Bench
from safetyd.extras.postgres.audit_rows import row_of
from safetyd.extras.postgres.database import Database
from safetyd.extras.postgres.loading import COPY, Loader
from safetyd.extras.postgres.postgres_config import PostgresConfig
from safetyd.journal.audit_reading import lines_after
from tests.extras.postgres.event_mix import event_mix, write_audit
from tests.postgres_server import PostgresServer

EVENTS: Final = 100_000
TARGET_S: Final = 20.0
BLOCK: Final = 200  # rows
BARE: Final = """
CREATE TABLE events (seq bigint, at timestamptz, event text, agent text, hash text, line text)"""


def postgres(bench: Bench) -> None:
    """Export a working day's mix of events, in turns with a bare COPY of the same rows."""
    data_dir = bench.place / "postgres"
    size = write_audit(data_dir, event_mix(EVENTS))
    with server_on_disk() as server:
        loads, copies = [], []
        for turn in range(bench.scale.postgres_rounds):
            copies.append(_bare(server, data_dir / "audit", f"bare_{turn}"))
            loads.append(_loaded(server, data_dir / "audit", f"loaded_{turn}"))
    seconds = statistics.median(loads)
    note = f"s for {EVENTS:,} events, {size >> 20} MiB; {EVENTS / seconds:,.0f} a second"
    bench.report.at_most("events into PostgreSQL", seconds, TARGET_S, note)
    ratios = [load / copy for load, copy in zip(loads, copies, strict=True)]
    bench.report.tell(
        "(the same / a bare COPY)",
        f"{statistics.median(ratios):.2f}  of {statistics.median(copies):.2f} s",
    )
    bench.report.raw["postgres"] = {"load_s": loads, "copy_s": copies, "bytes": size}


@contextmanager
def server_on_disk() -> Iterator[PostgresServer]:
    """Run a server that flushes to disk, as in production."""
    server = PostgresServer(options=(), parent="/var/tmp")
    try:
        yield server
    finally:
        server.remove()


def _loaded(server: PostgresServer, audit: Path, schema: str) -> float:
    database = Database(server.dsn, schema)
    loader = Loader(database, audit, "a benchmark", batch=PostgresConfig().batch)
    loader.reached()  # the tables exist
    began = perf_counter()
    while loader.load().seq < EVENTS:
        pass
    took = perf_counter() - began
    database.close()
    return took


def _bare(server: PostgresServer, audit: Path, schema: str) -> float:
    rows = [row.copied() for line in lines_after(audit, 0) if (row := row_of(line))]
    blocks = [b"".join(rows[first : first + BLOCK]) for first in range(0, len(rows), BLOCK)]
    server.execute(f"CREATE SCHEMA {schema}")
    with psycopg.connect(server.dsn(), options=f"-c search_path={schema}") as connection:
        connection.execute(BARE)
        connection.commit()
        began = perf_counter()
        with connection.cursor() as cursor, cursor.copy(COPY) as copy:
            for block in blocks:
                copy.write(block)
        connection.commit()
        return perf_counter() - began
