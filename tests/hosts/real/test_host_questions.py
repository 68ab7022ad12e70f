"""Which questions of the real programs safetyd answers, so that docs/hosts.md says what is true."""

import json
from collections.abc import Callable
from typing import Final

import pytest

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.real.host_programs import PROGRAMS, Program
from tests.hosts.real.operator_commands import run_safetyd
from tests.hosts.real.real_hosts import Asking, HostHome
from tests.hosts.real.terminal import Keys
from tests.hosts.real.test_real_hosts import PUSH, REQUEST

pytestmark = pytest.mark.hosts

ASKING: Final = [
    program for program in PROGRAMS if program.host in {"claude-code", "codex", "copilot"}
]
# Without a terminal, this one refuses the call before its hook for questions could run.
SILENT: Final = "claude-code-2.1.197"
# The user's rules. Claude Code asks before a push even if a hook has allowed it.
RULES: Final = '{"permissions": {"ask": ["Bash(git push:*)"], "deny": ["Bash(touch forbidden)"]}}'

# A user of Claude Code who has answered its first questions.
KNOWN_USER: Final = {
    "hasCompletedOnboarding": True,
    "theme": "dark",
    "customApiKeyResponses": {"approved": ["sk-none"], "rejected": []},
}
# In this mode Claude Code asks a service of its maker, which the stand-in is not.
AUTO: Final = ("-p", "go", "--permission-mode", "auto")
INTERACTIVE: Final = ("go", "--permission-mode", "default")
ESCAPE: Final = b"\x1b"


@pytest.fixture(scope="module", params=["approved", "all"])
def answers(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon, answers: str) -> RunningDaemon:
    return start_module_daemon(f'[hosts]\nwait_s = 0\nanswer_prompts = "{answers}"\n')


@pytest.mark.parametrize("program", ASKING, ids=lambda program: program.name)
def test_questions_without_a_terminal(
    program: Program,
    daemon: RunningDaemon,
    answers: str,
    tmp_path_factory: pytest.TempPathFactory,
    record_property: Callable[[str, object], None],
) -> None:
    home = HostHome(program, tmp_path_factory.mktemp("host"))
    asking = home.host.asking
    assert asking is not None
    with home.with_model():
        if program.host == "claude-code":
            (home.home / ".claude/settings.json").write_text(RULES)
        run_safetyd(home, daemon, "protect", program.host, "--yes")
        home.talk_as(asking.arguments, _calls(home, daemon, asking))

    asks = program.name != SILENT
    record_property("cell", "answered" if asks else "not asked")
    assert _ran(home, "by-rule") == (asks and answers == "all"), home.output
    assert home.pushed() == asks, home.output
    if program.host == "claude-code":
        assert not _ran(home, "forbidden")


@pytest.mark.parametrize(
    "program",
    [program for program in ASKING if program.host == "claude-code"],
    ids=lambda program: program.name,
)
def test_questions_at_a_terminal(
    program: Program,
    daemon: RunningDaemon,
    answers: str,
    tmp_path_factory: pytest.TempPathFactory,
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", "answered")
    home = HostHome(program, tmp_path_factory.mktemp("host"))
    trusted = {str(home.project): {"hasTrustDialogAccepted": True}}
    # If safetyd leaves a question to the user, the user says no.
    no = [Keys("touchby-rule", b""), Keys("proceed?", ESCAPE), Keys("shortcuts", b"")]
    with home.with_model():
        (home.home / ".claude/settings.json").write_text(RULES)
        (home.home / ".claude.json").write_text(json.dumps({**KNOWN_USER, "projects": trusted}))
        run_safetyd(home, daemon, "protect", program.host, "--yes")
        assert home.host.asking is not None
        calls = _calls(home, daemon, home.host.asking)
        home.talk_at_terminal(INTERACTIVE, calls, no if answers == "approved" else [])

    assert home.pushed(), home.output
    assert _ran(home, "by-rule") == (answers == "all"), home.output
    assert not _ran(home, "forbidden")


@pytest.mark.parametrize(
    "program",
    [program for program in ASKING if program.host == "claude-code"],
    ids=lambda program: program.name,
)
def test_a_refusal_of_the_host_itself_is_explained(
    program: Program,
    daemon: RunningDaemon,
    answers: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    agent = f"{answers}-{program.version.replace('.', '-')}"
    home = HostHome(program, tmp_path_factory.mktemp("host"))
    with home.with_model():
        run_safetyd(home, daemon, "protect", program.host, "--yes", "--agent", agent)
        home.talk_as(AUTO, _pytest(home))

    options = ("--agent", agent, "--text", "pytest", "--json")
    listed = json.loads(run_safetyd(home, daemon, "decisions", *options))
    (call,) = (row["id"] for row in listed["rows"])
    explained = json.loads(run_safetyd(home, daemon, "explain", call, "--json"))
    (outcome,) = explained["outcomes"]
    assert outcome["host_denied"]


def _pytest(home: HostHome) -> Conversation:
    yield home.headless.shell("pytest -q")


def _calls(home: HostHome, daemon: RunningDaemon, asking: Asking) -> Conversation:
    refused = yield asking.shell(PUSH)
    (request,) = REQUEST.findall(refused)[:1]
    run_safetyd(home, daemon, "approve", request)
    yield asking.shell(PUSH)
    yield asking.shell("touch by-rule")
    yield asking.shell("touch forbidden")


def _ran(home: HostHome, name: str) -> bool:
    return (home.project / name).exists()
