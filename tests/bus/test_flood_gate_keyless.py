import logging
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from safetyd.bus.flood_gate import FLOOD_BYTES, FLOOD_BYTES_PER_S, KeylessGate
from safetyd.daemon.config import Config
from safetyd.daemon.settings import Settings
from tests.bus.peer import Peer, Refused
from tests.bus.server_rig import Embedded
from tests.servers import until

SMALL = FLOOD_BYTES // 64


class Turned(list[bool]):
    """Records for each reconfiguration whether the server admits anonymous agents."""

    def __init__(self, keyless_gate: KeylessGate) -> None:
        super().__init__()
        self._keyless_gate = keyless_gate
        self.problems: list[str] = []

    def __call__(self) -> list[str]:
        self.append(self._keyless_gate.open)
        return [self.problems.pop()] if self.problems else []


@pytest.fixture
def keyless_gate(monkeypatch: pytest.MonkeyPatch) -> KeylessGate:
    """A gate with a short lockout."""
    monkeypatch.setattr("safetyd.bus.flood_gate.SHUT_S", 0.05)
    return KeylessGate()


@pytest.fixture
async def turned(keyless_gate: KeylessGate) -> AsyncIterator[Turned]:
    turned = Turned(keyless_gate)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keyless_gate.watch, turned)
        yield turned
        tasks.cancel_scope.cancel()


def lets_in(url: str) -> bool:
    try:
        Peer(url).close()
    except (OSError, Refused):
        return False
    return True


def flood(keyless_gate: KeylessGate, t: float = 0.0) -> None:
    for _ in range(65):
        keyless_gate.turned_away(SMALL, t)


async def test_flood_locks_anonymous_agents_out_for_a_time(
    keyless_gate: KeylessGate, turned: Turned, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "safetyd.bus")

    flood(keyless_gate)
    await until(lambda: turned)
    assert turned == [False]
    await until(lambda: keyless_gate.open)

    assert turned == [False, True]
    assert "shut out" in caplog.messages[0]
    assert "again" in caplog.messages[1]


async def test_next_flood_locks_anonymous_agents_out_again(
    keyless_gate: KeylessGate, turned: Turned
) -> None:
    flood(keyless_gate)
    await until(lambda: turned == [False, True])

    flood(keyless_gate, t=1.0)
    await until(lambda: turned == [False, True, False, True])


async def test_failed_reconfiguration_of_the_server_is_retried(
    keyless_gate: KeylessGate,
    turned: Turned,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("safetyd.bus.flood_gate.AGAIN_S", 0.01)
    turned.problems = ["the disk is full"]

    flood(keyless_gate)
    await until(lambda: turned == [False, False, True])

    assert "the disk is full" in caplog.text


async def test_slow_refused_messages_are_no_flood(
    keyless_gate: KeylessGate, turned: Turned
) -> None:
    for second in range(100):
        keyless_gate.turned_away(FLOOD_BYTES_PER_S, float(second))

    await anyio.lowlevel.checkpoint()

    assert turned == []
    assert keyless_gate.open


def test_gate_is_not_calm_during_a_flood(keyless_gate: KeylessGate) -> None:
    keyless_gate.turned_away(SMALL, 0.0)
    calm = keyless_gate.calm
    flood(keyless_gate)

    assert calm
    assert not keyless_gate.calm
    keyless_gate.turned_away(0, 60.0)
    assert keyless_gate.calm


async def test_lockout_closes_only_connections_of_anonymous_agents(
    server: Embedded, keyless_gate: KeylessGate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("safetyd.bus.flood_gate.SHUT_S", 1.0)
    settings = Settings(Config(), None, tmp_path)
    settings.keyless_gate = keyless_gate

    def turn() -> list[str]:
        server.configure(settings.users())
        return []

    await until(lambda: lets_in(server.url))

    with Peer(server.url, settings.keyring.operator) as keyed, Peer(server.url) as keyless:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keyless_gate.watch, turn)
            flood(keyless_gate)
            await until(lambda: not keyless_gate.open)
            assert await anyio.to_thread.run_sync(keyless.closed)
            assert not lets_in(server.url)
            await until(lambda: lets_in(server.url))
            tasks.cancel_scope.cancel()
        assert keyed.settle() == []
