"""How each host is run without a person, with a stand-in for its model."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from tests.hosts.real.anthropic_api import ANTHROPIC
from tests.hosts.real.gemini_api import GEMINI
from tests.hosts.real.host_programs import Program, installed
from tests.hosts.real.model_stand_in import Conversation, ModelApi, Talk, ToolCall, model
from tests.hosts.real.openai_api import OPENAI

RUN_S: Final = 240.0
ADDRESS: Final = "@ADDRESS@"
PROJECT: Final = "@PROJECT@"


class RealHost(NamedTuple):
    """A host: its arguments, variables and settings, where `ADDRESS` is that of the model."""

    api: ModelApi
    shell: Callable[[str], ToolCall]
    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    settings: Mapping[str, str]  # the user's own files, by their path below the home
    added: tuple[str, ...] = ()  # files that `protect` creates
    samples: tuple[ToolCall, ...] = ()  # calls to record; `PROJECT` is the project's folder
    names_calls: bool = True  # it gives each call an id, and its result the same


def _claude_shell(command: str) -> ToolCall:
    return ToolCall("Bash", {"command": command, "description": "Run a command"})


def _codex_shell(command: str) -> ToolCall:
    return ToolCall("exec_command", {"cmd": command})


def _gemini_shell(command: str) -> ToolCall:
    return ToolCall("run_shell_command", {"command": command, "description": "Run a command"})


def _bash(command: str) -> ToolCall:
    return ToolCall("bash", {"command": command, "description": "Run a command"})


# Each runs with all permissions that it can be given, so that nothing but the hook refuses.
REAL_HOSTS: Final = {
    "claude-code": RealHost(
        ANTHROPIC,
        _claude_shell,
        ("-p", "go", "--dangerously-skip-permissions"),
        {
            "ANTHROPIC_BASE_URL": ADDRESS,
            "ANTHROPIC_API_KEY": "sk-none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",  # root may skip permissions only in a sandbox
        },
        {".claude/settings.json": '{\n  "cleanupPeriodDays": 30\n}\n'},
    ),
    "codex": RealHost(
        OPENAI,
        _codex_shell,
        ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "go"),
        {"OPENAI_API_KEY": "sk-none"},
        {
            ".codex/config.toml": f"""# mine
model = "gpt-5"
model_provider = "stand_in"
[model_providers.stand_in]
name = "stand-in"
base_url = "{ADDRESS}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""
        },
    ),
    "gemini": RealHost(
        GEMINI,
        _gemini_shell,
        ("-p", "go", "--yolo", "--skip-trust"),
        {
            "GEMINI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": ADDRESS,
        },
        {
            ".gemini/settings.json": """{
  // mine
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "general": {"enableAutoUpdate": false}
}
"""
        },
        names_calls=False,
    ),
    "copilot": RealHost(
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
        {".copilot/settings.json": '{"theme": "dark"}'},
        added=(".copilot/hooks/safetyd.json",),
        samples=(
            _bash("ls; exit 3"),
            ToolCall("create", {"path": f"{PROJECT}/a.txt", "file_text": "one\n"}),
            ToolCall("view", {"path": f"{PROJECT}/a.txt"}),
            ToolCall("edit", {"path": f"{PROJECT}/a.txt", "old_str": "one\n", "new_str": "two\n"}),
            ToolCall("edit", {"path": f"{PROJECT}/a.txt", "old_str": "absent", "new_str": ""}),
            ToolCall("glob", {"pattern": "*.txt", "paths": PROJECT}),
            ToolCall("grep", {"pattern": "two", "paths": [PROJECT]}),
            ToolCall("list_bash", {}),
            ToolCall(
                "task",
                {
                    "agent_type": "explore",
                    "description": "Look",
                    "prompt": "Look around",
                    "name": "look",
                },
            ),
        ),
        names_calls=False,
    ),
    "opencode": RealHost(
        ANTHROPIC,
        _bash,
        ("run", "go"),
        {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_SHARE": "1",
        },
        {
            ".config/opencode/opencode.json": f"""{{
  // mine
  "$schema": "https://opencode.ai/config.json",
  "model": "stand-in/one",
  "small_model": "stand-in/one",
  "provider": {{
    "stand-in": {{
      "npm": "@ai-sdk/anthropic",
      "options": {{"baseURL": "{ADDRESS}/v1", "apiKey": "none"}},
      "models": {{"one": {{"tool_call": true}}}},
    }},
  }},
  "permission": {{"external_directory": "allow", "bash": {{"*": "allow"}}}},
}}
"""
        },
        added=(".config/opencode/plugin/safetyd.js",),
        samples=(
            _bash("ls; exit 3"),
            ToolCall("write", {"filePath": f"{PROJECT}/a.txt", "content": "one\n"}),
            ToolCall("read", {"filePath": f"{PROJECT}/a.txt"}),
            ToolCall(
                "edit",
                {"filePath": f"{PROJECT}/a.txt", "oldString": "one\n", "newString": "two\n"},
            ),
            ToolCall("glob", {"pattern": "*.txt", "path": PROJECT}),
            ToolCall("grep", {"pattern": "two", "path": PROJECT}),
            ToolCall("todowrite", {"todos": []}),
            ToolCall("no_such_tool", {}),
            ToolCall(
                "task",
                {"description": "Look", "prompt": "Look around", "subagent_type": "general"},
            ),
        ),
    ),
}


class HostHome:
    """A home and a project for one program, in a folder of a test."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.program = program
        self.host = REAL_HOSTS[program.host]
        self.home = folder / "home"
        self.project = folder / "project"
        self.remote = folder / "remote.git"
        self.output = ""
        self._commands = installed(program)
        self.home.mkdir(parents=True)
        self._create_project()

    def variables(self, **more: str) -> dict[str, str]:
        """Return an environment in which the host finds nothing of this machine's user."""
        path = os.pathsep.join((str(self._commands), os.environ["PATH"]))
        return {"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8", "TERM": "dumb", **more}

    @contextmanager
    def with_model(self) -> Iterator[None]:
        """Serve the model, and write the settings of a user who has that model."""
        with model(self.host.api) as self._model:
            for name, text in self.settings().items():
                path = self.home / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            yield

    def settings(self) -> dict[str, str]:
        """Return the user's own settings files."""
        return {name: self._addressed(text) for name, text in self.host.settings.items()}

    def files(self) -> dict[str, str]:
        """Return the settings files and those of safetyd as they are now."""
        names = (*self.host.settings, *self.host.added)
        paths = {name: self.home / name for name in names}
        return {name: path.read_text() for name, path in paths.items() if path.exists()}

    def talk(
        self, conversation: Conversation, *more: str, variables: Mapping[str, str] | None = None
    ) -> None:
        """Run the host through a conversation."""
        self._model.talk = Talk(conversation)
        given = {name: self._addressed(text) for name, text in self.host.variables.items()}
        given |= variables or {}
        self.output = self._run(more, self.variables(**given))
        self._model.talk.end()

    def samples(self) -> Conversation:
        for call in self.host.samples:
            text = json.dumps(call.arguments).replace(PROJECT, str(self.project))
            yield ToolCall(call.tool, json.loads(text))

    def _addressed(self, text: str) -> str:
        return text.replace(ADDRESS, self._model.url)

    def _run(self, more: tuple[str, ...], variables: dict[str, str]) -> str:
        program = str(self._commands / self.program.binary)
        with subprocess.Popen(
            [program, *self.host.arguments, *more],
            cwd=self.project,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as running:
            try:
                return running.communicate(timeout=RUN_S)[0].decode(errors="replace")
            finally:
                # What it started ends with it.
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)

    def _create_project(self) -> None:
        def git(*arguments: str) -> None:
            who = ("-c", "user.name=me", "-c", "user.email=me@example.org")
            subprocess.run(
                ["git", *who, *arguments],
                cwd=self.project,
                env=self.variables(),
                check=True,
                capture_output=True,
            )

        self.project.mkdir()
        git("init", "--quiet", "--initial-branch=main")
        git("init", "--quiet", "--bare", "--initial-branch=main", str(self.remote))
        git("remote", "add", "origin", str(self.remote))
        git("commit", "--quiet", "--allow-empty", "--message", "first")

    def pushed(self) -> bool:
        return (self.remote / "refs/heads/main").exists()
