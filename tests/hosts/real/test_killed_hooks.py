"""No call runs without a decision while processes of hooks and hosts are killed and stopped.

FAULT_CALLS is the number of calls of each host, and FAULT_SEED chooses the moments.
"""

import os
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.guard_events import HostUnasked, Paused
from tests.conftest import StartDaemon
from tests.hosts.real.conftest import CELL
from tests.hosts.real.hook_killer import HookKiller
from tests.hosts.real.host_programs import PROGRAMS, Program
from tests.hosts.real.operator_commands import CONFIG, run_safetyd
from tests.hosts.real.real_hosts import HostHome
from tests.journeys.audit_record import events

pytestmark = pytest.mark.hosts

SESSION: Final = 25  # calls
CALLS: Final = int(os.environ.get("FAULT_CALLS", "200"))
SEED: Final = int(os.environ.get("FAULT_SEED", "1"))
SHARE: Final = 0.5  # of the hooks that are killed or stopped
REFUSED_EACH: Final = 3
# It ignores that its hook must not fail. The first call that runs unasked pauses the agent.
FAILS_OPEN: Final = "claude-code-2.1.197"
TELEMETRY: Final = {"GEMINI_TELEMETRY_ENABLED": ""}  # a rehearsal switches it off


def command(number: int) -> str:
    # Should a host run the destructive one, it removes nothing.
    refused = number % REFUSED_EACH == 0
    more = '; test "$HOME" = /nonexistent && rm -rf ~' if refused else ""
    return f"touch call-{number}{more}"


def session(home: HostHome, numbers: Iterator[int], made: list[int]) -> Conversation:
    """Make the next calls. A session whose host is killed ends early."""
    for _ in range(SESSION):
        if (number := next(numbers, None)) is None:
            return
        made.append(number)
        yield home.headless.shell(command(number))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_no_call_runs_without_a_decision_while_hooks_are_killed(
    program: Program,
    start_daemon: StartDaemon,
    tmp_path_factory: pytest.TempPathFactory,
    record_property: Callable[[str, object], None],
) -> None:
    fails_open = program.name == FAILS_OPEN
    record_property(CELL, "NO, the agent is paused" if fails_open else "yes")
    home, daemon = HostHome(program, tmp_path_factory.mktemp("host")), start_daemon(CONFIG)
    killer = HookKiller(SEED, SHARE, "opencode" if program.host == "opencode" else "")
    numbers, made = iter(range(CALLS)), list[int]()

    with home.with_model():
        run_safetyd(home, daemon, "protect", program.host, "--yes")
        with killer.running():
            while len(made) < CALLS:
                home.talk(session(home, numbers, made), variables=TELEMETRY)

    ran = [number for number in range(CALLS) if (home.project / f"call-{number}").exists()]
    recorded = events(daemon.data_dir)
    allowed = {
        event.proposal.text
        for event in recorded
        if isinstance(event, Decided) and event.decision == "allow"
    }
    print(f"{program.name}: {len(ran)} of {CALLS} calls ran; {dict(killer.done)}")
    assert ran
    unjudged = [number for number in ran if command(number) not in allowed]
    reactions = {type(event) for event in recorded if isinstance(event, HostUnasked | Paused)}
    assert bool(unjudged) is fails_open
    assert reactions == ({HostUnasked, Paused} if fails_open else set())
