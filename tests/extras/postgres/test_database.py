"""What cannot be reached is named without its password."""

import pytest

from safetyd.extras.postgres.database import Database, connect
from safetyd.extras.postgres.export_problem import ExportProblem
from tests.postgres_server import PostgresServer

SECRET = "hunter2-of-guarded"


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://safetyd:{SECRET}@[::",
        f"postgresql://safetyd:p@{SECRET}@db.example/safetyd",
        f"safetyd {SECRET}",
        f"host=/nowhere passwort={SECRET}",
    ],
)
def test_what_is_no_address_is_not_repeated(dsn: str) -> None:
    with pytest.raises(ExportProblem, match="does not contain a database address") as raised:
        connect(dsn)

    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(ExportProblem, match="/nowhere/") as raised:
        connect(f"host=/nowhere user=u password={SECRET} application_name={SECRET}")

    assert SECRET not in str(raised.value)


def test_a_password_is_taken_or_refused(postgres: PostgresServer) -> None:
    guarded = postgres.dsn("guarded")
    connect(f"{guarded} password={SECRET}").close()

    with pytest.raises(ExportProblem, match="password authentication failed") as raised:
        connect(f"{guarded} password={SECRET}-not")

    assert SECRET not in str(raised.value)


def test_a_database_must_be_in_utf8(postgres: PostgresServer) -> None:
    postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")

    with pytest.raises(ExportProblem, match="encoding is LATIN1; it must be UTF8"):
        connect(postgres.dsn().replace("dbname=postgres", "dbname=latin"))


def test_an_error_does_not_repeat_the_row_that_it_is_about(
    postgres: PostgresServer, schema: str
) -> None:
    database = Database(postgres.dsn, schema)

    with pytest.raises(ExportProblem) as raised, database.transaction() as connection:
        connection.execute(f"SELECT '{SECRET}'::text FROM (SELECT '[\"{SECRET}'::jsonb) AS x")

    assert str(raised.value) == "PostgreSQL says: invalid input syntax for type json (22P02)"
    database.close()


def test_an_old_server_is_refused(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.extras.postgres.database.OLDEST", 990_000)

    with pytest.raises(ExportProblem, match="is too old; it must be 13 or newer"):
        connect(postgres.dsn())
