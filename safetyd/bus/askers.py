"""How much people may ask: each a share of the daemon's time, and who floods is shut out.

What a question takes is measured, so a large daemon answers fewer of them and never decides less.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import anyio
import msgspec

from safetyd.bus.door import SHUT_S, until_turned
from safetyd.clock import uptime

SHARE: Final = 0.05  # of the time, for each person
SAVED_S: Final = 0.2  # of working time, for somebody who was silent
LEAST_S: Final = 0.0002  # to read a question and to send its answer
MAX_WAITING: Final = 16  # questions of one person
MAX_WAITING_OF_ALL: Final = 64  # at a quarter of a megabyte each
BUSY_S: Final = 0.2
FLOOD: Final = 1000.0  # questions that were refused, or kilobytes of them
FLOOD_PER_S: Final = 100.0  # of which are forgotten
# Names beyond this share what one may ask.
MAX_KNOWN: Final = 4096

PER_S: Final = 4000.0  # messages that are read, or pieces of them
PIECE_BYTES: Final = 2048
BURST: Final = 50.0

log = logging.getLogger("safetyd.bus")


class Asker(msgspec.Struct):
    left_s: float  # of working time
    t: float
    waiting: int = 0
    over: float = 0.0  # what was refused, as a bucket that leaks


class Askers:
    """Who may ask now, and who is shut out until when."""

    def __init__(self, now: Callable[[], float] = uptime) -> None:
        self._now = now
        self._known: dict[str, Asker] = {}
        self._waiting = 0
        self._shut: dict[str, float] = {}
        self._flooded = anyio.Event()

    @property
    def shut(self) -> frozenset[str]:
        """Return who may not ask now."""
        return frozenset(self._shut)

    def admit(self, name: str, size: int) -> float:
        """Return 0.0 if a question may be put, or the seconds until one may."""
        asker = self._asker(name)
        if asker.waiting >= MAX_WAITING or self._waiting >= MAX_WAITING_OF_ALL:
            wait = BUSY_S
        elif asker.left_s <= 0.0:
            wait = (LEAST_S - asker.left_s) / SHARE
        else:
            asker.left_s -= LEAST_S
            return 0.0
        self._turn_away(name, asker, size)
        return wait

    def begin(self, name: str) -> None:
        """Count a question as waiting until `end`."""
        self._asker(name).waiting += 1
        self._waiting += 1

    def end(self, name: str) -> None:
        self._asker(name).waiting -= 1
        self._waiting -= 1

    def charge(self, name: str, seconds: float) -> None:
        """Take off what answering has taken so far."""
        self._asker(name).left_s -= seconds

    async def watch(self, turn: Callable[[], Sequence[str]], hang_up: Callable[[], None]) -> None:
        """Shut out who floods and let them in again, for ever.

        `turn` makes the server do as `shut` says, and returns why it does not, if it does not.
        `hang_up` drops what a flood left in the connection: others would wait behind it.
        """
        while True:
            with anyio.move_on_after(self._until_next()):
                await self._flooded.wait()
            self._let_in()
            await until_turned(turn)
            if self._flooded.is_set():
                self._flooded = anyio.Event()
                hang_up()

    def _turn_away(self, name: str, asker: Asker, size: int) -> None:
        asker.over += max(1.0, size / 1024)
        if asker.over > FLOOD and name not in self._shut:
            log.warning("%s floods the bus with questions and may not ask for %d s", name, SHUT_S)
            self._shut[name] = self._now() + SHUT_S
            self._flooded.set()

    def _until_next(self) -> float | None:
        """Return the seconds until somebody is let in again, None if nobody is out."""
        if not self._shut:
            return None
        return max(min(self._shut.values()) - self._now(), 0.0)

    def _let_in(self) -> None:
        for name in [name for name, until in self._shut.items() if until <= self._now()]:
            del self._shut[name]
            self._asker(name).over = 0.0
            log.info("%s may ask again", name)

    def _asker(self, name: str) -> Asker:
        now = self._now()
        if name not in self._known and len(self._known) >= MAX_KNOWN:
            name = ""
        asker = self._known.setdefault(name, Asker(SAVED_S, now))
        gone, asker.t = now - asker.t, now
        asker.left_s = min(asker.left_s + gone * SHARE, SAVED_S)
        asker.over = max(asker.over - gone * FLOOD_PER_S, 0.0)
        return asker


class Pace:
    """How fast a connection is read; what comes faster waits in the server until it is dropped."""

    def __init__(self, now: Callable[[], float] = uptime) -> None:
        self._now = now
        self._left = BURST
        self._t = now()

    def __call__(self, size: int) -> float:
        """Count a message; return how long to rest before the next."""
        now = self._now()
        self._left = min(self._left + (now - self._t) * PER_S, BURST)
        self._t = now
        self._left -= max(1.0, size / PIECE_BYTES)
        return 0.0 if self._left > 0.0 else (BURST - self._left) / PER_S
