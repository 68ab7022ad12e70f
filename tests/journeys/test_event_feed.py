"""The daemon is killed repeatedly while a reader follows its events."""

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from typing import Final

import aiohttp
import anyio
import anyio.to_thread
import nats
import nats.errors
import pytest

from safetyd.core.events.daemon_events import SafetyEvent
from tests.conftest import RunningDaemon, StartDaemon
from tests.http_examples import bearer
from tests.journeys.agents import UNBOUNDED, crowd
from tests.journeys.audit_record import assert_verifies, events
from tests.servers import until

KILLS: Final = 8
AT_MOST: Final = 40  # events received between two kills
PATIENCE_S: Final = 60.0
AGAIN_S: Final = 0.02


class Follower:
    """Follows from the beginning and resumes after the last event it received."""

    def __init__(self, daemon: RunningDaemon) -> None:
        self._daemon = daemon
        self.seqs: list[int] = []
        self.connections = 0

    async def follow(self) -> None:
        async with aiohttp.ClientSession() as session:
            while True:
                with suppress(aiohttp.ClientError, OSError):
                    await self._listen(session)
                await anyio.sleep(AGAIN_S)

    async def hears(self, more: int) -> None:
        """Wait for this many more events."""
        enough = len(self.seqs) + more
        await until(lambda: len(self.seqs) >= enough, PATIENCE_S)

    async def _listen(self, session: aiohttp.ClientSession) -> None:
        after = self.seqs[-1] if self.seqs else 0
        url = f"{self._daemon.endpoint.web}/api/feed?after={after}"
        async with session.ws_connect(url, headers=bearer(self._daemon)) as socket:
            self.connections += 1
            async for message in socket:
                self.seqs.append(json.loads(message.data)["seq"])


@asynccontextmanager
async def restless_operator(daemon: RunningDaemon) -> AsyncIterator[None]:
    """Pause and unpause agents continuously, which makes events."""
    seed = (daemon.data_dir / "keys/operator.nk").read_text().strip()
    person = await nats.connect(
        daemon.endpoint.bus,
        nkeys_seed_str=seed,
        inbox_prefix="_INBOX.op.local",
        max_reconnect_attempts=-1,
        reconnect_time_wait=AGAIN_S,
    )

    async def be_restless() -> None:
        for command in cycle(("pause", "unpause")):
            said = json.dumps({"command": command, "agent": "code", "reason": "drill"}).encode()
            with suppress(nats.errors.Error):
                await person.request("safety.v1.control.local", said, timeout=1)
            await anyio.sleep(AGAIN_S / 4)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(be_restless)
        yield
        tasks.cancel_scope.cancel()
    await person.close()


@pytest.mark.journey
@pytest.mark.req("S1.45")
async def test_a_resuming_reader_gets_every_event_once_despite_kills(
    start_daemon: StartDaemon,
) -> None:
    daemon = await anyio.to_thread.run_sync(start_daemon, UNBOUNDED)
    follower, chance = Follower(daemon), random.Random()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follower.follow)
        async with restless_operator(daemon):
            with crowd(daemon.endpoint.bus, "a", "b"):
                for _ in range(KILLS):
                    await follower.hears(chance.randrange(1, AT_MOST))
                    await anyio.to_thread.run_sync(daemon.kill)
                    await anyio.to_thread.run_sync(daemon.start)
        await anyio.to_thread.run_sync(daemon.restart)
        recorded = [e.seq for e in events(daemon.data_dir) if isinstance(e, SafetyEvent)]
        await until(lambda: follower.seqs[-1] >= recorded[-1], PATIENCE_S)
        tasks.cancel_scope.cancel()

    later = [e.seq for e in events(daemon.data_dir) if isinstance(e, SafetyEvent)]
    assert follower.seqs == [seq for seq in later if seq <= follower.seqs[-1]]
    assert follower.connections > KILLS
    assert_verifies(daemon)
