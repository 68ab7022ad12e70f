"""Whether the daemon can answer now, and whether a restart would help if it cannot."""

from collections.abc import Callable
from typing import Final

LAG_S: Final = 0.5


class Health:
    """Asks whoever knows; each function returns what is wrong there, or nothing.

    `serving` is true between the end of the start and the beginning of the end.
    """

    def __init__(
        self,
        *,
        bus: Callable[[], str],
        journal: Callable[[], str],
        stalled: Callable[[], str],
        lag_s: Callable[[], float],
        unwritten_stops: Callable[[], int],
        disk: Callable[[], str] = str,
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._stalled = stalled
        self._lag_s = lag_s
        self._unwritten_stops = unwritten_stops
        self._disk = disk
        self.serving = False

    def begin(self) -> None:
        """Take note that the start is over."""
        self.serving = True

    def end(self) -> None:
        """Take note that the daemon is about to end."""
        self.serving = False

    def problem(self) -> str:
        """Return what a restart would help against, or nothing."""
        if deaf := self._bus():
            return deaf
        if self._lag_s() > LAG_S:
            return f"the event loop is {self._lag_s():.1f} s late"
        return self._journal()

    def not_ready(self) -> str:
        """Return why a proposal would not be answered now, or nothing."""
        if not self.serving:
            return "safetyd is starting or stopping"
        return self._stalled() or self.problem()

    def explained(self) -> str:
        """Return the same for people, who are told if it is for want of room."""
        problem = self.not_ready()
        full = self._disk() if problem and self.serving else ""
        return f"{problem}: {full}" if full else problem

    def trouble(self) -> str:
        """Return the same for the log, where starts and ends are no trouble."""
        return self.explained() if self.serving else ""

    def better_restarted(self) -> str:
        """Return why the watchdog should bite, or nothing: a restart forgets an unwritten stop."""
        return "" if self._unwritten_stops() else self.problem()
