"""Shifts in an iCalendar file: recurrences, exceptions and time zones are expanded by packages.

The person of an entry is its title, or else its attendees. A title may contain several names, or
words before or after them: `alice`, `alice, bob` and `On call: Alice` are understood.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import msgspec

from safetyd.core.events.rota_events import DatedShift
from safetyd.core.recipients import first_instant

if TYPE_CHECKING:
    from icalendar import Event as Entry

MAX_ENTRIES: Final = 5_000
MAX_SHIFTS: Final = 1_000
MAX_UNMATCHED: Final = 20
MAX_TITLE: Final = 80
MAX_ERROR: Final = 200

_begin = re.compile(rb"^BEGIN:VEVENT", re.IGNORECASE | re.MULTILINE).findall
_parts = re.compile(r"[,;:&+/()|]|\s[-\u2013\u2014]\s|\band\b", re.IGNORECASE).split


class UnusableCalendar(Exception):
    """A calendar that cannot be used. The text says why."""


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """The time for which shifts are wanted, and the zone of entries without one."""

    starts: datetime
    ends: datetime
    timezone: str


class CalendarShifts(msgspec.Struct, frozen=True, kw_only=True):
    """The shifts of a calendar, the oldest first, and the titles that name no recipient."""

    shifts: tuple[DatedShift, ...] = ()
    unmatched: tuple[str, ...] = ()


def shifts_in(data: bytes, period: Period, people: Mapping[str, Iterable[str]]) -> CalendarShifts:
    """Return the shifts of a calendar that overlap a period. `people` has everybody's addresses."""
    known = {name.casefold(): name for name in people}
    known |= {address.casefold(): name for name, own in people.items() for address in own}
    shifts, unmatched = set[DatedShift](), dict[str, None]()
    entries, problem = _entries(data, period)
    for entry in entries:
        starts, ends = _span(entry, period)
        if starts >= ends or _is_cancelled(entry):
            continue
        names = _names(entry, known)
        if not names:
            unmatched[str(entry.get("SUMMARY", ""))[:MAX_TITLE]] = None
        shifts |= {DatedShift(name, starts, ends) for name in names}
        if len(shifts) > MAX_SHIFTS:
            raise UnusableCalendar(f"it has more than {MAX_SHIFTS} shifts")
    return CalendarShifts(
        shifts=tuple(sorted(shifts, key=lambda each: (each.starts, each.ends, each.who))),
        unmatched=(*problem, *unmatched)[:MAX_UNMATCHED],
    )


def _entries(data: bytes, period: Period) -> tuple[Sequence["Entry"], tuple[str, ...]]:
    """Return every occurrence of an entry in a period, and the error of invalid entries."""
    import recurring_ical_events  # noqa: PLC0415 - slow, and optional
    from icalendar import Calendar  # noqa: PLC0415

    if len(_begin(data)) > MAX_ENTRIES:
        raise UnusableCalendar(f"it has more than {MAX_ENTRIES} entries")
    times = period.starts, period.ends
    try:
        calendar = Calendar.from_ical(data)
        try:
            return recurring_ical_events.of(calendar).between(*times), ()
        except tuple(recurring_ical_events.CalendarQuery.suppressed_errors) as exc:
            valid = recurring_ical_events.of(calendar, skip_bad_series=True).between(*times)
            return valid, (f"an invalid entry: {_said(exc)}",)
    except MemoryError:
        raise
    except Exception as exc:
        # The packages raise errors of many kinds for a malformed calendar.
        raise UnusableCalendar(f"it is not a valid calendar: {_said(exc)}") from exc


def _said(exc: Exception) -> str:
    return " ".join(str(exc).split())[:MAX_ERROR] or type(exc).__name__


def _span(entry: "Entry", period: Period) -> tuple[datetime, datetime]:
    zone = ZoneInfo(period.timezone)
    return _instant(entry.start, zone), _instant(entry.end, zone)


def _instant(at: date, zone: ZoneInfo) -> datetime:
    """Return the time of an entry in UTC. A day, or a time without a zone, is the rota's."""
    if not isinstance(at, datetime):
        return first_instant(at, time(), zone)
    if at.tzinfo is None:
        return first_instant(at.date(), at.time(), zone)
    return at.astimezone(UTC)


def _is_cancelled(entry: "Entry") -> bool:
    return str(entry.get("STATUS", "")).upper() == "CANCELLED"


def _names(entry: "Entry", known: Mapping[str, str]) -> list[str]:
    """Return the recipients that an entry names in its title, or else as attendees."""
    title = str(entry.get("SUMMARY", ""))
    parts = (part.strip().casefold() for part in (title, *_parts(title)))
    return [known[part] for part in parts if part in known] or _attending(entry, known)


def _attending(entry: "Entry", known: Mapping[str, str]) -> list[str]:
    found = list[str]()
    for attendee in entry.attendees:
        address = str(attendee).casefold().removeprefix("mailto:")
        declined = str(attendee.params.get("PARTSTAT", "")).upper() == "DECLINED"
        if address in known and not declined:
            found.append(known[address])
    return found
