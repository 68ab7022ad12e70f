"""A flood from an anonymous agent hardly affects agents with keys."""

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from threading import Event
from time import monotonic, perf_counter
from typing import Final

import pytest

from safetyd.bus.keyring import Keyring
from tests.bus.peer import Peer, Refused
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.flood_round import FLOOD_S, MB, Round, assert_hardly_slower, flood, measure

pytestmark = [pytest.mark.alone, pytest.mark.journey]

OTHERS: Final = ("code", "ops", "support")
PER_SECOND: Final = 100


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


def journal_bytes(daemon: RunningDaemon) -> int:
    seed = daemon.data_dir / "keys" / "daemon.nk"
    with Peer(daemon.endpoint.bus, seed, "_INBOX.daemon.test") as peer:
        info = peer.ask("$JS.API.STREAM.INFO.SAFETY_JOURNAL", b"").fields
    return int(info["state"]["bytes"])


@pytest.mark.parametrize("names", [1, 1000], ids=["one", "many"])
def test_an_anonymous_flood_hardly_slows_agents_with_keys(
    start_daemon: StartDaemon, names: int
) -> None:
    def measured(_number: int) -> Round:
        daemon = start_daemon(UNLIMITED.replace("attempts_per_second = 0\n", ""))
        for name in OTHERS:
            Keyring(daemon.data_dir / "keys").add("agents", name)
        daemon.restart()
        with ExitStack() as stack:
            agents = Agents(daemon, stack)

            def during() -> Sequence[float]:
                with flood("keyless_flood", daemon.endpoint.bus, names) as sent:
                    waits = agents.propose(FLOOD_S)
                assert int(sent[0]) > 16 * MB
                return waits

            found = measure(agents.propose, during, lambda: journal_bytes(daemon))
        assert found.grown < 10 * MB
        assert "anonymous agents flood the bus and are shut out" in daemon.log()
        with pytest.raises(Refused):
            Peer(daemon.endpoint.bus)
        daemon.stop()
        return found

    assert_hardly_slower(measured)
