"""Questions without end from somebody who may only look, and what the others notice of them."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import pytest

from safetyd.bus.keyring import Keyring
from tests.bus.peer import Peer
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon, environment
from tests.journeys.agents import until
from tests.journeys.people import control, query
from tests.journeys.proposer import NAMES, Proposer, introduce

pytestmark = pytest.mark.journey

CALM_S: Final = 2.0  # before it, and again after it
FLOOD_S: Final = 4.0
AGAIN_S: Final = 1.0
TIMES: Final = 4  # what a median wait may grow by
MB: Final = 1_000_000
MAX_GROWTH_BYTES: Final = 100 * MB
ROUNDS: Final = 3


@contextmanager
def asking(url: str, key: Path, for_s: float) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.journeys.question_flood", url, str(key)]
    with subprocess.Popen([*command, str(for_s)], env=environment()) as flood:
        yield
        assert flood.wait() == 0


def memory_bytes(daemon: RunningDaemon) -> int:
    """Return the most that it ever had in memory."""
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    """A daemon that knows many agents, and an agent, observers and an operator by their keys."""
    started = start_module_daemon(UNLIMITED)
    keyring = Keyring(started.data_dir / "keys")
    keyring.add("agents", "code")
    for number in range(ROUNDS):
        keyring.add("observers", f"wall-{number}")
    keyring.add("operators", "night")
    started.restart()
    introduce(started)
    return started


class Round(NamedTuple):
    """One flood of questions, and what was measured before, in and after it."""

    calm: Sequence[float]
    during: Sequence[float]
    grown: int

    @property
    def times(self) -> float:
        return median(self.during) / median(self.calm)

    def __str__(self) -> str:
        calm, during, worst = median(self.calm), median(self.during), max(self.during)
        waits = f"{calm * 1000:.2f} ms, in the flood {during * 1000:.2f} ms"
        return f"{waits}, at worst {worst * 1000:.1f} ms; {self.grown / MB:.1f} MB more"


def measure(daemon: RunningDaemon, observer: str) -> Round:
    url, keys = daemon.endpoint.bus, daemon.data_dir / "keys"
    with Proposer(url, keys / "agents" / "code.nk") as proposer:
        proposer.propose(1.0)
        calm, before = proposer.propose(CALM_S), memory_bytes(daemon)
        with asking(url, keys / "observers" / f"{observer}.nk", FLOOD_S):
            during = proposer.propose(FLOOD_S / 2)
            assert control(daemon, "ack")["ok"]
            until(lambda: is_answered(url, keys / "operator.nk"))
            during += proposer.propose(FLOOD_S / 2)
        grown = memory_bytes(daemon) - before
        calm += proposer.propose(CALM_S)
    return Round(calm, during, grown)


def test_questions_without_end_slow_no_agent_and_no_operator(daemon: RunningDaemon) -> None:
    for number in range(ROUNDS):
        # Each by another observer, for who floods is shut out long after it.
        measured = measure(daemon, f"wall-{number}")

        print(measured)
        assert measured.grown < MAX_GROWTH_BYTES
        assert f"wall-{number} floods the bus with questions" in daemon.log()
        assert query(daemon, "status")["agents"] > NAMES
        if measured.times <= TIMES:  # another program's burst may spoil a round
            break
    assert measured.times <= TIMES, str(measured)


def is_answered(url: str, key: Path) -> bool:
    with Peer(url, key, "_INBOX.op.local") as peer:
        try:
            answer = peer.ask("safety.v1.query.local", b'{"command":"status"}', AGAIN_S)
        except AssertionError:
            return False
    return bool(answer.payload and answer.fields["ok"])


def test_operator_who_floods_can_still_command(daemon: RunningDaemon) -> None:
    url, key = daemon.endpoint.bus, daemon.data_dir / "keys" / "operators" / "night.nk"

    with asking(url, key, FLOOD_S / 2):
        until(lambda: may_not_ask(url, key))
        with Peer(url, key, "_INBOX.op.night.command") as night:
            stopped = night.ask("safety.v1.control.night", b'{"command":"stop","agent":"nobody"}')

    assert stopped.fields["journalled"]
    assert "night floods the bus with questions" in daemon.log()


def may_not_ask(url: str, key: Path) -> bool:
    with Peer(url, key, "_INBOX.op.night") as night:
        night.publish("safety.v1.query.night", b'{"command":"status"}')
        night.settle()
        return any("Permissions Violation" in error for error in night.errors)
