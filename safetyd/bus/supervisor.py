"""Keeps the embedded server working: starts it when it has ended, ends it when it is stuck."""

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
# A stream that once met a full disk refuses writes until its server starts anew.
UNWRITTEN_S: Final = 3.0
ROOM_BYTES: Final = 4 * 1024 * 1024
# How long a start may take before the child is heard, and before it has written what waits.
PATIENCE_S: Final = 5.0

log = logging.getLogger("safetyd.bus")


class Supervisor:
    """Two tasks over one child."""

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
        """Start the child again whenever it ends."""
        while True:
            code = await self._server.ended()
            log.error("nats-server ended with %d and is started again", code)
            await anyio.sleep(LOOK_S)
            self._started = uptime()
            self._server.start()

    async def watch(self) -> None:
        """End a child that is frozen, or that cannot write although there is room again."""
        while True:
            await anyio.sleep(LOOK_S)
            problem = self._problem()
            if problem:
                log.error("nats-server is ended: %s", problem)
                self._started = uptime()
                self._server.kill()

    def _problem(self) -> str:
        started_s, deaf_s, unwritten_s = self._started_s, self._link.deaf_s, self._unwritten_s()
        patient = started_s < PATIENCE_S
        if deaf_s > FROZEN_S and not (patient and deaf_s > started_s):
            return f"it has not answered for {deaf_s:.1f} s"
        if unwritten_s > UNWRITTEN_S and not patient and self._has_room():
            return f"it has not written for {unwritten_s:.1f} s and there is room"
        return ""

    @property
    def _started_s(self) -> float:
        return uptime() - self._started

    def _has_room(self) -> bool:
        return shutil.disk_usage(self._store).free > ROOM_BYTES
