"""A daemon with a real PostgreSQL that goes down and comes back without delaying decisions."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from safetyd.client import SyncSafety
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import told
from tests.extras.postgres.postgres_store import PostgresStore
from tests.journeys.agents import until
from tests.journeys.people import query
from tests.postgres_server import PostgresServer

pytestmark = [pytest.mark.journey, pytest.mark.usefixtures("measured")]

SECRET = "hunter2-of-guarded"


@pytest.fixture
def down(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """Stop the server and start it again afterwards."""
    postgres.stop()
    yield postgres
    if not postgres.running:
        postgres.start()


@contextmanager
def frozen(server: PostgresServer) -> Iterator[None]:
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


def propose(daemon: RunningDaemon, count: int) -> None:
    with SyncSafety("code", url=daemon.endpoint.bus) as safety:
        for _ in range(count):
            decision = safety.propose("read_file")
            assert decision.allowed
            safety.report(decision.id, ok=True)


def behind(daemon: RunningDaemon) -> int:
    (state,) = query(daemon, "status")["outlets"]
    return int(state["behind"]) if not state["problem"] else -1


@pytest.mark.req("S1.44")
def test_events_reach_postgres_after_any_outage(
    start_daemon: StartDaemon, down: PostgresServer, schema: str, tmp_path: Path
) -> None:
    dsn = tmp_path / "dsn"
    dsn.write_text(f"{down.dsn()} password={SECRET}")
    daemon = start_daemon(f'[outlets.postgres]\ndsn_file = "{dsn}"\nschema = "{schema}"\n')
    propose(daemon, 5)
    until(lambda: behind(daemon) == -1)
    assert "postgres" in told(daemon, "status").stdout.splitlines()[0]
    assert "wrong  postgres " in told(daemon, "doctor").stdout
    with urllib.request.urlopen(f"{daemon.endpoint.web}/metrics") as page:
        assert 'safetyd_outlet_errors_total{outlet="postgres"}' in page.read().decode()

    down.start()
    until(lambda: behind(daemon) == 0)
    with frozen(down):
        propose(daemon, 5)  # decisions do not wait for it
    daemon.kill()
    daemon.start()
    propose(daemon, 5)
    until(lambda: behind(daemon) == 0)

    verified = told(daemon, "outlet", "verify", "--config", str(daemon.config_path))
    assert (verified.returncode, verified.stderr) == (0, "")
    status = json.loads(told(daemon, "outlet", "status", "--json").stdout)
    assert (status["ok"], status["daemon"]["problem"]) == (True, "")
    assert daemon.stop() == 0
    store = PostgresStore(down, schema, daemon.data_dir)
    assert store.loaded_lines() == store.audit_lines()[: len(store.loaded_lines())]
    assert store.one("SELECT count(*) FROM decisions") == 15
    store.database.close()
    assert SECRET not in daemon.log()
