"""Who floods is shut out for a while, and nobody else is.

Being refused slows nobody down, and what is never answered costs the server, so what helps the
others is that the server no longer takes it in. Nothing tells keyless agents apart, so all of them
wait outside together.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import anyio
import msgspec

from safetyd.clock import uptime
from safetyd.core.token_bucket import Refill, TokenBucket

# All keyless agents together may send 256 KiB a second. This is what comes on top of that.
FLOOD_BYTES: Final = 16 * 1024 * 1024
FLOOD_BYTES_PER_S: Final = 4 * 1024 * 1024
CALM_BYTES: Final = 1024 * 1024
SHUT_S: Final = 30.0
AGAIN_S: Final = 1.0

_FLOOD: Final = Refill(FLOOD_BYTES_PER_S, FLOOD_BYTES)

log = logging.getLogger("safetyd.bus")
# Names beyond this are counted together.
MAX_KNOWN: Final = 4096


class KeylessGate:
    """Counts what is turned away of agents without a key."""

    def __init__(self) -> None:
        self.open = True
        self._room = TokenBucket(FLOOD_BYTES)
        self._flooded = anyio.Event()

    @property
    def calm(self) -> bool:
        """Say whether there is time to read what is turned away."""
        return self._room.tokens > FLOOD_BYTES - CALM_BYTES

    def turned_away(self, size: int, t: float) -> None:
        """Count a message that was refused because too many come."""
        self._room.tokens = _FLOOD.fill(self._room, t) - size
        if self._room.tokens < 0:
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
            self._room.tokens = FLOOD_BYTES
            self._flooded = anyio.Event()


async def until_turned(turn: Callable[[], Sequence[str]]) -> None:
    """Return once the server does as it was told."""
    while problems := turn():
        log.warning("the server does not take it on: %s", "; ".join(problems))
        await anyio.sleep(AGAIN_S)


class FloodBounds(msgspec.Struct, frozen=True, kw_only=True):
    """What is a flood, and how it is told."""

    flood: float  # messages that were refused, or pieces of them
    per_s: float  # of which are forgotten
    piece_bytes: int
    shut: str  # with the name and the seconds
    again: str  # with the name


class FloodGate:
    """Counts what is refused of each, and knows who is shut out until when."""

    def __init__(self, bounds: FloodBounds, now: Callable[[], float] = uptime) -> None:
        self._bounds = bounds
        self._now = now
        self._refill = Refill(bounds.per_s, bounds.flood)
        self._room: dict[str, TokenBucket] = {}
        self._shut: dict[str, float] = {}
        self._flooded = anyio.Event()

    @property
    def shut(self) -> frozenset[str]:
        """Return who is shut out now."""
        return frozenset(self._shut)

    def turned_away(self, name: str, size: int) -> None:
        """Count a message that was refused because too many come."""
        room = self._room_of(name)
        room.tokens -= max(1.0, size / self._bounds.piece_bytes)
        if room.tokens < 0 and name not in self._shut:
            log.warning(self._bounds.shut, name, SHUT_S)
            self._shut[name] = self._now() + SHUT_S
            self._flooded.set()

    async def watch(
        self, turn: Callable[[], Sequence[str]], then: Callable[[], None] = lambda: None
    ) -> None:
        """Shut out who floods and let them in again, for ever.

        `turn` makes the server do as `shut` says, and returns why it does not, if it does not.
        `then` is done whenever somebody more is out.
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
        """Return the seconds until somebody is let in again, None if nobody is out."""
        if not self._shut:
            return None
        return max(min(self._shut.values()) - self._now(), 0.0)

    def _let_in(self) -> None:
        for name in [name for name, until in self._shut.items() if until <= self._now()]:
            del self._shut[name]
            self._room_of(name).tokens = self._bounds.flood
            log.info(self._bounds.again, name)

    def _room_of(self, name: str) -> TokenBucket:
        """Return what may still be refused of somebody before it is a flood."""
        if name not in self._room and len(self._room) >= MAX_KNOWN:
            name = ""
        room = self._room.setdefault(name, TokenBucket())
        self._refill.fill(room, self._now())
        return room
