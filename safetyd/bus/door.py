"""Whether agents without a key may come in: a flood shuts the door on them for a while.

Being refused slows nobody down, and a flood costs the server as much as the daemon, so what helps
the others is to end its connection. Nothing tells keyless agents apart, so all wait outside.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import anyio

# All keyless agents together may send 256 KiB a second. This is what comes on top of that.
FLOOD_BYTES: Final = 16 * 1024 * 1024
FLOOD_BYTES_PER_S: Final = 4 * 1024 * 1024
CALM_BYTES: Final = 1024 * 1024
SHUT_S: Final = 30.0
AGAIN_S: Final = 1.0

log = logging.getLogger("safetyd.bus")


class Door:
    """Counts what is turned away, as a bucket that leaks."""

    def __init__(self) -> None:
        self.open = True
        self._over = 0.0
        self._t = 0.0
        self._flooded = anyio.Event()

    @property
    def calm(self) -> bool:
        """Say whether there is time to read what is turned away."""
        return self._over < CALM_BYTES

    def turned_away(self, size: int, t: float) -> None:
        """Count a message that was refused because too many come."""
        self._over = max(0.0, self._over - (t - self._t) * FLOOD_BYTES_PER_S) + size
        self._t = t
        if self._over > FLOOD_BYTES:
            self._flooded.set()

    async def watch(self, turn: Callable[[], Sequence[str]]) -> None:
        """Shut on a flood and open again, for ever.

        `turn` makes the server do as `open` says, and returns why it does not, if it does not.
        """
        while True:
            await self._flooded.wait()
            log.warning("agents without a key flood the bus and are shut out for %d s", SHUT_S)
            self.open = False
            await until_turned(turn)
            await anyio.sleep(SHUT_S)
            self.open = True
            await until_turned(turn)
            log.info("agents without a key are let in again")
            self._over = 0.0
            self._flooded = anyio.Event()


async def until_turned(turn: Callable[[], Sequence[str]]) -> None:
    """Return once the server does as it was told."""
    while problems := turn():
        log.warning("the server does not take it on: %s", "; ".join(problems))
        await anyio.sleep(AGAIN_S)
