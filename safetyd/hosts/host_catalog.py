"""The hosts that `safetyd protect` knows: their programs, settings files and hooks."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

from safetyd.hosts import deny_rules, json_text, toml_block
from safetyd.hosts.hook_command import MARK, TIMEOUT_S, HookCommand, is_ours
from safetyd.hosts.hook_event import Dialect, HookKind

Scope = Literal["user", "project", "system"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
REPORT_S: Final = 10
CODEX_END_S: Final = 3  # Codex allows no more at the end of a session


class Place(NamedTuple):
    """Where settings are: the user's home and environment, the project, and the machine."""

    home: Path
    environment: Mapping[str, str]
    project: Path
    system: Path = Path("/etc")

    def folder(self, variable: str, usual: str) -> Path:
        """Return the folder that a variable names, or the usual one in the home."""
        named = self.environment.get(variable, "")
        return Path(named) if named else self.home / usual


class SettingsFile(NamedTuple):
    """A settings file, and the functions that add safetyd's part to its text and remove it."""

    path: Path
    protected: Callable[[str, HookCommand], str]
    unprotected: Callable[[str], str]
    own: bool = False  # it contains only safetyd's part
    mark: str = MARK  # a text that is in the file while the host is protected
    ordered: bool = False  # the order of its members matters


class Host(NamedTuple):
    """A coding agent. `files` returns none for a scope that is not offered."""

    name: str
    title: str
    dialect: Dialect
    program: str
    files: Callable[[Scope, Place], Sequence[SettingsFile]]
    oldest: str  # version that was tested
    trusts_hooks: bool = False  # it skips hooks that its user has not trusted
    unguarded: str = ""  # ways to start it without hooks
    fails_open_before: str = ""  # older versions run a call whose hook takes too long or is killed
    does_not_hold: str = ""  # what safetyd cannot make it refuse
    confirms: bool = False  # it can confirm calls without a further process
    locked: frozenset[Scope] = frozenset()  # scopes in which a policy denies calls without a key


class _Hooks(NamedTuple):
    """The events that a host names in its JSON settings, each with the kind of safetyd's hook."""

    events: Mapping[str, HookKind]
    group: Callable[[HookCommand, HookKind], object]

    def protected(self, text: str, command: HookCommand) -> str:
        text = self.unprotected(text) or "{}\n"
        for event, kind in self.events.items():
            text = json_text.appended(text, ("hooks", event), self.group(command, kind))
        return text

    def unprotected(self, text: str) -> str:
        for event in self.events if text.strip() else ():
            text = json_text.without(text, ("hooks", event), is_ours)
        return text


def _timeout_s(kind: HookKind) -> int:
    """Return how long a host waits for a hook. Calls and questions may wait for an operator."""
    return TIMEOUT_S if kind in {"before", "permission"} else REPORT_S


def _claude_group(command: HookCommand, kind: HookKind) -> object:
    if kind == "before":
        hook = {
            "type": "command",
            "command": command.ask("claude"),
            "timeout": TIMEOUT_S,
            "onFailure": "block",  # versions before 2.1.295 ignore it
            "statusMessage": "safetyd",
        }
        return {"matcher": "*", "hooks": [hook]}
    line = command.report("claude", kind)
    other = {"type": "command", "command": line, "timeout": _timeout_s(kind)}
    of_session = kind in {"start", "end"}
    return {"hooks": [other]} if of_session else {"matcher": "*", "hooks": [other]}


_CLAUDE: Final = _Hooks(
    {
        "PreToolUse": "before",
        "PermissionRequest": "permission",
        "PermissionDenied": "denied",
        "PostToolUse": "after",
        "PostToolUseFailure": "after",
        "SessionStart": "start",
        "SessionEnd": "end",
    },
    _claude_group,
)


def _claude_files(scope: Scope, place: Place) -> Sequence[SettingsFile]:
    paths: dict[Scope, Path] = {
        "user": place.folder("CLAUDE_CONFIG_DIR", ".claude") / "settings.json",
        "project": place.project / ".claude" / "settings.json",
        "system": place.system / "claude-code" / "managed-settings.json",
    }
    return (SettingsFile(paths[scope], _claude_protected, _claude_unprotected),)


def _claude_protected(text: str, command: HookCommand) -> str:
    hooked = _CLAUDE.protected(deny_rules.without_claude_rules(text), command)
    return deny_rules.with_claude_rules(hooked)


def _claude_unprotected(text: str) -> str:
    return _CLAUDE.unprotected(deny_rules.without_claude_rules(text))


def _own_file(path: Path, written: Callable[[HookCommand], str], mark: str = MARK) -> SettingsFile:
    """Return a settings file that contains only safetyd's part."""
    return SettingsFile(
        path, lambda _text, command: written(command), lambda _text: "", own=True, mark=mark
    )


def _gemini_group(command: HookCommand, kind: HookKind) -> object:
    asks = kind == "before"
    hook = {
        "type": "command",
        "name": "safetyd" if asks else f"safetyd-{kind}",
        "command": command.ask("gemini") if asks else command.report("gemini", kind),
        "timeout": 1000 * (TIMEOUT_S if asks else REPORT_S),  # in milliseconds
    }
    return {"matcher": ".*", "hooks": [hook]} if kind in {"before", "after"} else {"hooks": [hook]}


_GEMINI: Final = _Hooks(
    {"BeforeTool": "before", "AfterTool": "after", "SessionStart": "start", "SessionEnd": "end"},
    _gemini_group,
)


def _gemini_files(scope: Scope, place: Place) -> Sequence[SettingsFile]:
    if scope == "system":  # a hook in its system settings did not run
        return ()
    folder = (place.home if scope == "user" else place.project) / ".gemini"
    settings = SettingsFile(folder / "settings.json", _GEMINI.protected, _GEMINI.unprotected)
    if scope == "project":  # with a policy in the project, Gemini CLI always asks its user
        return (settings,)
    policy = folder / "policies" / "safetyd.toml"
    return settings, _own_file(
        policy, lambda command: deny_rules.gemini_policy(command.lock), deny_rules.MARK
    )


def _copilot_text(command: HookCommand) -> str:
    def hook(kind: HookKind) -> object:
        asks = kind == "before"
        line = command.ask("copilot") if asks else command.report("copilot", kind)
        return [{"type": "command", "bash": line, "timeoutSec": _timeout_s(kind)}]

    events: dict[str, HookKind] = {
        "preToolUse": "before",
        "permissionRequest": "permission",
        "postToolUse": "after",
        "postToolUseFailure": "after",
        "sessionStart": "start",
        "sessionEnd": "end",
    }
    hooks = {event: hook(kind) for event, kind in events.items()}
    return json.dumps({"version": 1, "hooks": hooks}, indent=2) + "\n"


def _copilot_files(scope: Scope, place: Place) -> Sequence[SettingsFile]:
    if scope == "system":
        return ()
    folder = place.folder("COPILOT_HOME", ".copilot") / "hooks"
    path = (folder if scope == "user" else place.project / ".github" / "hooks") / "safetyd.json"
    return (_own_file(path, _copilot_text),)


def _codex_block(command: HookCommand) -> str:
    events: dict[str, HookKind] = {
        "PreToolUse": "before",
        "PermissionRequest": "permission",
        "PostToolUse": "after",
        "SessionStart": "start",
    }
    lines: list[str] = []
    for event, kind in events.items():
        asks = kind == "before"
        line = command.ask("codex") if asks else command.report("codex", kind)
        lines += [f"[[hooks.{event}]]"]
        lines += ['matcher = "*"'] if kind in {"before", "permission", "after"} else []
        lines += [
            f"[[hooks.{event}.hooks]]",
            'type = "command"',
            f"command = {json.dumps(line)}",
            f"timeout = {_timeout_s(kind)}",
            "",
        ]
    return "\n".join(lines)


def _codex_text(text: str, command: HookCommand) -> str:
    """Return the text with our block. A block that Codex already trusts stays as it is."""
    block = _codex_block(command)
    same = toml_block.content(text).startswith(block.strip())
    return text if same else toml_block.added(text, block)


def _codex_requirements(text: str, command: HookCommand) -> str:
    """Return requirements with our hooks, which Codex trusts and which nobody can switch off."""
    block = f"[features]\nhooks = true\n\n{_codex_block(command)}"
    return text if toml_block.content(text) == block.strip() else toml_block.added(text, block)


def trusted_by_codex(text: str, hashes: Mapping[str, str]) -> str:
    """Return the text with the hashes of our hooks, by key: Codex skips hooks without one."""
    states = [
        f"[hooks.state.{json.dumps(key)}]\ntrusted_hash = {json.dumps(hash_)}\n"
        for key, hash_ in hashes.items()
    ]
    hooks = toml_block.content(text).partition("[hooks.state.")[0].strip()
    return toml_block.added(text, "\n".join((hooks, "", *states)))


def _codex_files(scope: Scope, place: Place) -> Sequence[SettingsFile]:
    if scope == "system":
        path = place.system / "codex" / "requirements.toml"
        return (SettingsFile(path, _codex_requirements, toml_block.removed),)
    folder = place.folder("CODEX_HOME", ".codex") if scope == "user" else place.project / ".codex"
    rules = folder / "rules" / "safetyd.rules"
    return (
        SettingsFile(folder / "config.toml", _codex_text, toml_block.removed),
        _own_file(rules, deny_rules.codex_rules, deny_rules.MARK),
    )


# It matches every permission, as "*" does, but nobody else writes it. The last match counts.
_GUARD: Final = "?*"


def _opencode_plugin(command: HookCommand) -> str:
    """Return the plugin that asks the daemon; it is in JavaScript, so it starts no process."""
    text = Path(__file__).with_name("opencode.js").read_text(encoding="utf-8")
    given = {
        "SOCKET": command.socket,
        "AGENT": command.agent,
        "TOKEN_FILE": command.token_file,
        "GUARD": _GUARD,
    }
    for name, value in given.items():
        text = text.replace(f'"@{name}@"', json.dumps(value))
    return text


def _opencode_protected(text: str, _command: HookCommand) -> str:
    """Deny every tool. The plugin removes this entry, so without the plugin no tool runs."""
    bare = _opencode_unprotected(text) or "{}\n"
    return json_text.with_value(bare, ("permission", _GUARD), "deny")


def _opencode_unprotected(text: str) -> str:
    if not text.strip():
        return text
    return json_text.without(text, ("permission", _GUARD), lambda value: value == "deny")


def _opencode_files(scope: Scope, place: Place) -> Sequence[SettingsFile]:
    if scope == "system":
        return ()
    user = place.folder("XDG_CONFIG_HOME", ".config") / "opencode"
    folder = user if scope == "user" else place.project / ".opencode"
    settings = folder if scope == "user" else place.project
    # If both files exist, OpenCode reads the one with comments last.
    names = ("opencode.jsonc", "opencode.json")
    path = next((settings / name for name in names if (settings / name).exists()), None)
    return (
        _own_file(folder / "plugin" / "safetyd.js", _opencode_plugin),
        SettingsFile(
            path or settings / "opencode.json",
            _opencode_protected,
            _opencode_unprotected,
            mark=json.dumps(_GUARD),
            ordered=True,
        ),
    )


HOSTS: Final = {
    host.name: host
    for host in (
        Host(
            "claude-code",
            "Claude Code",
            "claude",
            "claude",
            _claude_files,
            oldest="2.1.197",
            unguarded="`claude --bare` and `claude --safe-mode`",
            fails_open_before="2.1.295",
        ),
        Host(
            "codex",
            "Codex CLI",
            "codex",
            "codex",
            _codex_files,
            oldest="0.169.0",
            trusts_hooks=True,
            confirms=True,
            unguarded="`codex --disable hooks`",
            does_not_hold="a call runs if a program kills its hook and the daemon",
        ),
        Host(
            "gemini",
            "Gemini CLI",
            "gemini",
            "gemini",
            _gemini_files,
            oldest="0.61.0",
            does_not_hold="a call of an MCP server runs if a program kills its hook",
            locked=frozenset({"user"}),
        ),
        Host("copilot", "Copilot CLI", "copilot", "copilot", _copilot_files, oldest="1.0.102"),
        Host("opencode", "OpenCode", "opencode", "opencode", _opencode_files, oldest="1.18.33"),
    )
}
