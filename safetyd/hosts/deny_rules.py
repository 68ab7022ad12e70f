"""Deny rules of the hosts themselves: a second wall, which holds even if hooks are switched off.

The few rules cover safetyd's keys and files, the commands of operators, settings that contain hooks
or switch them off, and the most common credentials. An approval does not lift these rules.
"""

import json
import re
from pathlib import Path
from typing import Final

from safetyd.core.guards.host_places import HOST_SETTINGS
from safetyd.hosts import call_lock, json_text
from safetyd.hosts.hook_command import HookCommand

# Commands that decide for an operator, or that change which agents are guarded.
OPERATOR_COMMANDS: Final = (
    *("agent", "approve", "breakers", "budgets", "cancel", "config", "defer", "deny", "grant"),
    *(
        "init",
        "install-service",
        "limits",
        "open",
        "operator",
        "pause",
        "protect",
        "reload",
        "reset",
        "resume",
    ),
    *("review", "rollback", "run", "safe-mode", "uninstall-service", "unpause", "unprotect"),
)

KEYS: Final = ("**/keys/operator.*", "**/keys/operators/**", "**/keys/daemon.nk")
CREDENTIALS: Final = (
    *("**/.ssh/**", "**/.gnupg/**", "**/.aws/**", "**/.azure/**", "**/.config/gcloud/**"),
    *("**/.kube/**", "**/.docker/config.json", "**/.netrc", "**/.git-credentials"),
    *("**/.config/gh/hosts.yml", "**/.password-store/**"),
)
SETTINGS: Final = (*HOST_SETTINGS, "**/safetyd/hook.py", "**/safetyd.toml")

_UNREADABLE: Final = (*KEYS, *CREDENTIALS)
_UNWRITABLE: Final = (*KEYS, *CREDENTIALS, *SETTINGS)

MARK: Final = "# Written by `safetyd protect`, removed by `safetyd unprotect`."
REASON: Final = "safetyd: only operators may do this"
UNANSWERED: Final = "safetyd: the hook gave no answer, so this call is blocked. Tell the user."

# In Claude Code a path starts at the root with two slashes, and `Edit` covers all tools that write.
CLAUDE_RULES: Final = (
    *(f"Read(//{glob})" for glob in _UNREADABLE),
    *(f"Edit(//{glob})" for glob in _UNWRITABLE),
    *(f"Bash(*safetyd {name}*)" for name in OPERATOR_COMMANDS),
)
_CLAUDE_KEYS: Final = ("permissions", "deny")


def with_claude_rules(text: str) -> str:
    """Return settings of Claude Code with the rules at the end of `permissions.deny`."""
    for rule in CLAUDE_RULES:
        text = json_text.appended(text, _CLAUDE_KEYS, rule)
    return text


def without_claude_rules(text: str) -> str:
    if not text.strip():
        return text
    return json_text.without(text, _CLAUDE_KEYS, lambda rule: rule in CLAUDE_RULES)


def codex_rules(command: HookCommand) -> str:
    """Return rules for Codex. They match only the first words of a command, not files."""
    programs = ["safetyd", str(Path(command.python).with_name("safetyd"))]
    pythons = ["python", "python3", command.python]
    commands = [*OPERATOR_COMMANDS]
    rules = (
        f"prefix_rule(\n    pattern = {json.dumps(pattern)},\n"
        f'    decision = "forbidden",\n    justification = {json.dumps(REASON)},\n)\n'
        for pattern in ([programs, commands], [pythons, "-m", "safetyd", commands])
    )
    return "\n".join((MARK, *rules))


def gemini_policy(lock: str = "") -> str:
    """Return a policy for Gemini CLI, whose rules match the arguments of a call as JSON.

    With a lock, it also denies each call that does not contain this key.
    """
    commands = "|".join(OPERATOR_COMMANDS)
    unreadable, unwritable = _any_of(_UNREADABLE), _any_of(_UNWRITABLE)
    writes = r"(>|\b(tee|cp|mv|rm|ln|install|dd|truncate|sed|chmod)\b)[^;|&]*"
    rules = (
        ('"run_shell_command"', rf"\bsafetyd ({commands})\b"),
        (json.dumps(_GEMINI_READERS), unreadable),
        ('["write_file", "replace"]', rf'"file_path":"[^"]*{unwritable}'),
        ('"run_shell_command"', writes + unwritable),
    )
    denied = [_gemini_rule(tool, pattern) for tool, pattern in rules]
    if lock:
        tools = json.dumps(call_lock.TOOLS)
        denied.append(_gemini_rule(tools, rf"^(?![\s\S]*{lock})", priority=998, why=UNANSWERED))
    return "\n".join((MARK, *denied))


_GEMINI_READERS: Final = (
    *("run_shell_command", "read_file", "read_many_files", "list_directory"),
    *("glob", "grep_search", "search_file_content"),
)


def _gemini_rule(tool: str, pattern: str, *, priority: int = 999, why: str = REASON) -> str:
    return (
        f"[[rule]]\ntoolName = {tool}\nargsPattern = '''{pattern}'''\n"
        f'decision = "deny"\npriority = {priority}\ndenyMessage = {json.dumps(why)}\n'
    )


def _any_of(globs: tuple[str, ...]) -> str:
    """Return a regular expression for paths in JSON, which may also be relative."""
    return f"(?<![\\w.-])({'|'.join(map(_pattern, globs))})"


def _pattern(glob: str) -> str:
    """Translate a glob of the form `**/NAME`."""
    name = re.escape(glob.removeprefix("**/").removesuffix("**"))
    return name.replace(r"\*", r"""[^/"' ]*""")
