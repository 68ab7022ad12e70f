"""`safetyd health` answers for container engines: 0 if the daemon is alive, else 1."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from safetyd.host import Endpoint, write_endpoint
from tests.conftest import RunningDaemon, StartDaemon, safetyd

pytestmark = pytest.mark.usefixtures("measured")


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> RunningDaemon:
    """A daemon that listens as in a container."""
    return start_daemon('[web]\nhost = "0.0.0.0"\nport = 0\n')


def health(daemon: RunningDaemon) -> tuple[int, int, int]:
    commands = (("health",), ("health", "--ready"), ("health", "--json"))
    codes = [daemon.safetyd(*command).returncode for command in commands]
    return codes[0], codes[1], codes[2]


def test_a_running_daemon_is_healthy_and_a_stopped_or_killed_one_is_not(
    daemon: RunningDaemon,
) -> None:
    while_running = health(daemon)
    daemon.kill()
    after_the_kill = health(daemon)
    daemon.start()
    again = health(daemon)
    daemon.stop()

    assert (while_running, after_the_kill, again) == ((0, 0, 0), (1, 1, 1), (0, 0, 0))
    assert health(daemon) == (1, 1, 1)


@contextmanager
def answering(status: int) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 200)
            self.end_headers()
            self.wfile.write(b"the disk is full\n")

        def log_message(self, *_about: object) -> None:
            """Write no log."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_reason_is_printed_if_proposals_cannot_be_answered(tmp_path: Path) -> None:
    with answering(503) as web:
        write_endpoint(tmp_path, Endpoint(bus="", web=web, pid=1, version="1"))
        where = {"SAFETYD_DATA_DIR": str(tmp_path)}
        alive, ready = safetyd("health", **where), safetyd("health", "--ready", "--json", **where)

    answer = json.loads(ready.stdout)
    assert (alive.returncode, ready.returncode, answer["code"]) == (0, 1, "unhealthy")
    assert "the disk is full" in answer["error"]
