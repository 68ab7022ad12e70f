"""Who is on call now: the rota with its calendar's shifts, and when an operator was last active."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.events.event import Event, Ticked
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.events.rota_events import DatedShift, DutyChanged, RotaRead, RotaUnread
from safetyd.core.rota import Rota, RotaPolicy

ON_A_PHONE: Final = ("link", "sms")  # how answers from messages are recorded


class OnCallState(msgspec.Struct):
    calendar: str = ""  # the calendar that the following fields are about
    shifts: tuple[DatedShift, ...] = ()
    until: datetime | None = None  # later shifts were not read yet
    unmatched: tuple[str, ...] = ()
    problem: str = ""  # why the calendar cannot be read now
    on_duty: tuple[str, ...] | None = None  # as recorded last; None: never
    seen_t: float | None = None  # when an operator was last active, by the steady clock


class OnCall(Actor):
    """Stores what the calendar says. Emits `DutyChanged` when other people are on duty."""

    name = "on_call"
    _state: OnCallState

    def __init__(self, config: RotaPolicy) -> None:
        self._config = config
        self._take_on(OnCallState())
        self.hears = hearing(
            on(RotaRead, self._read),
            on(RotaUnread, self._unread),
            on(DutyChanged, self._changed),
            on(PersonSeen, self._seen),
            on(Ticked, self._ticked),
        )

    @property
    def config(self) -> RotaPolicy:
        return self._config

    @property
    def in_use(self) -> bool:
        """True if a rota is configured."""
        return self._config.in_use

    @property
    def seen_t(self) -> float | None:
        """When an operator was last active, by the steady clock. None: never."""
        return self._state.seen_t

    @property
    def known(self) -> OnCallState:
        """What the configured calendar said last. Empty if it was not read yet."""
        same = self._state.calendar == self._config.calendar
        return self._state if same else OnCallState(on_duty=self._state.on_duty)

    def load(self, saved: bytes) -> None:
        super().load(saved)
        self._take_on(self._state)

    def _take_on(self, state: OnCallState) -> None:
        self._state = state
        self.rota = Rota(self._config, self.known.shifts)

    def _read(self, event: RotaRead) -> None:
        state = self._state
        state.calendar, state.shifts, state.until = event.calendar, event.shifts, event.until
        state.unmatched, state.problem = event.unmatched, ""
        self._take_on(state)

    def _unread(self, event: RotaUnread) -> None:
        if event.calendar != self._state.calendar:
            before, seen_t = self._state.on_duty, self._state.seen_t
            self._take_on(OnCallState(calendar=event.calendar, on_duty=before, seen_t=seen_t))
        self._state.problem = event.why

    def _changed(self, event: DutyChanged) -> None:
        self._state.on_duty = event.on

    def _seen(self, event: PersonSeen) -> None:
        # The first start is recorded as if somebody was there. Whoever answers on a phone may not
        # look at other requests.
        if event.by != "safetyd" and not event.how.startswith(ON_A_PHONE):
            self._state.seen_t = event.t

    def _ticked(self, tick: Ticked) -> Sequence[Event]:
        before, now = self._state.on_duty, self.rota.on_duty(tick.at)
        if not self.in_use or now == before:
            return ()
        off = tuple(name for name in before or () if name not in now)
        return (DutyChanged(at=tick.at, t=tick.t, on=now, off=off, first=before is None),)
