from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from safetyd.agents.intake import BOUNDS
from safetyd.agents.refusals import ANSWERED, WINDOW_S
from safetyd.bus.flood_gate import FloodGate
from safetyd.core.messages.proposal import MAX_MESSAGE_BYTES
from safetyd.daemon.config import Config
from safetyd.daemon.settings import Settings
from tests.bus.peer import Peer, Refused
from tests.bus.server_rig import Embedded
from tests.servers import until


class Hands:
    """A clock that a test sets."""

    t = 0.0

    def __call__(self) -> float:
        return self.t


def test_agent_that_waits_for_each_answer_does_not_flood() -> None:
    clock = Hands()
    flood_gate = FloodGate(BOUNDS, clock)

    for _ in range(10):
        for _ in range(ANSWERED):
            flood_gate.turned_away("code", MAX_MESSAGE_BYTES)
        clock.t += WINDOW_S

    assert flood_gate.shut == frozenset()


def test_floods_of_agents_are_counted_separately() -> None:
    flood_gate = FloodGate(BOUNDS, Hands())

    for _ in range(int(BOUNDS.flood)):
        flood_gate.turned_away("code", 20)
        flood_gate.turned_away("ops", 20)
    flood_gate.turned_away("ops", 20)

    assert flood_gate.shut == {"ops"}


def lets_in(url: str, key: Path) -> bool:
    try:
        Peer(url, key).close()
    except (OSError, Refused):
        return False
    return True


async def test_only_the_flooding_agent_is_locked_out_and_later_readmitted(
    server: Embedded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("safetyd.bus.flood_gate.SHUT_S", 1.0)
    settings = Settings(Config(), None, tmp_path)
    flooder, other = (settings.keyring.add("agents", name) for name in ("flood", "code"))

    def turn() -> list[str]:
        server.configure(settings.users())
        return []

    turn()
    await until(lambda: lets_in(server.url, other))

    with Peer(server.url, other) as keyed, Peer(server.url, flooder) as flood_gate:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(settings.flood_gate.watch, turn)
            for _ in range(2 * int(BOUNDS.flood)):
                settings.flood_gate.turned_away("flood", 20)
            assert await anyio.to_thread.run_sync(flood_gate.closed)
            assert not lets_in(server.url, flooder)
            assert lets_in(server.url, other)
            await until(lambda: lets_in(server.url, flooder))
            tasks.cancel_scope.cancel()
        assert keyed.settle() == []
