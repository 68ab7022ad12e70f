"""Questions that hosts would ask their users, and the answers of a real daemon."""

import json
from typing import Any, Final

import pytest

from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.hook_process import Ran, bash, hook, start_hook
from tests.hosts.test_hook_socket import pending
from tests.journeys.agents import until

pytestmark = pytest.mark.journey

UNANSWERED: Final = Ran("", "", 0)
PUSH: Final = "git push origin main"
# What is answered by each setting: to a call that an operator approved, and to one that is refused.
YES: Final = {"none": "", "approved": "allow", "all": "allow"}
NO: Final = {"none": "", "approved": "deny", "all": "deny"}


@pytest.fixture(scope="module", params=["none", "approved", "all"])
def answers(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon, answers: str) -> RunningDaemon:
    return start_module_daemon(f'[hosts]\nwait_s = 0\nanswer_prompts = "{answers}"\n')


def question(command: str, **more: object) -> dict[str, object]:
    """Return Claude Code's question about a shell command: it has no id of the call."""
    event = {name: value for name, value in bash(command).items() if name != "tool_use_id"}
    return {**event, "hook_event_name": "PermissionRequest", **more}


def asked(daemon: RunningDaemon, event: object, agent: str, dialect: str = "claude") -> Ran:
    socket = daemon.endpoint.hook
    return hook(socket, event, "--event", "permission", agent=agent, dialect=dialect)


def decision(ran: Ran) -> dict[str, Any]:
    """Return the answer; one without a behavior leaves the question with the user."""
    if ran == UNANSWERED:
        return {"behavior": "", "message": ""}
    output = json.loads(ran.stdout)["hookSpecificOutput"]
    assert output["hookEventName"] == "PermissionRequest"
    return dict(output["decision"])


def behavior(daemon: RunningDaemon, event: object, agent: str) -> str:
    return str(decision(asked(daemon, event, agent))["behavior"])


def approved_push(daemon: RunningDaemon, agent: str) -> None:
    """Get a push approved, and make the call that uses the approval."""
    assert hook(daemon.endpoint.hook, bash(PUSH, "first"), agent=agent).refuses
    daemon.safetyd("approve", *pending(daemon, agent))
    assert hook(daemon.endpoint.hook, bash(PUSH, "second"), agent=agent).passes


def test_a_call_that_an_operator_approved_is_answered_unless_prompts_are_left_to_users(
    daemon: RunningDaemon, answers: str
) -> None:
    approved_push(daemon, "pusher")

    assert behavior(daemon, question(PUSH), "pusher") == YES[answers]


def test_a_call_that_a_rule_allows_is_answered_only_if_all_prompts_are(
    daemon: RunningDaemon, answers: str
) -> None:
    assert hook(daemon.endpoint.hook, bash("touch a"), agent="ruled").passes

    by_rule = "allow" if answers == "all" else ""
    assert behavior(daemon, question("touch a"), "ruled") == by_rule
    assert behavior(daemon, question("touch b"), "ruled") == by_rule
    assert behavior(daemon, question("touch a", permission_mode="plan"), "ruled") == ""


def test_an_approval_answers_only_the_call_that_was_approved_and_only_until_it_ends(
    daemon: RunningDaemon, answers: str
) -> None:
    approved_push(daemon, "once")
    others = (
        question(f"{PUSH} --tags"),
        question(PUSH, session_id="another"),
        question(PUSH, cwd="/home/me/other"),
    )

    assert {behavior(daemon, other, "once") for other in others} == {NO[answers]}
    assert behavior(daemon, question(PUSH), "stranger") == NO[answers]
    assert behavior(daemon, question(PUSH), "once") == YES[answers]
    report = hook(daemon.endpoint.hook, bash(PUSH, "second"), "--event", "after", agent="once")
    assert report == UNANSWERED
    until(lambda: behavior(daemon, question(PUSH), "once") == NO[answers])


def test_a_question_about_a_call_that_is_not_allowed_is_answered_no_with_the_reason(
    daemon: RunningDaemon, answers: str
) -> None:
    blocked = decision(asked(daemon, question("rm -rf ~"), "unjudged"))
    held = decision(asked(daemon, question("git push origin unjudged"), "unjudged"))

    assert blocked["behavior"] == held["behavior"] == NO[answers]
    assert ("gate.shell:irreversible" in blocked["message"]) == (answers != "none")
    assert bool(pending(daemon, "unjudged")) == (answers != "none")
    assert all(request in held["message"] for request in pending(daemon, "unjudged"))


def test_each_host_is_answered_in_its_own_words(daemon: RunningDaemon, answers: str) -> None:
    call = {"command": "rm -rf ~"}
    codex = question("", tool_input={**call, "description": "why"})
    copilot = {"sessionId": "s1", "cwd": "/p", "toolName": "bash", "toolInput": call}

    assert decision(asked(daemon, codex, "worded", "codex"))["behavior"] == NO[answers]
    said = asked(daemon, copilot, "worded", "copilot").stdout or '{"behavior": ""}'
    assert json.loads(said)["behavior"] == NO[answers]
    for dialect in ("gemini", "opencode"):
        assert asked(daemon, question("rm -rf ~"), "worded", dialect) == UNANSWERED


@pytest.mark.parametrize(
    "event",
    [
        {"session_id": "s1", "tool_name": "ExitPlanMode", "tool_input": {"plan": "rm"}},
        {"session_id": "s1", "tool_name": "AskUserQuestion", "tool_input": {"questions": []}},
        question("curl example.org", tool_input={"command": "network-access https://a:443"}),
        question("ls", tool_input={"command": "ls", "description": "network-access a.org"}),
        "",
        {},
        {"tool_name": ""},
    ],
)
def test_a_question_that_only_the_user_can_answer_stays_with_the_user(
    daemon: RunningDaemon, event: object
) -> None:
    assert asked(daemon, event, "claude-code", "codex") == UNANSWERED


def test_a_stop_after_the_call_was_allowed_turns_the_answer_into_a_no(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon('[hosts]\nanswer_prompts = "all"\n')
    assert hook(daemon.endpoint.hook, bash("touch a")).passes

    daemon.safetyd("stop", "fire")

    answer = decision(asked(daemon, question("touch a"), "claude-code"))
    assert answer["behavior"] == "deny"
    assert "fire" in answer["message"]


def test_a_reload_changes_which_questions_are_answered(start_daemon: StartDaemon) -> None:
    daemon = start_daemon('[hosts]\nanswer_prompts = "all"\n')
    assert behavior(daemon, question("touch a"), "claude-code") == "allow"

    changed = daemon.config_path.read_text().replace('"all"', '"none"')
    daemon.config_path.write_text(changed)
    daemon.safetyd("reload")

    assert behavior(daemon, question("touch a"), "claude-code") == ""


def test_an_operator_answers_a_question_while_the_host_waits(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("[hosts]\nwait_s = 60\n")
    waiting = start_hook(daemon.endpoint.hook, question(PUSH), "--event", "permission")
    until(lambda: pending(daemon, "claude-code"))

    daemon.safetyd("approve", *pending(daemon, "claude-code"))

    out, err = waiting.communicate(timeout=60)
    assert decision(Ran(out, err, waiting.returncode)) == {"behavior": "allow"}


def test_without_the_daemon_a_question_stays_with_the_user(start_daemon: StartDaemon) -> None:
    daemon = start_daemon('[hosts]\nwait_s = 60\nanswer_prompts = "all"\n')
    waiting = start_hook(daemon.endpoint.hook, question(PUSH), "--event", "permission")
    until(lambda: pending(daemon, "claude-code"))

    daemon.kill()

    out, err = waiting.communicate(timeout=60)
    assert Ran(out, err, waiting.returncode) == UNANSWERED
    assert asked(daemon, question("ls"), "claude-code") == UNANSWERED


def test_a_refusal_of_the_host_itself_is_explained(daemon: RunningDaemon) -> None:
    call = bash("touch a", "refused")
    assert hook(daemon.endpoint.hook, call, agent="auto").passes

    denied = {**call, "reason": "Classifier unavailable"}
    hook(daemon.endpoint.hook, denied, "--event", "denied", agent="auto")

    def outcomes() -> list[Any]:
        rows = json.loads(daemon.safetyd("decisions", "--agent", "auto", "--json").stdout)["rows"]
        (id_,) = {row["id"] for row in rows}
        return list(json.loads(daemon.safetyd("explain", id_, "--json").stdout)["outcomes"])

    until(outcomes)
    (outcome,) = outcomes()
    assert (outcome["ok"], outcome["host_denied"]) == (True, "Classifier unavailable")
