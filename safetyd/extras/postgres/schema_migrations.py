"""The tables, created and changed by numbered SQL files, each applied once."""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from safetyd.extras.postgres.database import Connection, Database
from safetyd.extras.postgres.export_problem import ExportProblem

RECORD: Final = b"""
CREATE TABLE IF NOT EXISTS migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)"""
_LOCK: Final = 0x5AFE7D  # the id of the lock that lets only one process create tables


class Migration(NamedTuple):
    number: int
    name: str
    sha256: str
    text: bytes


@cache
def migrations() -> Sequence[Migration]:
    """Return all migrations of this version, in order."""
    folder = resources.files("safetyd.extras.postgres") / "migrations"
    return tuple(sorted(map(_read, (file for file in folder.iterdir() if _is_sql(file.name)))))


def migrate(database: Database) -> int:
    """Bring a schema up to date; return how many migrations were applied."""
    with database.transaction() as connection:
        if _applied(connection) == [one[:3] for one in migrations()]:
            return 0
    with database.transaction() as connection:
        connection.execute(
            "SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, database.schema)
        )
        _make_schema(connection, database.schema)
        connection.execute(RECORD)
        missing = list(_missing(connection, database.schema))
        for one in missing:
            connection.execute(one.text)
            connection.execute(
                "INSERT INTO migrations (number, name, sha256) VALUES (%s, %s, %s)", one[:3]
            )
    make_reader(database)
    return len(missing)


def reader_of(schema: str) -> str:
    """Return the name of the read-only role."""
    return f"{schema}_reader"


def reader_sql(schema: str) -> tuple[sql.Composed, sql.Composed]:
    """Return the SQL that creates the role, and the SQL that grants it access."""
    names = {"role": sql.Identifier(reader_of(schema)), "schema": sql.Identifier(schema)}
    return (
        sql.SQL("CREATE ROLE {role} NOLOGIN").format(**names),
        sql.SQL(
            "GRANT USAGE ON SCHEMA {schema} TO {role}; "
            "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}; "
            "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {role}"
        ).format(**names),
    )


def make_reader(database: Database) -> None:
    """Create the read-only role, if permitted; an administrator can do it later."""
    make, permit = reader_sql(database.schema)
    with database.transaction() as connection:
        try:
            with connection.transaction():
                if not has_reader(connection, database.schema):
                    connection.execute(make)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.DuplicateObject):
            pass
        if has_reader(connection, database.schema):
            connection.execute(permit)


def has_reader(connection: Connection, schema: str) -> bool:
    found = connection.execute(
        "SELECT 1 FROM pg_roles WHERE rolname = %s", (reader_of(schema),)
    ).fetchone()
    return found is not None


def _missing(connection: Connection, schema: str) -> Iterator[Migration]:
    applied = {number: (name, digest) for number, name, digest in _applied(connection)}
    known = {one.number: one for one in migrations()}
    if applied.keys() - known.keys():
        raise ExportProblem(
            f"schema {schema} was created by a newer safetyd (migration {max(applied)}, this one "
            f"knows {max(known)}); use that version, or choose another outlets.postgres.schema"
        )
    for number, one in known.items():
        if number not in applied:
            yield one
        elif applied[number] != (one.name, one.sha256):
            raise ExportProblem(
                f"migration {number} of schema {schema} differs from this safetyd's; choose "
                "another outlets.postgres.schema and export everything again"
            )


def _applied(connection: Connection) -> list[tuple[int, str, str]]:
    if connection.execute("SELECT to_regclass('migrations')").fetchone() == (None,):
        return []
    rows = connection.execute("SELECT number, name, sha256 FROM migrations ORDER BY number")
    return [(number, name, digest) for number, name, digest in rows]


def _make_schema(connection: Connection, schema: str) -> None:
    """Create the schema, unless an administrator already created it."""
    there = connection.execute(
        "SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)
    ).fetchone()
    if there is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))


def _is_sql(name: str) -> bool:
    return name.endswith(".sql")


def _read(file: resources.abc.Traversable) -> Migration:
    number, _, name = file.name.removesuffix(".sql").partition("_")
    text = file.read_bytes()
    return Migration(int(number), name, hashlib.sha256(text).hexdigest(), text)
