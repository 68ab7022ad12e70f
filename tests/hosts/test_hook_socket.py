"""Hooks and a real daemon: what may run, what waits for an operator, and what is reported."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import pytest

from safetyd.core.events.decision_events import Decided, Reported
from safetyd.core.messages.telemetry import Outcome
from safetyd.hosts.hook_event import Dialect
from tests.checkout import ROOT
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.hook_process import Ran, bash, hook, start_hook
from tests.journeys.agents import until
from tests.journeys.audit_record import events
from tests.journeys.http_agent import new_token

pytestmark = pytest.mark.journey

CONFIG = """
[hosts]
wait_s = 2
"""


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon(CONFIG)


def pending(daemon: RunningDaemon, agent: str) -> list[str]:
    listed = json.loads(daemon.safetyd("list", "--agent", agent, "--json").stdout)
    return [request["id"] for request in listed["requests"]]


def test_harmless_calls_run_and_dangerous_ones_do_not(daemon: RunningDaemon) -> None:
    socket = daemon.endpoint.hook

    assert hook(socket, bash("pytest -q && git commit -am wip")) == Ran("", "", 0)
    assert "gate.shell:irreversible" in hook(socket, bash("rm -rf ~")).words
    read = {"tool_name": "Read", "tool_input": {"file_path": "/home/me/project/a.py"}}
    assert hook(socket, read).passes
    keys = {
        "tool_name": "Read",
        "tool_input": {"file_path": str(daemon.data_dir / "keys/operator.nk")},
    }
    assert hook(socket, keys).refuses
    assert hook(socket, {"tool_name": "Brew", "tool_input": {"what": "tea"}}).refuses


@pytest.fixture
def lasting_path() -> Iterator[Path]:
    """A folder that is not for temporary files, in which every agent may write."""
    (ROOT / "dist").mkdir(exist_ok=True)
    with TemporaryDirectory(dir=ROOT / "dist") as place:
        yield Path(place)


def test_a_host_works_in_its_own_repository_whatever_the_default_project_is(
    start_daemon: StartDaemon, lasting_path: Path
) -> None:
    safetyd, shop, docs = (lasting_path / name for name in ("safetyd", "shop", "shop/docs"))
    for root in (safetyd, shop):
        (root / ".git").mkdir(parents=True)
    docs.mkdir()
    project = f'[projects.safetyd]\nroot = "{safetyd}"\nagents = ["claude-code"]\ndefault = true\n'
    daemon = start_daemon(f'profile = "coding"\n{CONFIG}{project}')

    def edit(path: Path, cwd: Path = docs) -> Ran:
        given = {"file_path": str(path), "old_string": "a", "new_string": "b"}
        call = {"tool_name": "Edit", "tool_input": given, "cwd": str(cwd)}
        return hook(daemon.endpoint.hook, call)

    assert edit(shop / "cart.py").passes
    assert edit(safetyd / "README.md").refuses
    assert edit(shop / "cart.py", safetyd).refuses
    asked = daemon.safetyd("list", "--agent", "claude-code", "--json").stdout
    assert all(f"is outside the project folder {root}" in asked for root in (shop, safetyd))
    assert daemon.safetyd("check", "code", "read_file", "--path", str(shop / "a")).returncode == 3
    named = daemon.safetyd("check", "code", "read_file", "--project", "(none)")
    assert "Unknown project" in named.stdout


def test_the_model_is_never_given_a_command_for_operators(daemon: RunningDaemon) -> None:
    for command in ("git push origin main", "rm -rf ~", "safetyd approve x", "unknown-program"):
        assert "`safetyd" not in hook(daemon.endpoint.hook, bash(command)).words


def test_a_call_that_needs_approval_is_refused_with_the_request_and_runs_once_approved(
    daemon: RunningDaemon,
) -> None:
    socket, call = daemon.endpoint.hook, bash("git push origin asked", "toolu_1")

    refused = hook(socket, call, agent="asking")
    (request,) = pending(daemon, "asking")
    assert request in refused.words
    daemon.safetyd("approve", request)
    again = hook(socket, {**call, "tool_use_id": "toolu_2"}, agent="asking")
    once_more = hook(socket, {**call, "tool_use_id": "toolu_3"}, agent="asking")

    assert json.loads(again.stdout)["hookSpecificOutput"]["permissionDecision"] == "allow"
    assert once_more.refuses


def test_a_call_that_is_answered_while_it_waits_runs_at_once(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("[hosts]\nwait_s = 60\n")
    waiting = start_hook(daemon.endpoint.hook, bash("git push origin waiting"))
    until(lambda: pending(daemon, "claude-code"))

    daemon.safetyd("approve", *pending(daemon, "claude-code"))

    out, _ = waiting.communicate(timeout=60)
    assert json.loads(out)["hookSpecificOutput"]["permissionDecision"] == "allow"


def test_an_operators_denial_reaches_the_model_with_its_reason(daemon: RunningDaemon) -> None:
    call = bash("git push origin denied")
    hook(daemon.endpoint.hook, call, agent="denied")
    daemon.safetyd("deny", *pending(daemon, "denied"), "--reason", "not on a Friday")

    words = hook(daemon.endpoint.hook, {**call, "tool_use_id": "later"}, agent="denied").words

    assert "not on a Friday" in words


@pytest.mark.parametrize(
    ("verdict", "option", "word"),
    [("approve", "--message", "approved"), ("deny", "--reason", "denied")],
)
def test_the_next_answer_says_what_became_of_the_sessions_requests(
    daemon: RunningDaemon, verdict: str, option: str, word: str
) -> None:
    agent = f"news-{verdict}"

    def ask(command: str, id_: str, session: str) -> Ran:
        call = {**bash(command, id_), "session_id": session}
        return hook(daemon.endpoint.hook, call, agent=agent)

    ask("git push origin news", "asked", "s1")
    (request,) = pending(daemon, agent)
    assert ask("ls", "before", "s1") == Ran("", "", 0)
    daemon.safetyd(verdict, request, option, "see `safetyd grant add`: today")

    assert ask("ls", "other session", "s2") == Ran("", "", 0)
    said = json.loads(ask("ls", "after", "s1").stdout)["hookSpecificOutput"]
    assert ask("ls", "once", "s1") == Ran("", "", 0)
    assert {*said} == {"hookEventName", "additionalContext"}
    news = said["additionalContext"]
    assert request in news
    assert word in news
    assert '"git push origin news"' in news
    assert "safetyd grant" not in news


def test_news_reach_hosts_without_context_in_the_next_refusal(daemon: RunningDaemon) -> None:
    def ask(command: str) -> Ran:
        tool = {"tool_name": "run_shell_command", "tool_input": {"command": command}}
        return hook(
            daemon.endpoint.hook, {"session_id": "s1", **tool}, dialect="gemini", agent="gem"
        )

    ask("git push origin gemini")
    (request,) = pending(daemon, "gem")
    daemon.safetyd("approve", request)

    assert ask("ls") == Ran("", "", 0)
    assert f"{request} was approved" in ask("rm -rf ~").stdout
    assert request not in ask("rm -rf ~").stdout


def test_an_answer_that_the_call_itself_received_is_no_news(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("[hosts]\nwait_s = 60\n")
    for verdict in ("approve", "deny"):
        waiting = start_hook(daemon.endpoint.hook, bash(f"git push origin {verdict}"))
        until(lambda: pending(daemon, "claude-code"))
        daemon.safetyd(verdict, *pending(daemon, "claude-code"))
        waiting.communicate(timeout=60)

        assert hook(daemon.endpoint.hook, bash("ls", f"later_{verdict}")) == Ran("", "", 0)


@pytest.mark.parametrize("dialect", get_args(Dialect))
def test_a_session_begins_with_a_line_about_safetyd_where_the_host_takes_it(
    daemon: RunningDaemon, dialect: str
) -> None:
    event = {"session_id": "s1", "sessionId": "s1", "cwd": "/home/me/project"}
    said = hook(daemon.endpoint.hook, event, "--event", "start", dialect=dialect, agent=dialect)

    assert (said.stderr, said.code) == ("", 0)
    if dialect not in {"claude", "codex"}:
        assert said.stdout == ""
        return
    output = json.loads(said.stdout)["hookSpecificOutput"]
    assert output["hookEventName"] == "SessionStart"
    assert output["additionalContext"].startswith("Tool calls are checked by safetyd")
    assert len(output["additionalContext"].split()) <= 40


def test_an_approved_program_needs_no_further_approval_in_its_project_until_revoked(
    daemon: RunningDaemon, tmp_path: Path
) -> None:
    (tmp_path / "app" / "src").mkdir(parents=True)
    (tmp_path / "app" / ".git").mkdir()

    def call(arguments: str, folder: str = "app") -> Ran:
        event = bash(f"ledgerkit verify {arguments}", arguments, cwd=str(tmp_path / folder))
        return hook(daemon.endpoint.hook, event, agent="remembering")

    call("one")
    (request,) = pending(daemon, "remembering")
    promise = (
        f"further calls of ledgerkit verify by remembering in {tmp_path / 'app'}, with no other"
    )
    assert promise in daemon.safetyd("show", request, "--json").stdout
    shown = " ".join(daemon.safetyd("show", request).stdout.split())
    assert "further calls of ledgerkit verify" in shown
    daemon.safetyd("approve", request)
    listed = json.loads(daemon.safetyd("grants", "--json").stdout)["grants"]
    (grant,) = (row for row in listed if row["agent"] == "remembering")

    assert call("one").passes, "the approval itself is still unused"
    assert call("two", "app/src").passes
    assert call("three", ".").refuses
    assert (grant["program"], grant["folder"]) == ("ledgerkit verify", str(tmp_path / "app"))
    daemon.safetyd("grant", "revoke", grant["id"])
    assert call("four").refuses


def test_results_are_reported_and_failures_of_tools_are_not_failures_of_the_agent(
    daemon: RunningDaemon,
) -> None:
    socket = daemon.endpoint.hook
    for number in range(5):
        call = bash("pytest -q", f"toolu_failing_{number}")
        assert hook(socket, call, agent="tester").passes
        failed = {**call, "error": "Exit code 1", "duration_ms": 12}
        assert hook(socket, failed, "--event", "after", agent="tester") == Ran("", "", 0)

    until(lambda: len(outcomes_of(daemon, "tester")) == 5)
    outcomes, decided = outcomes_of(daemon, "tester"), decided_of(daemon, "tester")
    assert all(outcome.ok for outcome in outcomes)
    assert {outcome.id for outcome in outcomes} == {event.id for event in decided}
    assert all(event.host == "claude" for event in decided)


def outcomes_of(daemon: RunningDaemon, agent: str) -> list[Outcome]:
    reports = [e for e in events(daemon.data_dir) if isinstance(e, Reported) and e.agent == agent]
    return [e.telemetry for e in reports if isinstance(e.telemetry, Outcome)]


def decided_of(daemon: RunningDaemon, agent: str) -> list[Decided]:
    return [e for e in events(daemon.data_dir) if isinstance(e, Decided) and e.agent == agent]


@pytest.mark.parametrize(
    ("dialect", "call", "refused"),
    [
        (
            "gemini",
            {"tool_name": "run_shell_command", "tool_input": {"command": "ls"}},
            {"tool_name": "run_shell_command", "tool_input": {"command": "rm -rf ~"}},
        ),
        (
            "copilot",
            {"toolName": "bash", "toolArgs": {"command": "ls"}},
            {"toolName": "bash", "toolArgs": {"command": "rm -rf ~"}},
        ),
    ],
)
def test_results_of_calls_without_an_id_belong_to_the_oldest_equal_call(
    daemon: RunningDaemon, dialect: str, call: dict[str, object], refused: dict[str, object]
) -> None:
    agent = f"unnamed-{dialect}"

    def ask(event: dict[str, object], session: str, *options: str) -> Ran:
        named = {**event, "session_id": session, "sessionId": session}
        return hook(daemon.endpoint.hook, named, *options, dialect=dialect, agent=agent)

    for session in ("s1", "s2", "s1"):
        assert ask(call, session).passes
    assert ask(refused, "s1").refuses
    for event, session in ((refused, "s1"), (call, "s1"), (call, "s3"), (call, "s1"), (call, "s2")):
        ask(event, session, "--event", "after")

    until(lambda: len(outcomes_of(daemon, agent)) == 3)
    first, other, second, no = [event.id for event in decided_of(daemon, agent)]
    assert [outcome.id for outcome in outcomes_of(daemon, agent)] == [first, second, other]
    assert len({first, other, second, no}) == 4


def test_a_stop_ends_every_call(start_daemon: StartDaemon) -> None:
    daemon = start_daemon(CONFIG)
    daemon.safetyd("stop", "fire")

    assert "fire" in hook(daemon.endpoint.hook, bash("ls")).words


def test_a_daemon_that_ends_while_a_call_waits_refuses_it(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("[hosts]\nwait_s = 60\n")
    waiting = start_hook(daemon.endpoint.hook, bash("git push origin ended"))
    until(lambda: pending(daemon, "claude-code"))

    daemon.kill()

    out, err = waiting.communicate(timeout=60)
    assert Ran(out, err, waiting.returncode).refuses
    assert hook(daemon.endpoint.hook, bash("ls")).refuses


def test_an_agent_with_a_token_is_only_served_with_it(
    daemon: RunningDaemon, tmp_path: Path
) -> None:
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text(new_token(daemon, "add", "keyed"))
    wrong.write_text("keyed.guessed")
    socket, call = daemon.endpoint.hook, bash("ls")

    assert hook(socket, call, "--token-file", str(right), agent="keyed").passes
    assert hook(socket, call, agent="keyed").refuses
    assert hook(socket, call, "--token-file", str(wrong), agent="keyed").refuses
    assert hook(socket, call, "--token-file", str(right), agent="other").refuses


def test_where_every_agent_needs_a_token_so_does_a_hook(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("[bus]\nopen_agents = false\n")

    assert hook(daemon.endpoint.hook, bash("ls")).refuses


@pytest.mark.parametrize(
    "event", ["", [], {}, "not an object", {"tool_name": 5}, {"tool_name": ""}]
)
def test_an_event_that_cannot_be_read_is_a_refusal(daemon: RunningDaemon, event: object) -> None:
    assert hook(daemon.endpoint.hook, event).refuses


def test_no_call_runs_unasked_when_fifty_come_at_once(daemon: RunningDaemon) -> None:
    socket = daemon.endpoint.hook
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    try:
        started = [
            start_hook(
                socket,
                bash(("rm -rf ~", "ls")[number % 2], f"burst_{number}") | {"session_id": "burst"},
            )
            for number in range(50)
        ]
        ended = [(one, *one.communicate(timeout=300)) for one in started]
    finally:
        for one in busy:
            one.kill()
            one.wait()

    results = [Ran(out, err, one.returncode) for one, out, err in ended]
    assert all(result.refuses for result in results[::2])
    # A machine that is too busy may refuse a harmless call, but each one that runs was allowed.
    listed = daemon.safetyd("decisions", "--verdict", "allow", "--limit", "500", "--json")
    allowed = [row for row in json.loads(listed.stdout)["rows"] if row["session"] == "burst"]
    assert 0 < sum(result.passes for result in results[1::2]) <= len(allowed) <= 25
