"""Hooks over HTTP: the same decisions as on the socket, and never an error that lets a call run."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from safetyd.hosts.hook_answer import is_refusal
from safetyd.web.hook_routes import HTTP_DIALECTS
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.hook_process import PROJECT, bash
from tests.hosts.test_hook_socket import pending
from tests.journeys.agents import until
from tests.journeys.http_agent import new_token

pytestmark = pytest.mark.journey


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon('[hosts]\nwait_s = 1\nanswer_prompts = "all"\n')


@pytest.fixture(scope="module")
def token(daemon: RunningDaemon) -> str:
    return new_token(daemon, "add", "web")


def post(
    daemon: RunningDaemon, dialect: str, event: object, token: str = "", **headers: str
) -> tuple[int, str]:
    body = event if isinstance(event, bytes) else json.dumps(event).encode()
    if token:
        headers["Authorization"] = f"Bearer {token}"
    url = f"{daemon.endpoint.web}/hooks/v1/{dialect}"
    request = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode()


def shell(dialect: str, command: str, name: str = "") -> dict[str, object]:
    if dialect == "copilot":
        asked = {"toolArgs": {"command": command}}
        return {"sessionId": "s1", "cwd": str(PROJECT), "toolName": "bash", **asked}
    tool = {"gemini": "run_shell_command"}.get(dialect, "Bash")
    return {**bash(command, f"{dialect}-{command}"), "tool_name": tool, "hook_event_name": name}


def refused(heard: tuple[int, str]) -> bool:
    return heard[0] == 200 and is_refusal(heard[1], "", 0)


@pytest.mark.parametrize("dialect", sorted(HTTP_DIALECTS))
def test_a_harmless_call_gets_an_empty_object_and_a_destructive_one_a_refusal(
    daemon: RunningDaemon, token: str, dialect: str
) -> None:
    assert post(daemon, dialect, shell(dialect, "touch a"), token) == (200, "{}\n")
    assert refused(post(daemon, dialect, shell(dialect, "rm -rf ~"), token))


@pytest.mark.parametrize(
    "event", [b"", b"[]", b"{}", b'{"tool_name": 5}', b"\xff", b'{"hook_event_name": "Other"}']
)
def test_what_cannot_be_read_is_refused(daemon: RunningDaemon, token: str, event: bytes) -> None:
    assert refused(post(daemon, "claude", event, token))


def test_a_call_without_a_valid_token_or_from_another_site_is_refused_with_status_200(
    daemon: RunningDaemon, token: str
) -> None:
    call = shell("claude", "touch a")

    assert refused(post(daemon, "claude", call))
    assert refused(post(daemon, "claude", call, "web.guessed"))
    assert refused(post(daemon, "claude", call, token, Origin="http://example.org"))
    assert post(daemon, "claude", call, token, Host="example.org")[0] == 403
    assert post(daemon, "opencode", call, token)[0] == 404


def test_a_call_longer_than_other_requests_is_answered(daemon: RunningDaemon, token: str) -> None:
    event = {**shell("claude", "touch a"), "other": "x" * 1024 * 1024}

    assert post(daemon, "claude", event, token) == (200, "{}\n")
    assert refused(post(daemon, "claude", b" " * (8 * 1024 * 1024 + 1), token))


def test_a_question_is_answered_and_one_without_a_token_stays_with_the_user(
    daemon: RunningDaemon, token: str
) -> None:
    question = shell("claude", "touch a", "PermissionRequest")

    answer = json.loads(post(daemon, "claude", question, token)[1])["hookSpecificOutput"]

    assert answer["decision"] == {"behavior": "allow"}
    assert post(daemon, "claude", question) == (200, "{}\n")


def test_a_push_is_approved_and_its_result_reported(daemon: RunningDaemon, token: str) -> None:
    push = shell("claude", "git push origin main", "PreToolUse")
    held = post(daemon, "claude", push, token)
    (request,) = pending(daemon, "web")
    assert refused(held)
    assert request in held[1]
    daemon.safetyd("approve", request)

    allowed = json.loads(post(daemon, "claude", {**push, "tool_use_id": "again"}, token)[1])
    report = {**push, "tool_use_id": "again", "hook_event_name": "PostToolUse"}
    reported = post(daemon, "claude", report, token)

    assert allowed["hookSpecificOutput"]["permissionDecision"] == "allow"
    assert reported == (200, "{}\n")
    rows = json.loads(daemon.safetyd("decisions", "--text", "git push", "--json").stdout)["rows"]
    (id_,) = (row["id"] for row in rows if row["decision"] == "allow")

    def outcomes() -> list[Any]:
        return list(json.loads(daemon.safetyd("explain", id_, "--json").stdout)["outcomes"])

    until(outcomes)
    assert [outcome["ok"] for outcome in outcomes()] == [True]
