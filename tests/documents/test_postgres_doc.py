"""The ten questions of docs/postgres.md are answered by a real PostgreSQL."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from safetyd.clock import Clock
from safetyd.extras.postgres.loading import TABLES
from tests.checkout import ROOT
from tests.extras.postgres.event_mix import event_mix
from tests.extras.postgres.postgres_store import PostgresStore
from tests.postgres_server import PostgresServer

TEXT = (ROOT / "docs" / "postgres.md").read_text()
QUERIES = re.findall(r"^```sql\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def store(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres, "documented", tmp_path_factory.mktemp("documented"))
    store.write(event_mix(400, Clock().now().at - timedelta(minutes=10)))
    store.load()
    yield store
    store.database.close()


def test_there_are_ten_questions() -> None:
    assert len(QUERIES) == 10


@pytest.mark.req("S1.44")
@pytest.mark.parametrize("query", QUERIES, ids=range(1, len(QUERIES) + 1))
def test_each_query_works_for_a_reader(store: PostgresStore, query: str) -> None:
    with psycopg.connect(store.server.dsn(), autocommit=True) as connection:
        connection.execute("SET ROLE documented_reader; SET search_path = documented")

        answer = connection.execute(query.encode()).fetchall()

    repeated = "HAVING bool_and" in query  # every other request stays open here
    assert bool(answer) is not repeated


def test_every_table_and_view_is_documented(store: PostgresStore, tmp_path: Path) -> None:
    found = store.rows(
        "SELECT relname FROM pg_class WHERE relnamespace = 'documented'::regnamespace "
        "AND relkind IN ('r', 'p', 'v') AND NOT relispartition"
    )
    names = {name for (name,) in found if not name.startswith("events_as_")}

    assert {"events", *TABLES} < names
    assert [name for name in sorted(names) if f"`{name}`" not in TEXT] == []
