"""A flood of proposals from one agent with a key hardly affects others."""

from collections.abc import Sequence
from typing import Final

import pytest

from safetyd.bus.keyring import Keyring
from safetyd.core.messages.proposal import MAX_MESSAGE_BYTES
from tests.bus.peer import Peer, Refused
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.flood_round import (
    FLOOD_S,
    MB,
    ROUNDS,
    Round,
    assert_hardly_slower,
    flood,
    measure,
    peak_bytes,
)
from tests.journeys.processes import server_pid
from tests.journeys.proposer import Proposer

pytestmark = [pytest.mark.alone, pytest.mark.journey]

# The server buffers 64 MB for a slow reader and frees it later.
MAX_GROWTH_BYTES: Final = 200 * MB


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> RunningDaemon:
    """A daemon with default limits and two agents with keys."""
    started = start_daemon(UNLIMITED.replace("attempts_per_second = 0\n", ""))
    keyring = Keyring(started.data_dir / "keys")
    keyring.add("agents", "code")
    for number in range(ROUNDS):
        keyring.add("agents", f"flood-{number}")
    started.restart()
    return started


@pytest.mark.parametrize("size", [20, MAX_MESSAGE_BYTES], ids=["short", "long"])
def test_a_flooding_agent_is_disconnected_and_all_others_are_answered(
    daemon: RunningDaemon, size: int
) -> None:
    url, keys = daemon.endpoint.bus, daemon.data_dir / "keys" / "agents"

    def measured(number: int) -> Round:
        # A different agent each time, because a flooding agent stays disconnected for long.
        flooder = keys / f"flood-{number}.nk"
        with Proposer(url, keys / "code.nk") as proposer:

            def during() -> Sequence[float]:
                with flood("proposal_flood", url, flooder, size):
                    return proposer.propose(FLOOD_S)

            found = measure(proposer.propose, during, lambda: peak_bytes(server_pid(daemon)))
        assert found.grown < MAX_GROWTH_BYTES
        assert f"agent {flooder.stem} floods the bus and is shut out" in daemon.log()
        with pytest.raises(Refused):
            Peer(url, flooder)
        return found

    assert_hardly_slower(measured)
