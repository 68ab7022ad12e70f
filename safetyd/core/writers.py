"""Which daemon writes the journal, and how often that has changed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.events.cluster_events import (
    StandbysChanged,
    TakeoversRepeated,
    TookOver,
    WriterChanged,
    WriterReleased,
)
from safetyd.core.events.event import Event

HOUR_S: Final = 3600.0
REPEATED: Final = 3  # so many takeovers within an hour are reported


class WritersState(msgspec.Struct):
    term: int = 0  # 0: the journal never had a writer with a name
    daemon: str = ""
    version: str = ""
    since: datetime | None = None
    released: bool = True
    takeovers: list[float] = []  # the `t` of unplanned takeovers within the last hour
    taken_over: int = 0  # how many unplanned takeovers there were
    standbys: tuple[str, ...] = ()


class Writers(Actor):
    """Remembers the writer. Emits `TakeoversRepeated` when there are too many takeovers."""

    name = "writers"
    _state: WritersState

    def __init__(self) -> None:
        self._state = WritersState()
        self.hears = hearing(
            on(WriterChanged, self._changed),
            on(WriterReleased, self._released),
            on(TookOver, self._took_over),
            on(StandbysChanged, self._standbys),
        )

    @property
    def term(self) -> int:
        return self._state.term

    @property
    def daemon(self) -> str:
        """Return the name of the daemon that writes, or wrote last."""
        return self._state.daemon

    @property
    def version(self) -> str:
        return self._state.version

    @property
    def since(self) -> datetime | None:
        return self._state.since

    @property
    def released(self) -> bool:
        """Return whether the last writer has stopped writing by itself."""
        return self._state.released

    @property
    def standbys(self) -> tuple[str, ...]:
        return self._state.standbys

    @property
    def taken_over(self) -> int:
        """Return how many unplanned takeovers there were since the journal began."""
        return self._state.taken_over

    def takeovers(self, t: float) -> int:
        """Return the number of unplanned takeovers in the hour before `t`."""
        return sum(t - before < HOUR_S for before in self._state.takeovers)

    def _changed(self, event: WriterChanged) -> None:
        state = self._state
        state.term, state.daemon, state.version = event.term, event.daemon, event.version
        state.since, state.released = event.at, False

    def _released(self, event: WriterReleased) -> None:
        self._state.released = event.term == self._state.term or self._state.released

    def _took_over(self, event: TookOver) -> Sequence[Event]:
        if event.planned or not event.before:
            return ()
        recent = [t for t in self._state.takeovers if event.t - t < HOUR_S]
        self._state.takeovers = [*recent, event.t]
        self._state.taken_over += 1
        count = len(self._state.takeovers)
        return (
            (TakeoversRepeated(at=event.at, t=event.t, count=count),) if count >= REPEATED else ()
        )

    def _standbys(self, event: StandbysChanged) -> None:
        self._state.standbys = event.standbys
