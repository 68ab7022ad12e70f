"""Real hosts report what model calls cost, and tools that ran although no hook asked."""

import json
import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation, ToolCall
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import HostUnasked, Paused
from tests.conftest import RunningDaemon, StartDaemon
from tests.hosts.real.host_programs import PROGRAMS, Program
from tests.hosts.real.left_out_ways import (
    CODEX_TRUST,
    GEMINI_TRUST,
    WAYS,
    Way,
    trust_project,
    write_files,
)
from tests.hosts.real.operator_commands import CONFIG, run_safetyd
from tests.hosts.real.real_hosts import HostHome
from tests.hosts.recorded_telemetry import sent_now
from tests.hosts.telemetry_sender import TelemetrySender
from tests.journeys.agents import until
from tests.journeys.audit_record import events

pytestmark = pytest.mark.hosts

SENDING: Final = [program for program in PROGRAMS if program.host != "opencode"]
WATCHED: Final = [program for program in SENDING if program.host != "copilot"]
CODEX: Final = [program for program in PROGRAMS if program.host == "codex"]

_NO_EXPORT: Final = '{"disableAllHooks": true, "env": {"OTEL_LOGS_EXPORTER": "none"}}'
_DISABLED: Final = '{"disableAllHooks": true, "env": {"CLAUDE_CODE_ENABLE_TELEMETRY": "0"}}'
_GEMINI: Final = '{"hooksConfig": {"enabled": false}, "telemetry": {"enabled": false}}'
_CODEX: Final = '[features]\nhooks = false\n[otel]\nexporter = "none"\n'

# Files of the project that switch off the hooks, and telemetry if the host lets them.
WITHOUT_TELEMETRY: Final = {
    "claude-code": (
        Way("no exporter", leaves_out=True, files={".claude/settings.json": _NO_EXPORT}),
        Way("telemetry disabled", leaves_out=True, files={".claude/settings.json": _DISABLED}),
    ),
    "codex": (
        Way("no otel", leaves_out=True, files={".codex/config.toml": _CODEX}, trust=CODEX_TRUST),
    ),
    "gemini": (
        Way(
            "no telemetry",
            leaves_out=False,
            files={".gemini/settings.json": _GEMINI},
            trust=GEMINI_TRUST,
        ),
    ),
}
UNNOTICED: Final = {"--setting-sources", "no exporter"}
UNNOTICED_BEFORE: Final = {("2.1.197", "telemetry disabled")}  # the newer version notices

TELEMETRY: Final = {"GEMINI_TELEMETRY_ENABLED": ""}  # a rehearsal switches it off
_VARIABLE: Final = re.compile(r"(OTEL_\w+)=(\S+)")
_SESSION: Final = re.compile(r"session ID (\d+)")

named = pytest.mark.parametrize("program", SENDING, ids=lambda program: program.name)


class TelemetrySession:
    """One program with hooks and telemetry, and the daemon that receives it."""

    def __init__(self, program: Program, daemon: RunningDaemon, home: HostHome) -> None:
        self.program = program
        self.daemon = daemon
        self.home = home
        self._variables: dict[str, str] = {}  # that a host without settings needs

    def protect(self) -> None:
        said = run_safetyd(self.home, self.daemon, "protect", self.program.host, "--yes")
        self._variables = dict(_VARIABLE.findall(said))

    def talk(self, conversation: Conversation, *options: str) -> None:
        self.home.talk(conversation, *options, variables={**TELEMETRY, **self._variables})

    def recorded(self) -> list[Event]:
        return events(self.daemon.data_dir)

    def unasked(self) -> list[HostUnasked]:
        return [event for event in self.recorded() if isinstance(event, HostUnasked)]

    def await_all(self) -> None:
        """Wait until everything that came so far has been compared."""
        later = TelemetrySender(self.daemon, "later")
        for sent in sent_now("claude-code-2.1.326"):
            later.send(sent.signal, sent.content)
        until(lambda: any(event.agent == "later" for event in self.unasked()))

    def spent(self) -> float:
        told: Any = json.loads(run_safetyd(self.home, self.daemon, "money", "--json"))
        return sum(float(row["spent"]) for row in told["agents"] if row["id"] == self.program.host)


@pytest.fixture
def started(
    start_daemon: StartDaemon, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Program], TelemetrySession]:
    def start(program: Program) -> TelemetrySession:
        home = HostHome(program, tmp_path_factory.mktemp("host"))
        return TelemetrySession(program, start_daemon(CONFIG), home)

    return start


@named
def test_what_model_calls_cost_is_counted(
    program: Program, started: Callable[[Program], TelemetrySession]
) -> None:
    session = started(program)

    def conversation() -> Conversation:
        yield session.home.headless.shell("touch harmless")

    with session.home.with_model():
        session.protect()
        session.talk(conversation())
        until(lambda: session.spent() > 0)

    assert (session.home.project / "harmless").exists()


@pytest.mark.parametrize(
    ("program", "way"),
    [
        pytest.param(program, way, id=f"{program.name}-{way.name}")
        for program in WATCHED
        for way in (*WAYS[program.host], *WITHOUT_TELEMETRY[program.host])
        if way.leaves_out
    ],
)
def test_a_tool_that_runs_without_hooks_is_noticed(
    program: Program,
    way: Way,
    started: Callable[[Program], TelemetrySession],
    record_property: Callable[[str, object], None],
) -> None:
    session = started(program)
    home, cell = session.home, (program.version, way.name)
    noticed = way.name not in UNNOTICED and cell not in UNNOTICED_BEFORE
    record_property("cell", "noticed" if noticed else "NOT noticed")

    def conversation() -> Conversation:
        yield home.headless.shell("git push origin main")

    with home.with_model():
        trust_project(home, way)
        session.protect()
        write_files(home, way)
        session.talk(conversation(), *way.options)
        session.await_all()

    assert home.pushed()
    found = [event for event in session.unasked() if event.agent == program.host]
    assert [event.calls for event in found] == [1] * noticed
    paused = {event.agent for event in session.recorded() if isinstance(event, Paused)}
    assert (program.host in paused) == noticed


@pytest.mark.parametrize("program", CODEX, ids=lambda program: program.name)
def test_text_typed_into_a_running_program_is_noticed(
    program: Program, started: Callable[[Program], TelemetrySession]
) -> None:
    session = started(program)

    def conversation() -> Conversation:
        running = yield ToolCall("exec_command", {"cmd": "cat", "tty": True, "yield_time_ms": 500})
        found = _SESSION.search(running)
        assert found is not None, running
        typing = {"session_id": int(found[1]), "yield_time_ms": 300}
        yield ToolCall("write_stdin", {**typing, "chars": ""})
        yield ToolCall("write_stdin", {**typing, "chars": "typed\n"})

    with session.home.with_model():
        session.protect()
        session.talk(conversation())
        until(session.unasked)

    (event,) = session.unasked()
    assert (event.tools, event.calls) == (("write_stdin",), 1)
