"""Claude Code obeys the tool `approve` of `safetyd mcp`, and calls tools through the proxy."""

import json
import re
import sys
from pathlib import Path
from typing import Final

import pytest

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation, ToolCall
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.mcp.proxy_process import NOTES, proxy_command
from tests.hosts.real.host_programs import PROGRAMS, Program
from tests.hosts.real.operator_commands import run_safetyd
from tests.hosts.real.real_hosts import HostHome

pytestmark = pytest.mark.hosts

CLAUDE: Final = [program for program in PROGRAMS if program.host == "claude-code"]
AT_ONCE: Final = ("--wait-s", "0")
# Otherwise it ends with an error if the server has not started within some seconds.
PATIENT: Final = {"MCP_CONNECTION_NONBLOCKING": "0"}
CONNECTED: Final = ToolCall("WaitForMcpServers", {})  # some versions connect in the background

_REQUEST: Final = re.compile(r"req_\w+")


class McpSession:
    """What Claude Code did with an MCP server, while the daemon ran and after it had stopped."""

    def __init__(self, home: HostHome, daemon: RunningDaemon, command: list[str]) -> None:
        self.home = home
        self.results: dict[str, str] = {}
        self.seen: list[bool] = []
        self._daemon = daemon
        self._servers = home.project / "servers.json"
        self._servers.write_text(json.dumps({"mcpServers": self._named(command)}))

    def talk(self, conversation: Conversation, *options: str) -> None:
        servers = ("--mcp-config", str(self._servers), "--strict-mcp-config")
        self.home.talk(conversation, *servers, *options)

    def approve(self, said: str) -> None:
        """Approve the request that a result names."""
        (request,) = _REQUEST.findall(said)[:1]
        run_safetyd(self.home, self._daemon, "approve", request)

    def _named(self, command: list[str]) -> dict[str, object]:
        start = {"command": command[0], "args": command[1:]}
        variables = {"SAFETYD_DATA_DIR": str(self._daemon.data_dir)}
        name = "notes" if "proxy" in command else "safetyd"
        return {name: {"type": "stdio", **start, "env": variables}}


@pytest.fixture(params=CLAUDE, ids=lambda program: program.name)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> HostHome:
    program: Program = request.param
    return HostHome(program, tmp_path / "host")


def test_the_tool_approve_decides_what_runs(home: HostHome, start_daemon: StartDaemon) -> None:
    daemon = start_daemon("profile = 'coding'\n")
    variables = {**home.headless.variables, **PATIENT}
    home.headless = home.headless._replace(arguments=("-p", "go"), variables=variables)
    command = [sys.executable, "-m", "safetyd", "mcp", "--agent", "claude-code", *AT_ONCE]
    session = McpSession(home, daemon, command)
    shell, results = home.headless.shell, session.results

    def guarded() -> Conversation:
        results["harmless"] = yield shell("touch harmless")
        results["push"] = yield shell("git push origin main")
        session.seen.append(home.pushed())
        session.approve(results["push"])
        results["approved"] = yield shell("git push origin main")
        session.seen.append(home.pushed())
        daemon.stop()
        results["away"] = yield shell("touch away")

    with home.with_model():
        session.talk(guarded(), "--permission-prompt-tool", "mcp__safetyd__approve")

    assert (home.project / "harmless").exists(), home.output
    assert session.seen == [False, True], results
    assert not (home.project / "away").exists()
    assert "safetyd" in results["away"]


def test_a_tool_behind_the_proxy_runs_once_it_is_approved(
    home: HostHome, start_daemon: StartDaemon
) -> None:
    daemon = start_daemon()
    notes = home.project / "notes"
    server = [sys.executable, str(NOTES), str(notes)]
    session = McpSession(home, daemon, proxy_command(server, "--agent", "claude-code", *AT_ONCE))
    results = session.results

    def guarded() -> Conversation:
        tea = ToolCall("mcp__notes__add_note", {"text": "tea"})
        results["connected"] = yield CONNECTED
        results["read"] = yield ToolCall("mcp__notes__read_notes", {})
        results["pending"] = yield tea
        session.seen.append(notes.exists())
        session.approve(results["pending"])
        results["approved"] = yield tea
        results["again"] = yield tea
        daemon.stop()
        results["away"] = yield ToolCall("mcp__notes__read_notes", {})

    with home.with_model():
        session.talk(guarded())

    assert session.seen == [False], results
    assert notes.read_text() == "tea\n"
    assert "added tea" in results["approved"]
    assert _REQUEST.search(results["again"])
    assert "not allowed" in results["away"]
