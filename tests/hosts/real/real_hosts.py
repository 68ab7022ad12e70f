"""How each host is run without a person, with a stand-in for its model."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final, NamedTuple

from safetyd.console.hosts.rehearsal.headless_hosts import (
    ADDRESS,
    HEADLESS_HOSTS,
    HeadlessHost,
    run_host,
)
from safetyd.console.hosts.rehearsal.model_stand_in import Conversation, Talk, ToolCall, model
from tests.hosts.real.host_programs import Program, installed
from tests.hosts.real.terminal import Keys, Terminal

RUN_S: Final = 240.0
PROJECT: Final = "@PROJECT@"


class Asking(NamedTuple):
    """How a host is started so that it asks its user, and the call of a command for that."""

    arguments: tuple[str, ...]
    shell: Callable[[str], ToolCall]


class RealHost(NamedTuple):
    """The settings of a host's user, where `ADDRESS` is that of the model, and what is known."""

    settings: Mapping[str, str]  # the user's own files, by their path below the home
    added: tuple[str, ...] = ()  # files that `protect` creates
    samples: tuple[ToolCall, ...] = ()  # calls to record; `PROJECT` is the project's folder
    asking: Asking | None = None


def _codex_escalated(command: str) -> ToolCall:
    outside = {"sandbox_permissions": "require_escalated", "justification": "It needs more"}
    return ToolCall("exec_command", {"cmd": command, **outside})


REAL_HOSTS: Final = {
    "claude-code": RealHost(
        {".claude/settings.json": '{\n  "cleanupPeriodDays": 30\n}\n'},
        asking=Asking(("-p", "go"), HEADLESS_HOSTS["claude-code"].shell),
    ),
    "codex": RealHost(
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
        asking=Asking(
            ("exec", "--skip-git-repo-check", "--approve-for-me", "go"), _codex_escalated
        ),
    ),
    "gemini": RealHost(
        {
            ".gemini/settings.json": """{
  // mine
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "general": {"enableAutoUpdate": false}
}
"""
        },
    ),
    "copilot": RealHost(
        {".copilot/settings.json": '{"theme": "dark"}'},
        added=(".copilot/hooks/safetyd.json",),
        samples=(
            ToolCall("bash", {"command": "ls; exit 3", "description": "Run a command"}),
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
        asking=Asking(("-p", "go"), HEADLESS_HOSTS["copilot"].shell),
    ),
    "opencode": RealHost(
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
            ToolCall("bash", {"command": "ls; exit 3", "description": "Run a command"}),
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
        self.headless = HEADLESS_HOSTS[program.host]
        self.home = folder / "home"
        self.project = folder / "project"
        self.remote = folder / "remote.git"
        self.output = ""
        self._commands = installed(program)
        self.home.mkdir(parents=True)
        self._create_project()

    def variables(self, **more: str) -> dict[str, str]:
        """Return an environment in which the host finds nothing of this machine's user."""
        own = str(Path(sys.executable).parent)  # with the command `safetyd`
        path = os.pathsep.join((str(self._commands), own, os.environ["PATH"]))
        key = {"OPENAI_API_KEY": "none"}  # which the settings of Codex name
        terminal = {"LANG": "C.UTF-8", "TERM": "dumb"}
        return {"PATH": path, "HOME": str(self.home), **terminal, **key, **more}

    @contextmanager
    def with_model(self) -> Iterator[None]:
        """Serve the model, and write the settings of a user who has that model."""
        with model(self.headless.api) as self._model:
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
        self,
        conversation: Conversation,
        *more: str,
        permitted: bool = True,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Run the host through a conversation, by default with all permissions."""
        arguments = self._given().arguments
        if not permitted:
            arguments = tuple(one for one in arguments if not one.startswith("--dangerously-"))
        self.talk_as(arguments + more, conversation, **(variables or {}))

    def talk_as(
        self, arguments: tuple[str, ...], conversation: Conversation, **variables: str
    ) -> None:
        """Run the host with other arguments."""
        program = str(self._commands / self.program.binary)
        with self._led_by(conversation):
            self.output = self._run(program, arguments, **variables)

    def talk_at_terminal(
        self, arguments: tuple[str, ...], conversation: Conversation, keys: Sequence[Keys]
    ) -> None:
        """Run the host at a terminal until the conversation ends or all keys were pressed."""
        command = [str(self._commands / self.program.binary), *arguments]
        variables = {**self.variables(**self._given().variables), "TERM": "xterm-256color"}
        with self._led_by(conversation):
            talk = self._model.talk
            with Terminal(command, self.project, variables) as terminal:
                terminal.use(keys, lambda: talk.ended, RUN_S)
            self.output = terminal.text

    def run_script(
        self, script: str, conversation: Conversation | None = None, **variables: str
    ) -> str:
        """Run commands as the user. If they start the host, it needs a conversation."""
        with nullcontext() if conversation is None else self._led_by(conversation):
            return self._run("bash", ("-ec", script), **variables)

    @contextmanager
    def _led_by(self, conversation: Conversation) -> Iterator[None]:
        self._model.talk = Talk(conversation)
        yield
        self._model.talk.end()

    def _given(self) -> HeadlessHost:
        settings = self.home.parent / "settings.json"
        settings.write_text(self.headless.settings)
        return self.headless.addressed(self._model.url, settings)

    def _run(self, program: str, arguments: tuple[str, ...], **variables: str) -> str:
        given = {**self._given().variables, **variables}
        environment = self.variables(**{name: value for name, value in given.items() if value})
        return run_host(program, arguments, self.project, environment, RUN_S)

    def heard(self) -> list[str]:
        """Return what the model received, request by request."""
        return self._model.bodies

    def samples(self) -> Conversation:
        for call in self.host.samples:
            text = json.dumps(call.arguments).replace(PROJECT, str(self.project))
            yield ToolCall(call.tool, json.loads(text))

    def _addressed(self, text: str) -> str:
        return text.replace(ADDRESS, self._model.url)

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
