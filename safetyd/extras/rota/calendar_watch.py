"""Reads the rota's calendar every hour and after a reload, and journals what has changed."""

import logging
from collections.abc import Callable
from datetime import datetime, time, timedelta
from typing import Final

import anyio
import anyio.to_thread

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.rota_events import RotaRead, RotaUnread
from safetyd.extras.rota.calendar_process import CalendarRequest
from safetyd.extras.rota.calendar_reader import read_calendar
from safetyd.extras.rota.calendar_shifts import CalendarShifts, UnusableCalendar
from safetyd.journal.mailbox import EventEnvelope, Make

REFRESH_S: Final = 3600.0
PERIOD: Final = timedelta(weeks=9)

log = logging.getLogger("safetyd.rota")


def read_period(at: datetime) -> tuple[datetime, datetime]:
    """Return the time whose shifts are read: nine weeks, from Monday of this week on.

    The period stays the same for a week, so that the hourly result only changes with the calendar.
    """
    monday = datetime.combine(at.date() - timedelta(days=at.weekday()), time(), at.tzinfo)
    return monday, monday + PERIOD


class CalendarWatch:
    """Reads the calendar that `request` returns, if one is configured."""

    def __init__(
        self,
        wanted: Callable[[], tuple[str, CalendarRequest] | None],
        put: Callable[[EventEnvelope], None],
        *,
        refresh_s: float = REFRESH_S,
    ) -> None:
        self._wanted = wanted
        self._put = put
        self._refresh_s = refresh_s
        self._renewed = anyio.Event()

    def renew(self) -> None:
        """Read the calendar as soon as possible."""
        self._renewed.set()

    async def run(self) -> None:
        while True:
            self._renewed = anyio.Event()
            await self._read()
            with anyio.move_on_after(self._refresh_s):
                await self._renewed.wait()

    async def _read(self) -> None:
        wanted = self._wanted()
        if wanted is None:
            return
        calendar, request = wanted
        try:
            found = await anyio.to_thread.run_sync(read_calendar, request, abandon_on_cancel=True)
        except UnusableCalendar as exc:
            log.warning("calendar %s cannot be read: %s", calendar, exc)
            make = _unread(calendar, str(exc))
        else:
            make = _read_now(calendar, request.ends, found)
        self._put(EventEnvelope(make))


def _read_now(calendar: str, until: datetime, found: CalendarShifts) -> Make:
    def made(state: EngineState, moment: Moment) -> Event | None:
        known = state.on_call.known
        before = known.calendar, known.shifts, known.until, known.unmatched, known.problem
        if before == (calendar, found.shifts, until, found.unmatched, ""):
            return None
        return RotaRead(
            at=moment.at,
            t=moment.t,
            calendar=calendar,
            shifts=found.shifts,
            until=until,
            unmatched=found.unmatched,
        )

    return made


def _unread(calendar: str, why: str) -> Make:
    def made(state: EngineState, moment: Moment) -> Event | None:
        known = state.on_call.known
        if known.calendar == calendar and known.problem:
            return None  # an alert was raised
        return RotaUnread(at=moment.at, t=moment.t, calendar=calendar, why=why)

    return made
