"""A connection to PostgreSQL. Errors never contain the address or its password."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from safetyd.extras.postgres.export_problem import ExportProblem

OLDEST: Final = 130_000
# The database address may override these settings. They detect a lost server within a minute.
DEFAULTS: Final = {
    "connect_timeout": "10",
    "application_name": "safetyd",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
# These settings last for one transaction, so that they work with a connection pooler.
BOUNDS: Final = (
    b"SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = '120s'; "
    b"SET LOCAL jit = off"  # compiling takes longer than our queries
)

Connection = psycopg.Connection[tuple[Any, ...]]


class Database:
    """Opens one connection at a time, when it is needed. Each transaction uses safetyd's schema."""

    def __init__(self, dsn: Callable[[], str], schema: str) -> None:
        self._dsn = dsn  # read again for each connection, because the password may have changed
        self.schema = schema
        self._connection: Connection | None = None
        self._using = Lock()
        self._over = False

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Commit the transaction, or raise `ExportProblem` and change nothing."""
        try:
            with self._using, errors_explained():
                connection = self._connected()
                try:
                    with connection.transaction():
                        connection.execute(BOUNDS)
                        connection.execute(
                            sql.SQL("SET LOCAL search_path = {}").format(
                                sql.Identifier(self.schema)
                            )
                        )
                        yield connection
                except psycopg.OperationalError:
                    self.close()  # it may be broken
                    raise
        finally:
            if self._over:
                self.close()

    def hang_up(self) -> None:
        """Abort the query that another thread waits for. That thread closes the connection."""
        self._over, connection = True, self._connection
        with suppress(psycopg.Error, OSError):
            if connection is not None and connection.pgconn.socket >= 0:
                with socket.socket(fileno=os.dup(connection.pgconn.socket)) as own:
                    own.shutdown(socket.SHUT_RDWR)
        if self._using.acquire(blocking=False):  # nobody waits
            self._using.release()
            self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _connected(self) -> Connection:
        if self._over:
            raise ExportProblem("it was cancelled")
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._dsn())
        return self._connection


def connect(dsn: str) -> Connection:
    """Return a connection to a suitable server."""
    given = parts_of(dsn)
    missing = {name: value for name, value in DEFAULTS.items() if not given.get(name)}
    with errors_explained(str(given.get("password") or "")):
        connection = psycopg.connect(
            make_conninfo(dsn, **missing, client_encoding="utf8"), prepare_threshold=None
        )
    problem = _unfit(connection)
    if problem:
        connection.close()
        raise ExportProblem(problem)
    connection.autocommit = True  # transactions are begun and ended by `transaction`
    return connection


def parts_of(dsn: str) -> dict[str, Any]:
    """Return the parts of an address. Replace errors of libpq, which contain the address."""
    try:
        given = dict(conninfo_to_dict(dsn))
    except psycopg.Error:
        given = {}
    # If a password contains an @, the rest of it would be used as the server's name.
    if not given or "@" in str(given.get("host") or ""):
        raise ExportProblem(
            "the file of outlets.postgres.dsn_file does not contain a database address, "
            "such as postgresql://safetyd:PASSWORD@db.example/safetyd?sslmode=verify-full, with "
            "%40 for an @ in the password"
        ) from None
    return given


def _unfit(connection: Connection) -> str:
    version = connection.info.server_version
    if version < OLDEST:
        return f"PostgreSQL {version // 10_000} is too old; it must be 13 or newer"
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        return f"the database's encoding is {encoding}; it must be UTF8: see `createdb -E`"
    return ""


@contextmanager
def errors_explained(password: str = "") -> Iterator[None]:
    """Turn errors of PostgreSQL and the connection into `ExportProblem`."""
    try:
        yield
    except psycopg.Error as exc:
        said = words_of(exc)
        raise ExportProblem(said.replace(password, "***") if password else said) from None


def words_of(exc: psycopg.Error) -> str:
    """Return the error without the row, which contains text of agents."""
    if exc.diag.message_primary:
        return f"PostgreSQL says: {exc.diag.message_primary} ({exc.sqlstate})"
    lines = (line.strip() for line in str(exc).splitlines())
    return "; ".join(line for line in lines if line) or type(exc).__name__
