"""The key that unlocks calls of Gemini CLI, whose policy denies calls without it."""

import json
import re
import tomllib

import pytest

from safetyd.hosts.call_lock import PREFIX, SHELL, TOOLS, new_key, unlocking, without_key
from safetyd.hosts.deny_rules import gemini_policy
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.hook_process import PROJECT, hook

KEY = new_key()
CALLS = [
    (SHELL, {"command": "make test | tee log", "description": "x"}),
    (SHELL, {"command": "ls", "dir_path": "src/"}),
    (SHELL, {"command": "ls", "dir_path": "/home/me/project"}),
    ("write_file", {"file_path": "a.txt", "content": "one\n"}),
    ("glob", {}),
]


def stringified(arguments: dict[str, object]) -> str:
    """Return arguments as Gemini CLI compares them with patterns."""
    pairs = (f"\0{json.dumps(name)}:{json.dumps(arguments[name])}\0" for name in sorted(arguments))
    return f"{{{','.join(pairs)}}}"


def is_denied(tool: str, arguments: dict[str, object]) -> bool:
    rules = tomllib.loads(gemini_policy(KEY))["rule"]
    (rule,) = (rule for rule in rules if rule["priority"] == 998)
    matches = re.search(rule["argsPattern"], stringified(arguments)) is not None
    return tool in rule["toolName"] and matches


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
def test_the_policy_denies_a_call_until_it_has_the_key(
    tool: str, arguments: dict[str, object]
) -> None:
    unlocked = unlocking(tool, arguments, KEY)

    assert is_denied(tool, arguments)
    assert is_denied(tool, unlocking(tool, arguments, new_key()))
    assert not is_denied(tool, unlocked)
    assert without_key(tool, unlocked, KEY) == arguments


def test_each_part_of_a_shell_command_has_the_key() -> None:
    unlocked = unlocking(SHELL, {"command": "a && b"}, KEY)
    part: dict[str, object] = {"command": "b", "dir_path": unlocked["dir_path"]}

    assert not is_denied(SHELL, part)
    assert is_denied(SHELL, {"command": "b"})


def test_a_policy_without_a_key_denies_only_what_operators_may_do() -> None:
    assert PREFIX not in gemini_policy()
    assert {rule["priority"] for rule in tomllib.loads(gemini_policy())["rule"]} == {999}


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon("[hosts]\nwait_s = 0\n")


def ask(daemon: RunningDaemon, tool: str, arguments: dict[str, object], key: str = KEY) -> object:
    event = {"session_id": "s", "cwd": str(PROJECT), "tool_name": tool, "tool_input": arguments}
    options = ("--lock", key)
    ran = hook(daemon.endpoint.hook, event, *options, dialect="gemini", agent="gemini")
    assert ran.code == 0
    return json.loads(ran.stdout or "null")


@pytest.mark.journey
def test_only_an_allowed_call_receives_the_key(daemon: RunningDaemon) -> None:
    arguments: dict[str, object] = {"command": "ls", "description": "List"}
    large: dict[str, object] = {"file_path": str(PROJECT / "a"), "content": "word " * 1_000_000}

    for tool, given in ((SHELL, arguments), ("write_file", large)):
        allowed = ask(daemon, tool, given)
        specific = {"hookEventName": "BeforeTool", "tool_input": unlocking(tool, given, KEY)}
        assert allowed == {"hookSpecificOutput": specific}
    for refused in (
        ask(daemon, SHELL, {"command": "rm -rf ~"}),
        ask(daemon, SHELL, {"command": f"echo {KEY}"}),
        ask(daemon, SHELL, unlocking(SHELL, arguments, KEY)),
    ):
        assert isinstance(refused, dict)
        assert refused["decision"] == "deny"
        assert KEY not in json.dumps(refused)


@pytest.mark.journey
def test_a_tool_that_is_not_locked_and_a_hook_without_a_key_get_no_arguments(
    daemon: RunningDaemon,
) -> None:
    assert "update_topic" not in TOOLS
    assert ask(daemon, "update_topic", {"title": "a"}) is None
    assert ask(daemon, SHELL, {"command": "ls"}, key="any word") is None
