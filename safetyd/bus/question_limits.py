"""Limits the queries of operators and observers.

While agents keep the daemon busy, each operator's queries may use only a share of the daemon's
time. Otherwise only the number of waiting queries is limited. A client that floods is shut out.
"""

from collections.abc import Callable
from typing import Final

from safetyd.bus.flood_gate import MAX_KNOWN, FloodBounds, FloodGate
from safetyd.clock import uptime
from safetyd.core.token_bucket import Refill, TokenBucket

SHARE: Final = 0.05  # share of the daemon's time for each operator
SAVED_S: Final = 0.2  # how much unused time an operator can save up
LEAST_S: Final = 0.0002  # minimum charge, for decoding a query and sending its answer
MAX_WAITING: Final = 16  # maximum number of waiting queries of one operator
MAX_WAITING_OF_ALL: Final = 64  # up to 256 KB each
BUSY_S: Final = 0.2
LOADED_PER_S: Final = 20.0  # if agents send fewer messages, the time is not limited
SAMPLE_S: Final = 0.25  # minimum time over which messages are counted
BOUNDS: Final = FloodBounds(
    flood=1000.0,
    per_s=100.0,
    piece_bytes=1024,
    shut="%s floods the bus with queries and is shut out for %d s",
    again="%s may send queries again",
)

PER_S: Final = 4000.0  # messages per second; a long message counts as several
PIECE_BYTES: Final = 2048
BURST: Final = 50.0


_WORK: Final = Refill(SHARE, SAVED_S)
_READ: Final = Refill(PER_S, BURST)


def relay_sender(relay: str) -> str:
    """Return the name under which the messages of a relay are limited. No operator can have it."""
    return f"relay:{relay}"


class AskerShare(TokenBucket):
    """The seconds that an operator's queries may still use, and how many queries are waiting."""

    waiting: int = 0


class QuestionLimits:
    """Decides whether a query is answered now, and detects floods.

    `heard` returns the number of messages of agents. Without it, the daemon always counts as busy.
    `is_operator` returns False for observers.
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
        """Return 0.0 if the query is admitted, or the seconds until it would be.

        If `protects` returns True, operators may exceed their time. `protects` is called only when
        needed.
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
        """Count a query as waiting until `end`."""
        self._share(name).waiting += 1
        self._waiting += 1

    def end(self, name: str) -> None:
        self._share(name).waiting -= 1
        self._waiting -= 1

    def charge(self, name: str, seconds: float) -> None:
        """Charge the time that an answer took so far."""
        self._share(name).tokens -= seconds

    def _under_load(self) -> bool:
        """Return True if agents sent many messages since the last sample."""
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
    """Limits how fast a connection is read. Unread messages wait in the server."""

    def __init__(self, now: Callable[[], float] = uptime) -> None:
        self._now = now
        self._bucket = TokenBucket()

    def __call__(self, size: int) -> float:
        """Count a message. Return how many seconds to pause before the next."""
        left = _READ.fill(self._bucket, self._now()) - max(1.0, size / PIECE_BYTES)
        self._bucket.tokens = left
        return 0.0 if left > 0.0 else _READ.wait_s(left, BURST)
