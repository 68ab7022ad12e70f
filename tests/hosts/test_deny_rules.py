"""The hosts' own rules deny what safetyd guards, and nothing that a session needs."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from safetyd.console.command_table import GROUPS
from safetyd.core.guards.rules import PROTECTED, SENSITIVE
from safetyd.hosts import deny_rules
from safetyd.hosts.call_lock import new_key
from safetyd.hosts.hook_command import HookCommand
from safetyd.hosts.host_catalog import HOSTS, Place

COMMAND = HookCommand("/usr/bin/python3", "/x/safetyd/hook.py", "/run/hook.sock", "agent")
PLACE = Place(Path("/home/me"), {}, Path("/home/me/project"))
READING = {"status", "list", "show", "explain", "check", "log", "doctor", "types"}


def test_what_they_deny_safetyd_guards_too() -> None:
    assert {*deny_rules.CREDENTIALS} <= {*SENSITIVE}
    own = {"**/safetyd/hook.py", "**/safetyd.toml"}
    assert {*deny_rules.SETTINGS} - own <= {*PROTECTED}


def test_they_deny_commands_that_exist_and_no_command_that_only_reads() -> None:
    commands = {name for group in GROUPS.values() for name in group}
    assert {*deny_rules.OPERATOR_COMMANDS} <= commands
    assert not {*deny_rules.OPERATOR_COMMANDS} & READING


@pytest.mark.parametrize(
    ("tool", "arguments", "denied"),
    [
        ("run_shell_command", {"command": "env X=1 safetyd approve req_1"}, True),
        ("run_shell_command", {"command": "/opt/bin/safetyd grant add"}, True),
        ("run_shell_command", {"command": "safetyd uninstall-service --user"}, True),
        ("run_shell_command", {"command": "safetyd status"}, False),
        ("run_shell_command", {"command": "cat /var/lib/safetyd/keys/operator.nk"}, True),
        ("run_shell_command", {"command": "cat .ssh/config"}, True),
        ("run_shell_command", {"command": "echo {} > .gemini/settings.json"}, True),
        ("run_shell_command", {"command": "cat opencode.json"}, False),
        ("run_shell_command", {"command": "cp a b; cat opencode.json"}, False),
        ("read_file", {"file_path": "/home/me/.aws/credentials"}, True),
        ("read_file", {"file_path": "src/keys/operators.py"}, False),
        ("write_file", {"file_path": ".claude/settings.local.json", "content": "{}"}, True),
        ("write_file", {"file_path": "README.md", "content": "see .claude/settings.json"}, False),
        ("write_file", {"file_path": "README.md", "content": "see ~/.ssh/config"}, False),
    ],
)
def test_the_policy_of_gemini(tool: str, arguments: dict[str, str], *, denied: bool) -> None:
    rules: Any = tomllib.loads(deny_rules.gemini_policy())["rule"]
    said = json.dumps(arguments, separators=(",", ":"))
    matches = [
        re.search(rule["argsPattern"], said)
        for rule in rules
        if tool in (rule["toolName"] if isinstance(rule["toolName"], list) else [rule["toolName"]])
    ]
    assert any(matches) is denied


def test_gemini_accepts_every_pattern_of_the_policy() -> None:
    """It ignores a rule whose pattern it takes for slow, with a warning."""
    rules = tomllib.loads(deny_rules.gemini_policy(new_key()))["rule"]
    for rule in rules:
        assert len(rule["argsPattern"]) <= 2048
        assert not re.search(r"\([^)]*[*+?{].*\)[*+?{]", rule["argsPattern"]), rule["toolName"]


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "permissions": {\n    "deny": ["Read(.env)"], // mine\n  },\n}\n',
        '{"permissions": {"allow": ["Bash(ls)"]}}',
        '{\r\n\t"model": "opus"\r\n}',
        "{}",
    ],
)
def test_settings_of_claude_are_undone_to_the_byte(text: str) -> None:
    (file,) = HOSTS["claude-code"].files("user", PLACE)
    protected = file.protected(text, COMMAND)
    assert protected.count("Read(//**/.ssh/**)") == 1
    assert file.protected(protected, COMMAND) == protected
    assert file.unprotected(protected) == text


def test_a_rule_that_the_user_added_meanwhile_stays() -> None:
    (file,) = HOSTS["claude-code"].files("user", PLACE)
    settings = json.loads(file.protected("{}", COMMAND))
    settings["permissions"]["deny"].insert(3, "Read(mine)")
    left = json.loads(file.unprotected(json.dumps(settings)))
    assert left == {"permissions": {"deny": ["Read(mine)"]}}
