"""What a host loads is code: it runs without a tool call, so changes of it need approval."""

import re
from collections.abc import Callable
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


class LoadingSession:
    """What was seen of one program in a project that receives a skill from elsewhere."""

    def __init__(self, home: HostHome, daemon: RunningDaemon) -> None:
        self.home = home
        self.results: dict[str, str] = {}  # that the model got, by what was tried
        self._daemon = daemon
        self._skill = home.project / ".claude" / "skills" / "y" / "SKILL.md"
        with home.with_model():
            self._safetyd("protect", home.program.host, "--yes")
            home.talk(self._unchanged())
            self._skill.parent.mkdir(parents=True)
            self._skill.write_text(SKILL)
            home.talk(self._arrived())
            home.talk(self._accepted())

    def _unchanged(self) -> Conversation:
        for number in range(3):
            name = f"calm {number}"
            self.results[name] = yield self.home.headless.shell(f"touch calm-{number}")
        given: dict[str, object] = {"file_path": str(self._skill), "content": SKILL}
        self.results["written"] = yield ToolCall("Write", given)

    def _arrived(self) -> Conversation:
        self.results["arrived"] = yield ToolCall("Skill", {"skill": "y"})
        self.ran = self.marked
        (request,) = REQUEST.findall(self.results["arrived"])[:1]
        self.card = self._safetyd("show", request)
        self._safetyd("approve", request)
        self.results["approved"] = yield ToolCall("Skill", {"skill": "y"})

    def _accepted(self) -> Conversation:
        self.results["accepted"] = yield self.home.headless.shell("touch accepted")

    @property
    def marked(self) -> bool:
        return (self.home.project / "loaded").exists()

    def _safetyd(self, *arguments: str) -> str:
        return run_safetyd(self.home, self._daemon, *arguments)


@pytest.fixture(
    scope="module",
    params=[program for program in PROGRAMS if program.host == "claude-code"],
    ids=lambda program: program.name,
)
def loading(
    request: pytest.FixtureRequest,
    start_module_daemon: StartDaemon,
    tmp_path_factory: pytest.TempPathFactory,
) -> LoadingSession:
    program: Program = request.param
    home = HostHome(program, tmp_path_factory.mktemp("host"))
    return LoadingSession(home, start_module_daemon(CONFIG))


def test_a_project_whose_files_do_not_change_causes_no_request(loading: LoadingSession) -> None:
    assert all((loading.home.project / f"calm-{n}").exists() for n in range(3)), loading.results
    assert (loading.home.project / "accepted").exists(), loading.results


def test_a_skill_that_the_model_writes_needs_approval(loading: LoadingSession) -> None:
    assert "asked for approval" in loading.results["written"]


def test_a_skill_that_arrived_in_another_way_runs_only_once_approved(
    loading: LoadingSession, record_property: Callable[[str, object], None]
) -> None:
    record_property("cell", "yes")
    assert "asked for approval" in loading.results["arrived"]
    assert "touch loaded" in loading.card
    assert not loading.ran
    assert loading.marked, loading.results
