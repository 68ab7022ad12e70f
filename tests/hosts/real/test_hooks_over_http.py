"""Claude Code with hooks over HTTP: safetyd's answers hold, and those of other programs may not."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Final

import pytest

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.real.host_programs import PROGRAMS, Program
from tests.hosts.real.operator_commands import CONFIG
from tests.hosts.real.real_hosts import HostHome
from tests.journeys.http_agent import new_token

pytestmark = pytest.mark.hosts

CLAUDE: Final = [program for program in PROGRAMS if program.host == "claude-code"]


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon(CONFIG)


@pytest.fixture(scope="module")
def token(daemon: RunningDaemon) -> str:
    return new_token(daemon, "add", "web")


class _Empty(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


@contextmanager
def empty_server() -> Iterator[str]:
    """Serve empty answers, and return the address."""
    with HTTPServer(("127.0.0.1", 0), _Empty) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def use(home: HostHome, web: str, token: str) -> None:
    hook = {
        "type": "http",
        "url": f"{web}/hooks/v1/claude",
        "headers": {"Authorization": f"Bearer {token}"},
        "onFailure": "block",
    }
    settings = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}}
    (home.home / ".claude/settings.json").write_text(json.dumps(settings))


@pytest.mark.parametrize("program", CLAUDE, ids=lambda program: program.name)
def test_calls_are_answered_over_http(
    program: Program,
    daemon: RunningDaemon,
    token: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = HostHome(program, tmp_path_factory.mktemp("host"))
    results: list[str] = []

    def calls() -> Conversation:
        results.append((yield home.headless.shell("touch harmless")))
        results.append((yield home.headless.shell("touch destructive; safetyd approve x")))

    with home.with_model():
        use(home, daemon.endpoint.web, token)
        home.talk(calls())
        use(home, daemon.endpoint.web, "web.guessed")
        home.talk(_touch(home, "without-token"))

    assert (home.project / "harmless").exists(), results
    assert not (home.project / "destructive").exists()
    assert "safetyd: not" in results[1]
    assert not (home.project / "without-token").exists()


@pytest.mark.parametrize("program", CLAUDE, ids=lambda program: program.name)
def test_an_empty_answer_of_another_program_lets_calls_run(
    program: Program, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = HostHome(program, tmp_path_factory.mktemp("host"))

    with home.with_model(), empty_server() as web:
        use(home, web, "none")
        home.talk(_touch(home, "hole"))

    assert (home.project / "hole").exists()


def _touch(home: HostHome, name: str) -> Conversation:
    yield home.headless.shell(f"touch {name}")
