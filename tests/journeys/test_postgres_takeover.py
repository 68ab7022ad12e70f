"""Events reach PostgreSQL once each, whichever daemon writes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import told
from tests.journeys.agents import Agent, History, until
from tests.journeys.people import query
from tests.journeys.test_second_daemon import Shared
from tests.postgres_server import PostgresServer

SECRET = "hunter2-of-two-daemons"


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    shared = Shared(tmp_path)
    yield shared
    shared.bus.stop()


def outlet(daemon: RunningDaemon, shared: Shared) -> dict[str, Any]:
    (state,) = query(daemon, "status", key=shared.operator)["outlets"]
    return dict(state)


@pytest.mark.journey
def test_the_next_writer_continues_the_export_where_the_last_one_ended(
    start_daemon: StartDaemon, shared: Shared, postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    dsn = tmp_path / "dsn"
    dsn.write_text(f"{postgres.dsn()} password={SECRET}")
    table = f'[outlets.postgres]\ndsn_file = "{dsn}"\nschema = "{schema}"\n'
    first = start_daemon(shared.config + table)
    second = start_daemon(shared.config + table)
    agent = Agent("code", shared.bus.url, history := History(), shared.agent)

    with agent.at_work():
        history.until_allowed()
        until(lambda: outlet(first, shared)["seq"])
        first.kill()
        history.until_allowed()
    until(lambda: outlet(second, shared)["behind"] == 0)
    assert outlet(second, shared)["problem"] == ""

    verified = told(second, "outlet", "verify", "--config", str(second.config_path), "--json")
    assert (verified.returncode, verified.stderr) == (0, "")
    assert json.loads(verified.stdout)["ok"]
