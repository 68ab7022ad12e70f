"""How many queries operators and observers may send.

While agents keep the daemon busy, each of them has a share of its time, and what a query takes is
measured. On a quiet daemon only the number of waiting queries is limited. A client that floods is
shut out.
"""

from collections.abc import Callable
from typing import Final

from safetyd.bus.flood_gate import MAX_KNOWN, FloodBounds, FloodGate
from safetyd.clock import uptime
from safetyd.core.token_bucket import Refill, TokenBucket

SHARE: Final = 0.05  # of the time, for each person
SAVED_S: Final = 0.2  # of working time, for somebody who was silent
LEAST_S: Final = 0.0002  # to read a question and to send its answer
MAX_WAITING: Final = 16  # questions of one person
MAX_WAITING_OF_ALL: Final = 64  # at a quarter of a megabyte each
BUSY_S: Final = 0.2
LOADED_PER_S: Final = 20.0  # messages of agents; with fewer, queries take nothing from them
SAMPLE_S: Final = 0.25  # over which they are counted at least
BOUNDS: Final = FloodBounds(
    flood=1000.0,
    per_s=100.0,
    piece_bytes=1024,
    shut="%s floods the bus with questions and may not ask for %d s",
    again="%s may ask again",
)

PER_S: Final = 4000.0  # messages that are read, or pieces of them
PIECE_BYTES: Final = 2048
BURST: Final = 50.0


_WORK: Final = Refill(SHARE, SAVED_S)
_READ: Final = Refill(PER_S, BURST)


class AskerShare(TokenBucket):
    """Working time that somebody may still use, in seconds, and how many questions wait."""

    waiting: int = 0


class QuestionLimits:
    """Decide who may send a query now, and notice floods.

    `heard` counts messages of agents; without it there is always load. `is_operator` says who may
    protect as well as look.
    """

    def __init__(
        self,
        now: Callable[[], float] = uptime,
        heard: Callable[[], int] | None = None,
        is_operator: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        self._now = now
        self._heard = heard
        self._is_operator = is_operator
        self._loaded = heard is None
        self._sampled = (now(), heard() if heard else 0)
        self._known: dict[str, AskerShare] = {}
        self._waiting = 0
        self.flood_gate = FloodGate(BOUNDS, now)

    def admit(self, name: str, size: int, protects: Callable[[], bool] = bool) -> float:
        """Return 0.0 if a query may be sent, or the seconds until one may.

        `protects` says whether operators always get the answer; it is only called if that matters.
        """
        share = self._share(name)
        if share.tokens <= 0.0 and not self._under_load():
            share.tokens = LEAST_S
        if share.waiting >= MAX_WAITING or self._waiting >= MAX_WAITING_OF_ALL:
            wait = BUSY_S
        elif share.tokens <= 0.0 and not (self._is_operator(name) and protects()):
            wait = _WORK.wait_s(share.tokens, LEAST_S)
        else:
            share.tokens -= LEAST_S
            return 0.0
        self.flood_gate.turned_away(name, size)
        return wait

    def begin(self, name: str) -> None:
        """Count a question as waiting until `end`."""
        self._share(name).waiting += 1
        self._waiting += 1

    def end(self, name: str) -> None:
        self._share(name).waiting -= 1
        self._waiting -= 1

    def charge(self, name: str, seconds: float) -> None:
        """Take off what answering has taken so far."""
        self._share(name).tokens -= seconds

    def _under_load(self) -> bool:
        """Return whether agents sent much since the last sample, or within it."""
        if self._heard is None:
            return True
        since, before = self._sampled
        now = self._now()
        if now - since >= SAMPLE_S:
            heard = self._heard()
            self._loaded = heard - before >= LOADED_PER_S * (now - since)
            self._sampled = now, heard
        return self._loaded

    def _share(self, name: str) -> AskerShare:
        if name not in self._known and len(self._known) >= MAX_KNOWN:
            name = ""
        share = self._known.setdefault(name, AskerShare())
        _WORK.fill(share, self._now())
        return share


class QuestionRate:
    """How fast a connection is read; what comes faster waits in the server until it is dropped."""

    def __init__(self, now: Callable[[], float] = uptime) -> None:
        self._now = now
        self._bucket = TokenBucket()

    def __call__(self, size: int) -> float:
        """Count a message; return how long to rest before the next."""
        left = _READ.fill(self._bucket, self._now()) - max(1.0, size / PIECE_BYTES)
        self._bucket.tokens = left
        return 0.0 if left > 0.0 else _READ.wait_s(left, BURST)
