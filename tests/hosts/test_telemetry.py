"""Telemetry of hosts and a real daemon: money, tools that ran unasked, and what is not stored."""

import json
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from safetyd.core.events.decision_events import Reported
from safetyd.core.events.guard_events import HostUnasked, Paused
from safetyd.core.messages.telemetry import Outcome
from safetyd.hosts.otlp_records import ModelCall, ToolRun, found_in
from safetyd.web.otlp_routes import MAX_BODY_BYTES
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.hook_process import bash, hook
from tests.hosts.recorded_telemetry import CANARY, Sent, recorded, sent_now
from tests.hosts.telemetry_sender import Answered, TelemetrySender, token_of
from tests.journeys.agents import until
from tests.journeys.audit_record import events
from tests.journeys.http_agent import new_token

pytestmark = pytest.mark.journey

CLAUDE, CODEX, GEMINI = "claude-code-2.1.326", "codex-0.169.0", "gemini-0.61.0"
NAMES = (CLAUDE, CODEX, GEMINI, "copilot-1.0.102")
TAKEN = Answered(200, {})


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon('[hosts]\nunasked = "tell"\nwait_s = 0\n')


def send(daemon: RunningDaemon, agent: str, sent: list[Sent]) -> None:
    sender = TelemetrySender(daemon, agent)
    for one in sent:
        assert sender.send(one.signal, one.content) == TAKEN


def calls_in(name: str) -> list[ModelCall]:
    found = (one for sent in recorded(name) for one in found_in(sent.signal, sent.content))  # type: ignore[arg-type]
    return [one for one in found if isinstance(one, ModelCall)]


def runs_in(sent: list[Sent]) -> list[ToolRun]:
    found = (one for each in sent for one in found_in(each.signal, each.content))  # type: ignore[arg-type]
    return [one for one in found if isinstance(one, ToolRun)]


def outcomes(daemon: RunningDaemon, agent: str) -> list[Outcome]:
    said = (
        e.telemetry for e in events(daemon.data_dir) if isinstance(e, Reported) and e.agent == agent
    )
    return [one for one in said if isinstance(one, Outcome) and one.action_type == "model_call"]


def spent(daemon: RunningDaemon, agent: str) -> float:
    told: Any = json.loads(daemon.safetyd("money", "--json").stdout)
    return sum(float(row["spent"]) for row in told["agents"] if row["id"] == agent)


def unasked(daemon: RunningDaemon, agent: str) -> list[HostUnasked]:
    found = (e for e in events(daemon.data_dir) if isinstance(e, HostUnasked))
    return [event for event in found if event.agent == agent]


@pytest.mark.parametrize("name", NAMES)
def test_the_cost_of_model_calls_counts_once(daemon: RunningDaemon, name: str) -> None:
    agent, sent = f"cost-{name.partition('-')[0]}", sent_now(name)
    send(daemon, agent, sent)
    send(daemon, agent, sent)
    send(daemon, agent, [])

    until(lambda: len(outcomes(daemon, agent)) == len(calls_in(name)))
    until(lambda: spent(daemon, agent) > 0)
    send(daemon, agent, sent)
    assert len(outcomes(daemon, agent)) == len(calls_in(name))
    if all(call.cost_usd for call in calls_in(name)):
        whole = sum(call.cost_usd or 0.0 for call in calls_in(name))
        assert spent(daemon, agent) == pytest.approx(whole)


def test_a_used_up_session_budget_blocks_the_next_tool_call_with_words_for_the_model(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon('[budget]\nsession_usd = 0.0002\n[hosts]\nwait_s = 0\nunasked = "tell"\n')
    session, socket = calls_in(CLAUDE)[0].session, daemon.endpoint.hook
    assert hook(socket, {**bash("ls", "before"), "session_id": session}).passes

    send(daemon, "claude-code", sent_now(CLAUDE))
    until(lambda: spent(daemon, "claude-code") > 0.0002)

    refused = hook(socket, {**bash("ls", "after"), "session_id": session})
    assert refused.refuses
    assert "budget" in refused.words
    assert hook(socket, {**bash("ls", "elsewhere"), "session_id": "another"}).refuses  # paused


def test_money_can_be_ignored(start_daemon: StartDaemon) -> None:
    daemon = start_daemon('[hosts]\nmoney = "ignore"\nunasked = "tell"\n')

    send(daemon, "claude-code", sent_now(CLAUDE))

    until(lambda: unasked(daemon, "claude-code"))  # written after what came with it
    assert outcomes(daemon, "claude-code") == []


def test_no_word_of_a_prompt_is_stored_logged_or_shown(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("")
    for name in NAMES:
        send(daemon, name.partition("-")[0], sent_now(name))
        broken = sent_now(name)[-1].content[:-1]
        answer = TelemetrySender(daemon, "broken").send("logs", broken)
        assert answer.status == 400
        assert CANARY not in json.dumps(answer.content)
    until(lambda: unasked(daemon, "codex"))

    with urllib.request.urlopen(f"{daemon.endpoint.web}/metrics") as response:
        metrics = response.read()
    daemon.safetyd("money", "--json")
    daemon.stop()
    files = [path for path in daemon.data_dir.rglob("*") if path.is_file()]
    assert len(files) > 10
    for content in (metrics, daemon.log().encode(), *(path.read_bytes() for path in files)):
        assert CANARY.encode() not in content


@pytest.mark.parametrize(("name", "tools"), [(CLAUDE, 1), (CODEX, 3), (GEMINI, 1)])
def test_a_tool_that_ran_unasked_is_told_and_pauses_the_agent(
    start_daemon: StartDaemon, name: str, tools: int
) -> None:
    daemon, agent = start_daemon(""), "protected"
    sent = sent_now(name)

    send(daemon, agent, sent)

    until(lambda: sum(event.calls for event in unasked(daemon, agent)) == tools)
    assert any(isinstance(e, Paused) and e.agent == agent for e in events(daemon.data_dir))
    assert hook(daemon.endpoint.hook, bash("ls"), agent=agent).refuses
    assert "HOST_UNASKED" in daemon.log()


def ask_about_tools(daemon: RunningDaemon, name: str, agent: str, command: str) -> list[Sent]:
    """Ask about each tool in the telemetry of a program; return that telemetry."""
    dialect, sent = name.partition("-")[0], sent_now(name)
    for run in runs_in(sent):
        asked = {**bash(command, run.call), "session_id": run.session, "tool_name": run.tool}
        if not run.call:
            del asked["tool_use_id"]
        hook(daemon.endpoint.hook, asked, dialect=dialect, agent=agent)
    return sent


def test_tools_that_were_allowed_are_not_told(daemon: RunningDaemon) -> None:
    for name in (CLAUDE, GEMINI):
        agent = f"asks-{name}".replace(".", "-")
        send(daemon, agent, ask_about_tools(daemon, name, agent, "ls"))
    send(daemon, "asks-not", sent_now(CLAUDE))

    until(lambda: unasked(daemon, "asks-not"))  # the last of them all
    assert all(not unasked(daemon, f"asks-{name}".replace(".", "-")) for name in (CLAUDE, GEMINI))


@pytest.mark.parametrize("name", [CLAUDE, GEMINI])
def test_a_refused_call_that_ran_is_told_within_two_seconds(
    start_daemon: StartDaemon, name: str
) -> None:
    daemon, agent = start_daemon("[hosts]\nwait_s = 0\n"), "refused"
    sent = ask_about_tools(daemon, name, agent, "rm -rf ~")

    received = datetime.now(UTC)
    send(daemon, agent, sent)
    until(lambda: any(isinstance(e, Paused) for e in events(daemon.data_dir)))

    found = [e for e in events(daemon.data_dir) if isinstance(e, HostUnasked | Paused)]
    assert all(event.at - received < timedelta(seconds=2) for event in found)
    (event,) = unasked(daemon, agent)
    assert event.refused == event.calls


def test_an_agent_with_a_token_of_its_own_sends_telemetry_and_is_not_expected_to_ask(
    daemon: RunningDaemon,
) -> None:
    own = TelemetrySender(daemon, "", new_token(daemon, "add", "keyed"))
    for sent in sent_now(CLAUDE):
        assert own.send(sent.signal, sent.content) == TAKEN
    send(daemon, "keyed-not", sent_now(CLAUDE))

    until(lambda: unasked(daemon, "keyed-not"))
    until(lambda: spent(daemon, "keyed") > 0)
    assert unasked(daemon, "keyed") == []


def test_only_a_token_for_telemetry_is_taken_and_only_for_that(
    daemon: RunningDaemon,
) -> None:
    token = token_of(daemon, "claude-code")
    wrong = (token[:-1], token.replace("claude-code", "other"), "", "otlp..", "otlp.é.0")

    for each in wrong[:3]:
        assert TelemetrySender(daemon, "", each).send("logs", b"{}").status == 401
    assert TelemetrySender(daemon, "", token).send_with_path("logs", b"{}") == TAKEN
    proposal = urllib.request.Request(
        f"{daemon.endpoint.web}/api/v1/propose/claude-code",
        b'{"type": "read_file"}',
        {"Authorization": f"Bearer {token}"},
    )
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(proposal)


def test_without_anonymous_agents_an_unknown_name_is_not_served(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("[bus]\nopen_agents = false\n")
    new_token(daemon, "add", "known")

    assert TelemetrySender(daemon, "unknown").send("logs", b"{}").status == 401
    assert TelemetrySender(daemon, "known").send("logs", b"{}") == TAKEN


def test_json_is_taken_also_compressed_and_protobuf_is_refused_with_the_setting(
    daemon: RunningDaemon,
) -> None:
    sender = TelemetrySender(daemon, "formats")
    protobuf = sender.send("logs", b"\n\x00", "application/x-protobuf")

    assert sender.send("logs", sent_now(CODEX)[0].content, packed=True) == TAKEN
    assert sender.send("metrics", b"{}") == TAKEN
    assert sender.send("profiles", b"{}").status == 404
    assert protobuf.status == 415
    assert "OTEL_EXPORTER_OTLP_PROTOCOL=http/json" in protobuf.content["error"]


def test_a_body_is_bounded_also_when_it_is_decompressed(daemon: RunningDaemon) -> None:
    sender = TelemetrySender(daemon, "large")
    fits = b"{}" + b" " * (MAX_BODY_BYTES - 2)

    assert sender.send("logs", fits, packed=True) == TAKEN
    assert sender.send("logs", fits + b" ", packed=True).status == 413
    assert sender.send("logs", fits + b" ").status == 413
    assert sender.send("logs", b"not gzip").status == 400


def test_an_agent_that_sends_too_much_must_wait(daemon: RunningDaemon) -> None:
    sender = TelemetrySender(daemon, "flood")
    large = b"{}" + b" " * (MAX_BODY_BYTES - 2)

    answers = [sender.send("logs", large, packed=True).status for _ in range(8)]

    assert answers[0] == 200
    assert 429 in answers
    assert TelemetrySender(daemon, "other").send("logs", b"{}") == TAKEN
