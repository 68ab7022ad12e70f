"""A real PostgreSQL on a Unix socket that a test can kill and restart."""

import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

PATIENCE_S: Final = 60.0
# Written data survives a killed process without a flush.
QUICK: Final = ("fsync=off", "full_page_writes=off", "max_connections=20")
_numbers = count(1)


def binaries() -> Path:
    """Return the folder of initdb and postgres; Debian has one for each version."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=_version)  # noqa: PTH207
    if found:
        return Path(found[-1]).parent
    on_path = shutil.which("postgres")
    if on_path is None:
        pytest.fail("PostgreSQL is missing; run: ./tests/system-packages")
    return Path(on_path).parent


def _version(path: str) -> int:
    return int(Path(path).parts[-3])


class PostgresServer:
    """One cluster. Started by root, it runs as `nobody`."""

    def __init__(self, options: Sequence[str] = QUICK, parent: str | None = None) -> None:
        # Socket paths must be short, and `nobody` cannot read pytest's directories.
        self.directory = Path(tempfile.mkdtemp(prefix="safetyd-pg-", dir=parent))
        self._options = ("listen_addresses=", *options)
        self._data = self.directory / "data"
        self._log = self.directory / "log"
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.directory, nobody.pw_uid, nobody.pw_gid)
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "--no-sync", "-A", "trust", "-U", "owner", "-E", "UTF8", "--locale=C")
        hba = self._data / "pg_hba.conf"
        hba.write_text(f"local all guarded scram-sha-256\n{hba.read_text()}")
        self.start()
        self.execute("CREATE ROLE guarded LOGIN PASSWORD 'hunter2-of-guarded'")

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def dsn(self, user: str = "owner") -> str:
        return f"host={self.directory} user={user} dbname=postgres"

    def execute(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            cursor = connection.execute(query.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = (part for option in self._options for part in ("-c", option))
        command = [str(binaries() / "postgres"), "-D", str(self._data), "-k", str(self.directory)]
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [*command, *options], stdout=log, stderr=log, cwd=self.directory, **self._user
                )
                if self._answers(deadline):
                    return
        raise AssertionError(f"PostgreSQL did not start:\n{self._log.read_text()}")

    def kill(self) -> None:
        """Kill the server, as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGINT)

    def freeze(self) -> None:
        """Freeze all processes of the server."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def remove(self) -> None:
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(PATIENCE_S)

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        of = self._process.pid
        children = Path(f"/proc/{of}/task/{of}/children").read_text().split()
        for pid in (of, *map(int, children)):
            with suppress(ProcessLookupError):  # the process of one connection has ended
                os.kill(pid, number)

    def _answers(self, deadline: float) -> bool:
        assert self._process is not None
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                psycopg.connect(self.dsn()).close()
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return True
        return False

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(binaries() / program), "-D", str(self._data), *arguments]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.directory,
            timeout=PATIENCE_S,
            **self._user,
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests; a test that stops it starts it again."""
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def schema(postgres: PostgresServer) -> str:
    """A new schema."""
    return f"s{next(_numbers)}_{os.getpid()}"
