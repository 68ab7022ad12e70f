"""Proposals in flight while the server loads a changed key."""

import os
import signal
from pathlib import Path
from typing import Final

import anyio
import pytest

from safetyd.bus.keyring import Keyring
from safetyd.client import Decision, Safety
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.servers import until

CHANGES: Final = 100
BETWEEN: Final = 200  # decisions between two changes
AT_ONCE: Final = 64


class Keys:
    """Two configurations of a daemon's server that alternate."""

    def __init__(self, daemon: RunningDaemon) -> None:
        self._daemon = daemon
        self._keyring = Keyring(daemon.data_dir / "keys")
        self._directory = daemon.data_dir / "nats"
        self._known: list[str] = []

    @property
    def _config(self) -> Path:
        return self._directory / "nats.conf"

    async def add(self, agent: str) -> None:
        before = self._config.read_text()
        self._keyring.add("agents", agent)
        os.kill(self._daemon.pid, signal.SIGHUP)
        await until(lambda: self._config.read_text() != before)
        self._known.append(self._config.read_text())

    def change(self) -> None:
        """Make the server load the other configuration, as after a lockout."""
        self._known.reverse()
        fresh = self._config.with_suffix(".next")
        fresh.write_text(self._known[0])
        fresh.rename(self._config)
        os.kill(int((self._directory / "nats-server.pid").read_text()), signal.SIGHUP)


@pytest.mark.journey
async def test_proposals_are_answered_while_the_server_loads_a_changed_key(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon(UNLIMITED)
    keys = Keys(daemon)
    await keys.add("keyed")
    await keys.add("other")
    decisions: list[Decision] = []

    async with (
        Safety("keyed", data_dir=daemon.data_dir) as keyed,
        Safety("open", data_dir=daemon.data_dir) as keyless,
    ):

        async def propose(safety: Safety) -> None:
            while len(decisions) < CHANGES * BETWEEN:
                decisions.append(await safety.propose("read_file", text="notes.txt"))
                if len(decisions) % BETWEEN == 0:
                    keys.change()

        for safety in (keyed, keyless):
            assert (await safety.propose("read_file")).allowed
        async with anyio.create_task_group() as tasks:
            for safety in (keyed, keyless) * AT_ONCE:
                tasks.start_soon(propose, safety)

    assert [decision for decision in decisions if not decision.allowed] == []
