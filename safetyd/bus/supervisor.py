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
    """Two tasks: one restarts the server, the other kills it when it hangs.

    While the daemon itself is too busy to listen, it cannot know whether the server answers, so
    that time does not count.
    """

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
        self._busy: list[tuple[float, float]] = []  # ends and lengths of spans that do not count

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
            begun = uptime()
            await anyio.sleep(LOOK_S)
            now = uptime()
            if now - begun > 2 * LOOK_S:
                self._busy.append((now, now - begun))
            problem = self._problem()
            if problem:
                log.error("killing nats-server: %s", problem)
                self._started = uptime()
                self._server.kill()

    def _problem(self) -> str:
        given = uptime() - self._started, self._link.deaf_s, self._unwritten_s()
        started_s, deaf_s, unwritten_s = map(self._without_busy, given)
        self._busy = [span for span in self._busy if uptime() - span[0] < max(given)]
        patient = started_s < PATIENCE_S
        if deaf_s > FROZEN_S and not (patient and deaf_s > started_s):
            return f"it has not answered for {deaf_s:.1f} s"
        if unwritten_s > UNWRITTEN_S and not patient and self._has_room():
            return f"it has not written for {unwritten_s:.1f} s although there is disk space"
        return ""

    def _without_busy(self, seconds: float) -> float:
        """Return how much of the last `seconds` the daemon was not busy."""
        since = uptime() - seconds
        return seconds - sum(min(length, end - since) for end, length in self._busy if end > since)

    def _has_room(self) -> bool:
        return shutil.disk_usage(self._store).free > ROOM_BYTES
