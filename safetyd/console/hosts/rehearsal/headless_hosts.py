"""How to run each host without a user and with another model, so that only the hook can refuse."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from safetyd.console.hosts.rehearsal.anthropic_api import ANTHROPIC
from safetyd.console.hosts.rehearsal.gemini_api import GEMINI
from safetyd.console.hosts.rehearsal.model_stand_in import ModelApi, ToolCall
from safetyd.console.hosts.rehearsal.openai_api import OPENAI

ADDRESS: Final = "@ADDRESS@"
SETTINGS: Final = "@SETTINGS@"  # a file with `HeadlessHost.settings`


class HeadlessHost(NamedTuple):
    """A host's arguments and variables, in which `ADDRESS` stands for the model's address."""

    api: ModelApi
    shell: Callable[[str], ToolCall]
    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    settings: str = ""  # the content of a file that variables name

    def addressed(self, url: str, settings: Path) -> "HeadlessHost":
        def put(text: str) -> str:
            return text.replace(ADDRESS, url).replace(SETTINGS, str(settings))

        return self._replace(
            arguments=tuple(map(put, self.arguments)),
            variables={name: put(text) for name, text in self.variables.items()},
        )


def _claude_shell(command: str) -> ToolCall:
    return ToolCall("Bash", {"command": command, "description": "Run a command"})


def _codex_shell(command: str) -> ToolCall:
    return ToolCall("exec_command", {"cmd": command})


def _gemini_shell(command: str) -> ToolCall:
    return ToolCall("run_shell_command", {"command": command, "description": "Run a command"})


def _bash(command: str) -> ToolCall:
    return ToolCall("bash", {"command": command, "description": "Run a command"})


_CLAUDE: Final = {
    "ANTHROPIC_BASE_URL": ADDRESS,
    "ANTHROPIC_API_KEY": "sk-none",
    "ANTHROPIC_AUTH_TOKEN": "",
    "CLAUDE_CODE_USE_BEDROCK": "",
    "CLAUDE_CODE_USE_VERTEX": "",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",  # root may skip permissions only in a sandbox
}
_CODEX: Final = {
    "model": '"gpt-5"',
    "model_provider": '"stand_in"',
    "model_providers.stand_in": '{name = "stand-in", base_url = "@ADDRESS@/v1", '
    'env_key = "SAFETYD_REHEARSAL_KEY", wire_api = "responses"}',
}
_OPENCODE: Final = {
    "model": "stand-in/one",
    "small_model": "stand-in/one",
    "provider": {
        "stand-in": {
            "npm": "@ai-sdk/anthropic",
            "options": {"baseURL": f"{ADDRESS}/v1", "apiKey": "none"},
            "models": {"one": {"tool_call": True}},
        }
    },
}

HEADLESS_HOSTS: Final = {
    "claude-code": HeadlessHost(
        ANTHROPIC,
        _claude_shell,
        ("-p", "go", "--dangerously-skip-permissions"),
        _CLAUDE,
    ),
    "codex": HeadlessHost(
        OPENAI,
        _codex_shell,
        (
            *("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
            *(word for name, value in _CODEX.items() for word in ("-c", f"{name}={value}")),
            "go",
        ),
        {"SAFETYD_REHEARSAL_KEY": "none"},
    ),
    "gemini": HeadlessHost(
        GEMINI,
        _gemini_shell,
        ("-p", "go", "--yolo", "--skip-trust"),
        {
            "GEMINI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": ADDRESS,
            "GEMINI_TELEMETRY_ENABLED": "false",
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH": SETTINGS,
        },
        settings=json.dumps(
            {
                "security": {"auth": {"selectedType": "gemini-api-key"}},
                "general": {"enableAutoUpdate": False},
            }
        ),
    ),
    "copilot": HeadlessHost(
        ANTHROPIC,
        _bash,
        ("-p", "go", "--allow-all-tools", "--allow-all-paths", "--allow-all-urls"),
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": ADDRESS,
            "COPILOT_PROVIDER_TYPE": "anthropic",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "claude-sonnet-4.5",
        },
    ),
    "opencode": HeadlessHost(
        ANTHROPIC,
        _bash,
        ("run", "--model", "stand-in/one", "go"),
        {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_SHARE": "1",
            "OPENCODE_CONFIG_CONTENT": json.dumps(_OPENCODE),
        },
    ),
}


def run_host(
    program: str, arguments: tuple[str, ...], cwd: Path, variables: Mapping[str, str], wait_s: float
) -> str:
    """Run a host until it ends, kill the processes that it started, and return its output."""
    with subprocess.Popen(  # noqa: S603 - the user's own program
        [program, *arguments],
        cwd=cwd,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as running:
        try:
            return running.communicate(timeout=wait_s)[0].decode(errors="replace")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
