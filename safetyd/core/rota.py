"""The rota: who is on duty when.

A weekly shift follows the wall clock of the rota's zone in the same way as quiet hours. A dated
shift comes from a calendar. Shifts may overlap; then several people are on duty.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from safetyd.core.events.rota_events import DatedShift
from safetyd.core.recipients import Day, QuietHours, TimeOfDay, Window, wall_date, window

# In `wake_for`, besides types of action.
WAKE_CLASSES: Final = ("all", "irreversible")
HORIZON: Final = timedelta(weeks=10)  # later changes are not searched for

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_WEEK: Final = 8  # days until every weekly shift has started again


class WeeklyShift(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[people.rota.shifts]]` table. If `from` and `to` are equal, it lasts a day."""

    who: Annotated[str, Meta(min_length=1)]  # the name of a recipient
    days: tuple[Day, ...] = ()  # weekdays on which it starts; empty: every day
    from_: TimeOfDay = msgspec.field(name="from", default="00:00")  # when it starts
    to: TimeOfDay = "00:00"  # when it ends


class RotaConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[people.rota]` table. Without shifts and calendar, there is no rota."""

    timezone: str = ""  # an IANA name; empty: that of [notifications]
    shifts: tuple[WeeklyShift, ...] = ()  # weekly shifts
    calendar: str = ""  # an iCalendar file or address of this machine
    handover: bool = True  # whether people are notified when they go on duty

    @property
    def in_use(self) -> bool:
        return bool(self.shifts or self.calendar)


class RotaPolicy(RotaConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rota with the permissions of recipients. It is journalled for replay."""

    # Types of action, or `WAKE_CLASSES`, for which a recipient may always be woken.
    wake_for: dict[str, tuple[str, ...]] = {}


class Turn(NamedTuple):
    """The people on duty during a time. If `names` is empty, nobody is."""

    names: tuple[str, ...]
    starts: datetime
    ends: datetime | None  # None: not within `HORIZON`


class Rota:
    """Computes who is on duty. Names are sorted."""

    def __init__(self, config: RotaConfig, dated: Sequence[DatedShift] = ()) -> None:
        self._weekly = tuple((each.who, _hours(each, config.timezone)) for each in config.shifts)
        self._edges, self._dated = _segments(dated)
        self._known = Turn((), _NEVER, _NEVER)  # the last result
        self.members = frozenset({*(each.who for each in config.shifts), *(s.who for s in dated)})

    def on_duty(self, at: datetime) -> tuple[str, ...]:
        """Return the people on duty. Empty means that nobody is."""
        return self.turn(at).names

    def covers(self, name: str, at: datetime) -> bool:
        """Return True if a person is on duty, or nobody is: then everybody is responsible."""
        names = self.on_duty(at)
        return name in names or not names

    def next_change(self, at: datetime) -> datetime | None:
        """Return when other people are on duty, if that is within `HORIZON`."""
        return self.turn(at).ends

    def turn(self, at: datetime) -> Turn:
        """Return the people on duty at a time, and until when."""
        known = self._known
        if not known.starts <= at < (known.ends or known.starts + _DAY):
            self._known = known = Turn(names := self._names(at), at, self._ends(names, at))
        return known

    def turns(self, at: datetime, until: datetime) -> Iterator[Turn]:
        """Yield all turns between two times. The last one may end later."""
        start: datetime | None = at
        while start is not None and start < until:
            turn = self.turn(start)
            yield Turn(turn.names, start, turn.ends)
            start = turn.ends

    def gaps(self, at: datetime, until: datetime) -> Iterator[Window]:
        """Yield the times at which nobody is on duty."""
        for turn in self.turns(at, until):
            if not turn.names:
                yield turn.starts, until if turn.ends is None else min(turn.ends, until)

    def next_after(self, at: datetime) -> tuple[str, ...]:
        """Return the people who are on duty next, other than those who are now."""
        now = self.on_duty(at)
        for turn in self.turns(at, at + HORIZON):
            if others := tuple(name for name in turn.names if name not in now):
                return others
        return ()

    def _names(self, at: datetime) -> tuple[str, ...]:
        weekly = (who for who, hours in self._weekly if _contains(hours, at))
        return tuple(sorted({*weekly, *self._dated[bisect_right(self._edges, at)]}))

    def _ends(self, names: tuple[str, ...], at: datetime) -> datetime | None:
        edge = self._edge(at)
        while edge is not None and edge < at + HORIZON:
            if self._names(edge) != names:
                return edge
            edge = self._edge(edge)
        return None

    def _edge(self, at: datetime) -> datetime | None:
        """Return the next time at which any shift starts or ends."""
        found = [edge for _, hours in self._weekly for edge in _edges(hours, at)]
        if (place := bisect_right(self._edges, at)) < len(self._edges):
            found.append(self._edges[place])
        return min(found, default=None)


def _segments(shifts: Sequence[DatedShift]) -> tuple[list[datetime], list[tuple[str, ...]]]:
    """Return the times at which shifts start or end, and the names before and after each."""
    starts, ends = defaultdict[datetime, list[str]](list), defaultdict[datetime, list[str]](list)
    for shift in shifts:
        starts[shift.starts].append(shift.who)
        ends[shift.ends].append(shift.who)
    edges = sorted({*starts, *ends})
    segments: list[tuple[str, ...]] = [()]
    on = Counter[str]()
    for edge in edges:
        on.update(starts[edge])
        on.subtract(ends[edge])
        segments.append(tuple(name for name, count in on.items() if count > 0))
    return edges, segments


def _hours(shift: WeeklyShift, timezone: str) -> QuietHours:
    return QuietHours(start=shift.from_, end=shift.to, days=shift.days, timezone=timezone or "UTC")


def _contains(hours: QuietHours, at: datetime) -> bool:
    return any(starts <= at < ends for starts, ends in _windows(hours, at, 2))


def _edges(hours: QuietHours, at: datetime) -> Iterator[datetime]:
    return (edge for found in _windows(hours, at, _WEEK + 1) for edge in found if edge > at)


def _windows(hours: QuietHours, at: datetime, days: int) -> Iterator[Window]:
    """Yield the windows that start yesterday or within a number of days."""
    first = wall_date(hours, at) - 1
    found = (window(hours, day) for day in range(first, first + 1 + days))
    return (each for each in found if each is not None)
