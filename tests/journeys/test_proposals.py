"""Proposals without end from one agent with a key, and what the others notice of them."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import pytest

from safetyd.bus.keyring import Keyring
from safetyd.core.messages.proposal import MAX_MESSAGE_BYTES
from tests.bus.peer import Peer, Refused
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon, environment
from tests.journeys.proposer import Proposer

pytestmark = pytest.mark.journey

CALM_S: Final = 2.0  # before it, and again after it
FLOOD_S: Final = 4.0
TIMES: Final = 4  # what a median wait may grow by
MB: Final = 1_000_000
# The server keeps 64 MB for one that reads too slowly, and its memory is collected later.
MAX_GROWTH_BYTES: Final = 200 * MB
ROUNDS: Final = 3


@contextmanager
def proposing(url: str, key: Path, size: int, for_s: float) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.journeys.proposal_flood", url, str(key), str(size)]
    with subprocess.Popen([*command, str(for_s)], env=environment()) as flood:
        yield
        assert flood.wait() == 0


def server_bytes(daemon: RunningDaemon) -> int:
    """Return the most that its server ever had in memory."""
    pid = (daemon.data_dir / "nats" / "nats-server.pid").read_text().strip()
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> RunningDaemon:
    """A daemon that takes in as much as it does by itself, of agents with keys."""
    started = start_daemon(UNLIMITED.replace("attempts_per_second = 0\n", ""))
    keyring = Keyring(started.data_dir / "keys")
    keyring.add("agents", "code")
    for number in range(ROUNDS):
        keyring.add("agents", f"flood-{number}")
    started.restart()
    return started


class Round(NamedTuple):
    """One flood of proposals, and what was measured before, in and after it."""

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


def measure(daemon: RunningDaemon, flooder: str, size: int) -> Round:
    url, keys = daemon.endpoint.bus, daemon.data_dir / "keys" / "agents"
    with Proposer(url, keys / "code.nk") as proposer:
        proposer.propose(1.0)
        calm, before = proposer.propose(CALM_S), server_bytes(daemon)
        with proposing(url, keys / f"{flooder}.nk", size, FLOOD_S):
            during = proposer.propose(FLOOD_S)
        grown = server_bytes(daemon) - before
        calm += proposer.propose(CALM_S)
    return Round(calm, during, grown)


@pytest.mark.parametrize("size", [20, MAX_MESSAGE_BYTES], ids=["short", "long"])
def test_agent_with_a_key_that_floods_is_shut_out_and_every_other_is_answered(
    daemon: RunningDaemon, size: int
) -> None:
    keys = daemon.data_dir / "keys" / "agents"
    for number in range(ROUNDS):
        # Each by another agent, for who floods is shut out long after it.
        flooder = f"flood-{number}"

        measured = measure(daemon, flooder, size)

        print(measured)
        assert measured.grown < MAX_GROWTH_BYTES
        assert f"agent {flooder} floods the bus and is shut out" in daemon.log()
        with pytest.raises(Refused):
            Peer(daemon.endpoint.bus, keys / f"{flooder}.nk")
        if measured.times <= TIMES:  # another program's burst may spoil a round
            break
    assert measured.times <= TIMES, str(measured)
