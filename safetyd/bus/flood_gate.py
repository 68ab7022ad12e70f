"""Temporarily shuts out clients that flood the bus.

Refusing messages does not slow a client down, and even unanswered messages cost time. So for a
while, the server accepts no messages from a client that floods. Anonymous agents cannot be
distinguished, so they are shut out together.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import anyio
import msgspec

from safetyd.clock import uptime
from safetyd.core.token_bucket import Refill, TokenBucket

# These limits count only bytes beyond the 256 KiB a second that all anonymous agents together may
# send.
FLOOD_BYTES: Final = 16 * 1024 * 1024
FLOOD_BYTES_PER_S: Final = 4 * 1024 * 1024
CALM_BYTES: Final = 1024 * 1024
SHUT_S: Final = 30.0
AGAIN_S: Final = 1.0

_FLOOD: Final = Refill(FLOOD_BYTES_PER_S, FLOOD_BYTES)

log = logging.getLogger("safetyd.bus")
# Names beyond this number share one count.
MAX_KNOWN: Final = 4096


class KeylessGate:
    """Counts refused messages of anonymous agents."""

    def __init__(self) -> None:
        self.open = True
        self._room = TokenBucket(FLOOD_BYTES)
        self._flooded = anyio.Event()

    @property
    def calm(self) -> bool:
        """Return True if few messages were refused, so that there is time to decode them."""
        return self._room.tokens > FLOOD_BYTES - CALM_BYTES

    def turned_away(self, size: int, t: float) -> None:
        """Count a message that was refused because of a rate limit."""
        self._room.tokens = _FLOOD.fill(self._room, t) - size
        if self._room.tokens < 0:
            self._flooded.set()

    async def watch(self, turn: Callable[[], Sequence[str]]) -> None:
        """Keep shutting out anonymous agents when they flood, and readmit them later.

        `turn` configures the server and returns the errors.
        """
        while True:
            await self._flooded.wait()
            log.warning("anonymous agents flood the bus and are shut out for %d s", SHUT_S)
            self.open = False
            await until_turned(turn)
            await anyio.sleep(SHUT_S)
            self.open = True
            await until_turned(turn)
            log.info("anonymous agents may connect again")
            self._room.tokens = FLOOD_BYTES
            self._flooded = anyio.Event()


async def until_turned(turn: Callable[[], Sequence[str]]) -> None:
    """Call `turn` until it succeeds in configuring the server."""
    while problems := turn():
        log.warning("cannot configure the server: %s", "; ".join(problems))
        await anyio.sleep(AGAIN_S)


class FloodBounds(msgspec.Struct, frozen=True, kw_only=True):
    """How many refused messages count as a flood, and the lines to log."""

    flood: float  # number of messages; a long message counts as several
    per_s: float  # the count decreases by this much per second
    piece_bytes: int
    shut: str  # log line, with placeholders for the name and the seconds
    again: str  # log line, with a placeholder for the name


class FloodGate:
    """Counts refused messages by name, and shuts out clients that flood."""

    def __init__(self, bounds: FloodBounds, now: Callable[[], float] = uptime) -> None:
        self._bounds = bounds
        self._now = now
        self._refill = Refill(bounds.per_s, bounds.flood)
        self._room: dict[str, TokenBucket] = {}
        self._shut: dict[str, float] = {}
        self._flooded = anyio.Event()

    @property
    def shut(self) -> frozenset[str]:
        """Return the names that are shut out now."""
        return frozenset(self._shut)

    def turned_away(self, name: str, size: int) -> None:
        """Count a message that was refused because of a rate limit."""
        room = self._room_of(name)
        room.tokens -= max(1.0, size / self._bounds.piece_bytes)
        if room.tokens < 0 and name not in self._shut:
            log.warning(self._bounds.shut, name, SHUT_S)
            self._shut[name] = self._now() + SHUT_S
            self._flooded.set()

    async def watch(
        self, turn: Callable[[], Sequence[str]], then: Callable[[], None] = lambda: None
    ) -> None:
        """Keep shutting out clients that flood, and readmit them later.

        `turn` configures the server and returns the errors. `then` is called after a client was
        shut out.
        """
        while True:
            with anyio.move_on_after(self._until_next()):
                await self._flooded.wait()
            self._let_in()
            await until_turned(turn)
            if self._flooded.is_set():
                self._flooded = anyio.Event()
                then()

    def _until_next(self) -> float | None:
        """Return the seconds until the next client is readmitted, or None if none is shut out."""
        if not self._shut:
            return None
        return max(min(self._shut.values()) - self._now(), 0.0)

    def _let_in(self) -> None:
        for name in [name for name, until in self._shut.items() if until <= self._now()]:
            del self._shut[name]
            self._room_of(name).tokens = self._bounds.flood
            log.info(self._bounds.again, name)

    def _room_of(self, name: str) -> TokenBucket:
        """Return a bucket with the number of messages that may still be refused before a flood."""
        if name not in self._room and len(self._room) >= MAX_KNOWN:
            name = ""
        room = self._room.setdefault(name, TokenBucket())
        self._refill.fill(room, self._now())
        return room
