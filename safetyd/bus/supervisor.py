"""Supervises the embedded server: restarts it when it ends, and kills it when it hangs."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio

from safetyd.bus.connections import Connection
from safetyd.bus.embedded_server import EmbeddedServer
from safetyd.clock import uptime

LOOK_S: Final = 0.25
FROZEN_S: Final = 2.5
# After the disk was full, a stream rejects writes until the server restarts.
UNWRITTEN_S: Final = 3.0
ROOM_BYTES: Final = 4 * 1024 * 1024
# How long the server may take after its start to answer and to write pending batches.
PATIENCE_S: Final = 5.0

log = logging.getLogger("safetyd.bus")


class Supervisor:
    """Two tasks: one restarts the server, the other kills it when it hangs."""

    def __init__(
        self,
        server: EmbeddedServer,
        link: Connection,
        store: Path,
        unwritten_s: Callable[[], float],
    ) -> None:
        self._server = server
        self._link = link
        self._store = store
        self._unwritten_s = unwritten_s
        self._started = uptime()

    async def restart(self) -> None:
        """Restart the server whenever it ends."""
        while True:
            code = await self._server.ended()
            log.error("nats-server ended with exit code %d; restarting it", code)
            await anyio.sleep(LOOK_S)
            self._started = uptime()
            self._server.start()

    async def watch(self) -> None:
        """Kill the server if it hangs, or cannot write although there is disk space."""
        while True:
            await anyio.sleep(LOOK_S)
            problem = self._problem()
            if problem:
                log.error("killing nats-server: %s", problem)
                self._started = uptime()
                self._server.kill()

    def _problem(self) -> str:
        started_s, deaf_s, unwritten_s = self._started_s, self._link.deaf_s, self._unwritten_s()
        patient = started_s < PATIENCE_S
        if deaf_s > FROZEN_S and not (patient and deaf_s > started_s):
            return f"it has not answered for {deaf_s:.1f} s"
        if unwritten_s > UNWRITTEN_S and not patient and self._has_room():
            return f"it has not written for {unwritten_s:.1f} s although there is disk space"
        return ""

    @property
    def _started_s(self) -> float:
        return uptime() - self._started

    def _has_room(self) -> bool:
        return shutil.disk_usage(self._store).free > ROOM_BYTES
