"""Determines whether the daemon can answer and, if not, whether a restart might help."""

from collections.abc import Callable
from typing import Final

LAG_S: Final = 0.5


class Health:
    """Combines the problems of several parts. Each function returns a problem or an empty string.

    `lost` returns how it is known that the journal was lost, which no restart fixes.
    `standby` returns which daemon decides instead of this one, if another one does.

    `serving` is True except while the daemon is starting or stopping.
    """

    def __init__(  # noqa: PLR0913 - whom it asks
        self,
        *,
        bus: Callable[[], str],
        journal: Callable[[], str],
        lost: Callable[[], str] = str,
        stalled: Callable[[], str],
        lag_s: Callable[[], float],
        unwritten_stops: Callable[[], int],
        disk: Callable[[], str] = str,
        standby: Callable[[], str] = str,
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._lost = lost
        self._stalled = stalled
        self._lag_s = lag_s
        self._unwritten_stops = unwritten_stops
        self._disk = disk
        self._standby = standby
        self.serving = False

    def begin(self) -> None:
        """Mark the daemon as serving."""
        self.serving = True

    def end(self) -> None:
        """Mark the daemon as stopping."""
        self.serving = False

    def problem(self) -> str:
        """Return what is wrong with a daemon that should work, or an empty string."""
        if lost := self._lost():
            return lost
        if deaf := self._bus():
            return deaf
        if self._lag_s() > LAG_S:
            return f"the event loop lags by {self._lag_s():.1f} s"
        return self._journal()

    def not_ready(self) -> str:
        """Return why proposals cannot be answered now, or an empty string."""
        return (self.serving and self._standby()) or self.broken()

    def broken(self) -> str:
        """Return what is wrong, even on a standby, or an empty string."""
        if not self.serving:
            return "safetyd is starting or stopping"
        return self._lost() or self._stalled() or self.problem()

    def explained(self) -> str:
        """Return the result of `broken` for operators, with disk details if the disk is full."""
        problem = self.broken()
        full = self._disk() if problem and self.serving else ""
        return f"{problem}: {full}" if full else problem

    def trouble(self) -> str:
        """Return `explained` for the log, but an empty string while the daemon starts or stops."""
        return self.explained() if self.serving else ""

    def better_restarted(self) -> str:
        """Return why the watchdog should restart the daemon, or an empty string.

        While a stop is not written yet, no restart is requested, because a restart could lose it.
        """
        return "" if self._unwritten_stops() or self._lost() else self.problem()
