"""Codex confirms each call over MCP, so that a call whose hook was killed does not run."""

import json
import tomllib
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from safetyd.hosts import codex_confirmation, toml_block
from safetyd.hosts.codex_confirmation import PATH, SERVER, TOOL
from safetyd.hosts.telemetry_settings import TelemetryTarget
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.hook_process import Ran, bash, hook, start_hook
from tests.hosts.telemetry_sender import token_of
from tests.journeys.agents import until

pytestmark = pytest.mark.journey

WAIT_S = 60.0


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon("[hosts]\nwait_s = 60\n")


def posted(daemon: RunningDaemon, message: object, token: str) -> Any:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(
        f"{daemon.endpoint.web}{PATH}", json.dumps(message).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=WAIT_S) as response:
        return json.loads(response.read() or b"null")


def called(daemon: RunningDaemon, method: str, params: object = None) -> Any:
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}
    reply = posted(daemon, message, token_of(daemon, "codex"))
    assert (reply["jsonrpc"], reply["id"]) == ("2.0", 7)
    return reply["result"]


def confirmed(daemon: RunningDaemon, call: str, session: str = "s1") -> Ran:
    """Return what Codex receives instead of the output of a hook."""
    arguments = {"session_id": session, "tool_use_id": call}
    result = called(daemon, "tools/call", {"name": TOOL, "arguments": arguments})
    (content,) = result["content"]
    assert "isError" not in result  # Codex runs the call after an error
    return Ran(content["text"], "", 0)


def ask(daemon: RunningDaemon, command: str, call: str) -> Ran:
    return hook(daemon.endpoint.hook, bash(command, call), dialect="codex", agent="codex")


def test_a_call_is_confirmed_only_if_it_was_allowed(daemon: RunningDaemon) -> None:
    assert ask(daemon, "ls", "allowed").passes
    assert ask(daemon, "rm -rf ~", "refused").refuses

    assert confirmed(daemon, "allowed") == Ran("", "", 0)
    assert "not allowed" in confirmed(daemon, "refused").words
    assert confirmed(daemon, "allowed", "another session").refuses


def test_a_call_whose_hook_never_asked_is_refused(daemon: RunningDaemon) -> None:
    assert "killed" in confirmed(daemon, "never").words


def test_a_call_waits_for_the_answer_of_its_operator(daemon: RunningDaemon) -> None:
    call = bash("git push origin waiting", "waits")
    with ThreadPoolExecutor() as pool:
        early = pool.submit(confirmed, daemon, "waits")
        waiting = start_hook(daemon.endpoint.hook, call, dialect="codex", agent="codex")

        def pending() -> list[str]:
            listed = json.loads(daemon.safetyd("list", "--json").stdout)
            return [request["id"] for request in listed["requests"]]

        until(pending)
        assert not early.done()
        daemon.safetyd("approve", *pending())
        assert waiting.communicate(timeout=WAIT_S)[0] == ""
        assert early.result() == Ran("", "", 0)


def test_a_call_whose_hook_is_killed_while_it_waits_is_refused(daemon: RunningDaemon) -> None:
    call = bash("git push origin killed", "killed")
    waiting = start_hook(daemon.endpoint.hook, call, dialect="codex", agent="codex")
    until(lambda: "push origin killed" in daemon.safetyd("list", "--json").stdout)

    waiting.kill()
    waiting.communicate()

    assert "not allowed" in confirmed(daemon, "killed").words


def test_the_model_does_not_see_the_tool_and_only_an_agent_with_a_token_is_served(
    daemon: RunningDaemon,
) -> None:
    (tool,) = called(daemon, "tools/list")["tools"]
    assert tool["name"] == TOOL
    assert "model" not in tool["_meta"]["ui"]["visibility"]
    begun = called(daemon, "initialize", {"protocolVersion": "2025-06-18"})
    assert begun["protocolVersion"] == "2025-06-18"
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert posted(daemon, notification, token_of(daemon, "codex")) is None
    for token in ("", "otlp.codex.0"):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            posted(daemon, notification, token)


def test_the_settings_of_codex_have_both_hooks_and_none_when_unprotected(
    daemon: RunningDaemon, tmp_path: Path
) -> None:
    settings = tmp_path / ".codex" / "config.toml"
    settings.parent.mkdir()
    settings.write_text('model = "gpt-5"\n')

    def run(*words: str) -> None:
        daemon.safetyd(*words, HOME=str(tmp_path), PATH="/usr/bin:/bin")

    run("protect", "codex", "--yes")
    protected = settings.read_text()
    run("protect", "codex", "--yes")
    assert settings.read_text() == protected
    written = tomllib.loads(protected)
    server = written["mcp_servers"][SERVER]
    assert server["url"] == f"{daemon.endpoint.web}{PATH}"
    assert token_of(daemon, "codex") in server["http_headers"]["Authorization"]
    kinds = [hook["type"] for group in written["hooks"]["PreToolUse"] for hook in group["hooks"]]
    assert kinds == ["command", "mcp_tool"]

    run("unprotect", "codex", "--yes")
    assert settings.read_text() == 'model = "gpt-5"\n'


def test_a_changed_address_replaces_the_old_one_and_hashes_stay_last() -> None:
    hashes = '[hooks.state."key"]\ntrusted_hash = "sha256:1"'
    text = toml_block.added("", f"[[hooks.PreToolUse]]\n\n{hashes}")

    old = codex_confirmation.added(text, TelemetryTarget("http://old", "token"))
    new = codex_confirmation.added(old, TelemetryTarget("http://new", "token"))

    assert codex_confirmation.is_on(new)
    assert "http://old" not in new
    assert toml_block.content(new).endswith(hashes)
    assert codex_confirmation.added(new, TelemetryTarget("http://new", "token")) == new
    assert not codex_confirmation.is_on(codex_confirmation.without(new))
