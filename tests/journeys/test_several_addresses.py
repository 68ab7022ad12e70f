"""Clients that know several addresses of the bus use one that answers."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from safetyd.client import SyncSafety
from tests.conftest import StartDaemon


@pytest.fixture
def silent() -> Iterator[list[str]]:
    """Addresses that accept connections and never say anything, like a frozen node."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        yield [f"nats://127.0.0.1:{server.getsockname()[1]}" for server in servers]


@pytest.mark.journey
def test_operator_and_agent_reach_the_daemon_past_nodes_that_are_frozen_or_gone(
    start_daemon: StartDaemon, silent: list[str]
) -> None:
    daemon = start_daemon()
    with socket.create_server(("127.0.0.1", 0)) as gone:
        gone_url = f"nats://127.0.0.1:{gone.getsockname()[1]}"
    url = ", ".join([*silent, gone_url, daemon.endpoint.bus])

    status = daemon.safetyd("status", "--json", "--url", url)
    same = daemon.safetyd("status", "--json", SAFETYD_URL=url)
    with SyncSafety("code", url=url, data_dir=daemon.data_dir) as safety:
        decision = safety.propose("web_search", text="weather", deadline_s=60)

    assert status.returncode == same.returncode == 0, status.stderr + same.stderr
    assert json.loads(status.stdout)["pid"] == json.loads(same.stdout)["pid"] == daemon.pid
    assert decision.cause != "unavailable"
