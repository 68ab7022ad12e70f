"""The rota of a configuration, and warnings about it."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from safetyd.clock import Clock
from safetyd.core.action_types import Kinds
from safetyd.core.recipients import Window
from safetyd.core.rota import WAKE_CLASSES, Rota, RotaPolicy
from safetyd.core.text.time_words import day_and_clock
from safetyd.daemon.config import Config
from safetyd.extras.rota.calendar_process import CalendarRequest
from safetyd.extras.rota.calendar_reader import place_of, read_calendar
from safetyd.extras.rota.calendar_shifts import CalendarShifts, UnusableCalendar
from safetyd.extras.rota.calendar_watch import read_period
from safetyd.host import system_zone
from safetyd.notify.address_book import addresses

CHECKED: Final = timedelta(weeks=4)
MAX_SHOWN: Final = 3  # gaps and titles that a warning lists


def rota_of(config: Config) -> RotaPolicy:
    """Return the rota. If it has no time zone, it has that of notifications."""
    rota = config.people.rota
    zone = rota.timezone or config.notifications.timezone or system_zone()
    kinds = Kinds(config.types, config.profile)
    return RotaPolicy(
        timezone=zone,
        shifts=rota.shifts,
        calendar=rota.calendar,
        handover=rota.handover,
        wake_for={
            person.name: tuple(_action(name, kinds) for name in person.wake_for)
            for person in config.recipients
            if person.wake_for
        },
    )


def _action(name: str, kinds: Kinds) -> str:
    return name if name in WAKE_CLASSES else kinds.named(name).type


def calendar_request(config: Config, data_dir: Path, at: datetime) -> CalendarRequest | None:
    """Return what to read from the rota's calendar, if there is one."""
    rota = rota_of(config)
    if not rota.calendar:
        return None
    starts, ends = read_period(at)
    return CalendarRequest(
        starts=starts,
        ends=ends,
        timezone=rota.timezone,
        place=place_of(rota.calendar, data_dir),
        people=addresses(config.tables),
    )


def rota_warnings(config: Config, data_dir: Path) -> Iterator[str]:
    """Yield why the calendar cannot be used, and the times without anyone on duty. This blocks."""
    at, rota = Clock().now().at, rota_of(config)
    if not rota.in_use:
        return
    found = CalendarShifts()
    if request := calendar_request(config, data_dir, at):
        try:
            found = read_calendar(request)
        except UnusableCalendar as exc:
            yield f"people.rota.calendar: {rota.calendar} cannot be used: {exc}"
            return
    if found.unmatched:
        entries = ", ".join(repr(title) for title in found.unmatched[:MAX_SHOWN])
        yield f"people.rota.calendar: entries that name no recipient are ignored: {entries}"
    gaps = list(Rota(rota, found.shifts).gaps(at, at + CHECKED))
    if gaps:
        yield _gap_warning(gaps, ZoneInfo(rota.timezone))


def _gap_warning(gaps: list[Window], zone: ZoneInfo) -> str:
    shown = [
        f"{day_and_clock(starts.astimezone(zone))} to {day_and_clock(ends.astimezone(zone))}"
        for starts, ends in gaps[:MAX_SHOWN]
    ]
    more = f" and {len(gaps) - MAX_SHOWN} more times" if len(gaps) > MAX_SHOWN else ""
    return (
        f"people.rota: nobody is on duty {', '.join(shown)}{more} in the next four weeks. "
        "Then urgent requests go to everybody"
    )
