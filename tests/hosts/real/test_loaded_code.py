"""What a host loads is code: it runs without a tool call, so changes of it need approval."""

import re
from typing import Final

import pytest

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation, ToolCall
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.real.host_programs import PROGRAMS, Program
from tests.hosts.real.operator_commands import CONFIG, run_safetyd
from tests.hosts.real.real_hosts import HostHome

pytestmark = pytest.mark.hosts

REQUEST: Final = re.compile(r"req_\w+")
SKILL: Final = """---
name: y
description: Look around
---
Look: !`touch loaded`
"""


HARMLESS: Final = SKILL.replace("!`touch loaded`", "around")
# A file of the project that each host loads. The other files are alike.
LOADED: Final = {
    "claude-code": ".claude/skills/y/SKILL.md",
    "codex": "AGENTS.md",
    "gemini": ".gemini/commands/y.toml",
    "copilot": ".github/copilot-instructions.md",
    "opencode": ".opencode/command/y.md",
}


class LoadingSession:
    """What was seen of one program in a project that receives a file from elsewhere."""

    def __init__(self, home: HostHome, daemon: RunningDaemon) -> None:
        self.home = home
        self.results: dict[str, str] = {}  # that the model got, by what was tried
        self.card = ""
        self.ran = False  # before the approval
        self._daemon = daemon
        self._file = home.project / LOADED[home.program.host]
        self._by_call = home.program.host == "claude-code"
        if self._by_call:  # Claude Code calls no skill that it did not find at the start
            self._put(HARMLESS)
        with home.with_model():
            self._safetyd("protect", home.program.host, "--yes")
            for number in range(2):
                home.talk(self._unchanged(number))
            if not self._by_call:
                self._put(SKILL)
            home.talk(self._arrived())
            home.talk(self._accepted())

    def _unchanged(self, number: int) -> Conversation:
        shell = self.home.headless.shell
        self.results[f"calm {number}"] = yield shell(f"touch calm-{number}")
        command = f"mkdir -p {self._file.parent}; echo '!`ls`' > {self._file}"
        self.results["written"] = yield shell(command)

    def _arrived(self) -> Conversation:
        load = self.home.headless.shell("touch loaded")
        if self._by_call:  # the inline command itself would do it
            self.results["first"] = yield self.home.headless.shell("ls")
            self._put(SKILL)
            load = ToolCall("Skill", {"skill": "y"})
        self.results["arrived"] = yield load
        self.ran = self.marked
        (request,) = REQUEST.findall(self.results["arrived"])[:1]
        self.card = self._safetyd("show", request)
        self._safetyd("approve", request)
        self.results["approved"] = yield load

    def _accepted(self) -> Conversation:
        self.results["accepted"] = yield self.home.headless.shell("touch accepted")

    def _put(self, text: str) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(text)

    @property
    def marked(self) -> bool:
        return (self.home.project / "loaded").exists()

    def _safetyd(self, *arguments: str) -> str:
        return run_safetyd(self.home, self._daemon, *arguments)


@pytest.fixture(scope="module", params=PROGRAMS, ids=lambda program: program.name)
def loading(
    request: pytest.FixtureRequest,
    start_module_daemon: StartDaemon,
    tmp_path_factory: pytest.TempPathFactory,
) -> LoadingSession:
    program: Program = request.param
    home = HostHome(program, tmp_path_factory.mktemp("host"))
    return LoadingSession(home, start_module_daemon(CONFIG))


def test_a_project_whose_files_do_not_change_causes_no_request(loading: LoadingSession) -> None:
    assert (loading.home.project / "calm-0").exists(), loading.results
    assert (loading.home.project / "calm-1").exists(), loading.results
    assert (loading.home.project / "accepted").exists(), loading.results


def test_a_file_that_the_host_would_load_needs_approval_to_be_written(
    loading: LoadingSession,
) -> None:
    assert "asked for approval" in loading.results["written"]


def test_a_file_that_arrived_in_another_way_is_loaded_only_once_approved(
    loading: LoadingSession,
) -> None:
    assert "asked for approval" in loading.results["arrived"]
    assert LOADED[loading.home.program.host].rpartition("/")[2] in loading.card
    assert not loading.ran
    # Claude Code may still have the harmless text that it found at the start.
    assert loading.marked or "Launching skill" in loading.results["approved"], loading.results
