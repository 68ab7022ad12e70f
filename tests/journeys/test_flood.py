"""A flood from an agent without a key, and what the agents with keys notice of it."""

import itertools
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Event
from time import monotonic, perf_counter
from typing import Final, NamedTuple

import pytest

from safetyd.bus.keyring import Keyring
from tests.bus.peer import Peer, Refused
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon, environment

pytestmark = pytest.mark.journey

OTHERS: Final = ("code", "ops", "support")
PER_SECOND: Final = 100
CALM_S: Final = 4.0  # before it, and again after it
MB: Final = 1_000_000
ROUNDS: Final = 3


class Agents:
    """Three agents with keys that take turns to propose."""

    def __init__(self, daemon: RunningDaemon, stack: ExitStack) -> None:
        keys, bus = daemon.data_dir / "keys" / "agents", daemon.endpoint.bus
        peers = {n: Peer(bus, keys / f"{n}.nk", f"_INBOX.agent.{n}") for n in OTHERS}
        for peer in peers.values():
            stack.enter_context(peer)
        self._turns = itertools.cycle(peers.items())
        self._numbers = itertools.count()

    def propose(self, for_s: float) -> list[float]:
        """Propose at a modest rate and return how long each answer took."""
        begun, waits = monotonic(), []
        for number in range(int(for_s * PER_SECOND)):
            Event().wait(max(0.0, begun + number / PER_SECOND - monotonic()))
            waits.append(self._ask())
        return waits

    def _ask(self) -> float:
        name, peer = next(self._turns)
        payload = b'{"type":"read_file","text":"notes %d"}' % next(self._numbers)
        begun = perf_counter()
        answer = peer.ask(f"safety.v1.propose.{name}", payload)
        waited = perf_counter() - begun
        assert answer.fields["decision"] == "allow", answer.fields
        return waited


@contextmanager
def flooding(daemon: RunningDaemon, names: int, for_s: float) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-m",
        "tests.journeys.keyless_flood",
        daemon.endpoint.bus,
        str(names),
    ]
    with subprocess.Popen(
        [*command, str(for_s)], stdout=subprocess.PIPE, text=True, env=environment()
    ) as flood:
        yield flood


def journal_bytes(daemon: RunningDaemon) -> int:
    seed = daemon.data_dir / "keys" / "daemon.nk"
    with Peer(daemon.endpoint.bus, seed, "_INBOX.daemon.test") as peer:
        info = peer.ask("$JS.API.STREAM.INFO.SAFETY_JOURNAL", b"").fields
    return int(info["state"]["bytes"])


def p99(waits: Sequence[float]) -> float:
    return sorted(waits)[int(len(waits) * 0.99)]


class Round(NamedTuple):
    """One flood, and what was measured before, in and after it."""

    calm: float
    during: float
    sent: int
    grown: int

    def __str__(self) -> str:
        waits = f"p99 {self.calm * 1000:.1f} ms, in the flood {self.during * 1000:.1f} ms"
        return (
            f"{waits}; {self.sent / MB:.0f} MB sent; the journal grew by {self.grown / MB:.1f} MB"
        )


def measure(daemon: RunningDaemon, names: int, for_s: float) -> Round:
    with ExitStack() as stack:
        agents = Agents(daemon, stack)
        agents.propose(1.0)
        calm = agents.propose(CALM_S)
        before = journal_bytes(daemon)
        with flooding(daemon, names, for_s) as flood:
            during = agents.propose(for_s)
            sent = int(flood.communicate()[0])
        grown = journal_bytes(daemon) - before
        calm += agents.propose(CALM_S)
    return Round(p99(calm), p99(during), sent, grown)


@pytest.mark.parametrize(("names", "for_s"), [(1, 20.0), (1000, 8.0)], ids=["one", "many"])
def test_flood_at_most_doubles_what_others_wait_and_hardly_fills_the_journal(
    start_daemon: StartDaemon, names: int, for_s: float
) -> None:
    for attempt in range(ROUNDS):
        daemon = start_daemon(UNLIMITED.replace("attempts_per_second = 0\n", ""))
        for name in OTHERS:
            Keyring(daemon.data_dir / "keys").add("agents", name)
        daemon.restart()

        measured = measure(daemon, names, for_s)

        print(measured)
        assert measured.sent > 16 * MB
        assert measured.grown < 10 * MB
        assert "agents without a key flood the bus and are shut out" in daemon.log()
        with pytest.raises(Refused):
            Peer(daemon.endpoint.bus)
        # A hundredth of a few hundred waits is a few: another program's burst may make them.
        if measured.during <= 2 * measured.calm or attempt == ROUNDS - 1:
            break
        daemon.stop()
    assert measured.during <= 2 * measured.calm, str(measured)
