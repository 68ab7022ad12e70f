"""The circuit breaker of one channel.

    closed --failures--> open --time--> half_open --answer--> closed
                          ^                 |
                          +-----failure-----+

The breaker of a misconfigured channel is `parked`. Once an operator has fixed the channel, the
breaker is half open. While it is half open, one message is sent and the others wait.
"""

import math
from collections import deque
from typing import Final

from safetyd.operators.contract.notification_contract import BreakerState

IN_A_ROW: Final = 5  # consecutive failures that open the breaker
WINDOW_S: Final = 120.0
ENOUGH: Final = 20  # attempts in the window; if half of them failed, the breaker opens too
OPEN_S: Final = 30.0  # doubled each time the breaker opens again
MAX_OPEN_S: Final = 600.0


class ChannelBreaker:
    """The state of a breaker. `up` is True if the channel accepts messages, as far as known."""

    def __init__(self, *, up: bool) -> None:
        self.up = up
        self.state: BreakerState = "closed"
        self._open_s = OPEN_S
        self._until = 0.0
        self._probing = False
        self._in_a_row = 0
        self._failures = 0
        self._tries: deque[tuple[float, bool]] = deque()  # end times, and True if failed

    def free_at(self) -> float:
        """Return when the next attempt may begin, or infinity if it depends on another event."""
        match self.state:
            case "closed":
                return -math.inf
            case "open":
                return self._until
            case "half_open":
                return math.inf if self._probing else -math.inf
            case "parked":
                return math.inf

    def began(self) -> None:
        """Record the start of an attempt."""
        if self.state != "closed":
            self.state, self._probing = "half_open", True

    def answered(self, now: float) -> None:
        """Record that the channel works, even if it refused a message."""
        if self.state == "parked":
            return  # that attempt began before the channel was parked
        if self.state != "closed":
            self._reset()
        self.up = True
        self._in_a_row = 0
        self._note(now, failed=False)

    def failed(self, now: float) -> None:
        """Record a temporary failure."""
        if self.state == "half_open":
            self._open_s = min(2 * self._open_s, MAX_OPEN_S)
            self._open(now)
        elif self.state == "closed":
            self._in_a_row += 1
            self._note(now, failed=True)
            if self._in_a_row >= IN_A_ROW or self._mostly_failed():
                self._open(now)

    def park(self) -> None:
        """Block the channel until an operator fixes it."""
        self.state, self.up = "parked", False

    def recover(self) -> None:
        """Allow one attempt now."""
        if self.state in {"open", "parked"}:
            self.state, self._probing = "half_open", False

    def _open(self, now: float) -> None:
        self.state, self.up = "open", False
        self._until = now + self._open_s

    def _reset(self) -> None:
        self.state, self._open_s = "closed", OPEN_S
        self._failures = 0
        self._tries.clear()

    def _note(self, now: float, *, failed: bool) -> None:
        self._tries.append((now, failed))
        self._failures += failed
        while self._tries[0][0] < now - WINDOW_S:
            self._failures -= self._tries.popleft()[1]

    def _mostly_failed(self) -> bool:
        return len(self._tries) >= ENOUGH and 2 * self._failures >= len(self._tries)
