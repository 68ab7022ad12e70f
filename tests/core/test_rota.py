"""Who is on duty, in every zone and around clock changes."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.events.rota_events import DatedShift
from safetyd.core.recipients import Day, first_instant
from safetyd.core.rota import HORIZON, Rota, RotaConfig, Turn, WeeklyShift

BERLIN = "Europe/Berlin"
ZONES = (BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia", "UTC")
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
INSTANT = timedelta(microseconds=1)


def when(said: str) -> datetime:
    return datetime.fromisoformat(said)


def shift(who: str, start: str, end: str, *days: Day) -> WeeklyShift:
    return WeeklyShift(who=who, from_=start, to=end, days=days)


def rota(*shifts: WeeklyShift, zone: str = BERLIN, dated: Sequence[DatedShift] = ()) -> Rota:
    return Rota(RotaConfig(timezone=zone, shifts=shifts), dated)


NIGHT = rota(shift("alice", "18:00", "02:00"), shift("bob", "02:00", "10:00"))
LONG = rota(shift("alice", "09:00", "09:00", "fri", "sat"), shift("bob", "20:00", "08:00", "sat"))


@pytest.mark.parametrize(
    ("on", "at", "names", "ends"),
    [
        # A shift includes its start and not its end; over midnight it belongs to its first day.
        (NIGHT, "2026-07-01T18:00+02:00", ("alice",), "2026-07-02T02:00+02:00"),
        (NIGHT, "2026-07-02T01:59:59+02:00", ("alice",), "2026-07-02T02:00+02:00"),
        (NIGHT, "2026-07-02T02:00+02:00", ("bob",), "2026-07-02T10:00+02:00"),
        (NIGHT, "2026-07-02T10:00+02:00", (), "2026-07-02T18:00+02:00"),
        # The clock goes from 02:00 to 03:00: bob takes over at the jump.
        (NIGHT, "2026-03-29T01:59:59+01:00", ("alice",), "2026-03-29T03:00+02:00"),
        (NIGHT, "2026-03-29T03:00+02:00", ("bob",), "2026-03-29T10:00+02:00"),
        # The clock goes from 03:00 back to 02:00: bob takes over at the first 02:00.
        (NIGHT, "2026-10-25T01:59:59+02:00", ("alice",), "2026-10-25T02:00+02:00"),
        (NIGHT, "2026-10-25T02:00+02:00", ("bob",), "2026-10-25T10:00+01:00"),
        (NIGHT, "2026-10-25T02:30+01:00", ("bob",), "2026-10-25T10:00+01:00"),
        # Equal times are a whole day. Shifts may overlap.
        (LONG, "2026-07-04T08:00+02:00", ("alice",), "2026-07-04T20:00+02:00"),
        (LONG, "2026-07-04T21:00+02:00", ("alice", "bob"), "2026-07-05T08:00+02:00"),
        (LONG, "2026-07-05T08:30+02:00", ("alice",), "2026-07-05T09:00+02:00"),
        (LONG, "2026-07-05T09:00+02:00", (), "2026-07-10T09:00+02:00"),
        # Nobody ever hands over.
        (rota(shift("alice", "00:00", "00:00")), "2026-07-01T12:00Z", ("alice",), None),
        (rota(), "2026-07-01T12:00Z", (), None),
    ],
)
def test_people_are_on_duty_by_the_wall_clock(
    on: Rota, at: str, names: tuple[str, ...], ends: str | None
) -> None:
    assert on.on_duty(when(at)) == names
    assert on.next_change(when(at)) == (when(ends) if ends else None)


def test_in_a_gap_everybody_is_responsible() -> None:
    gap, night = when("2026-07-01T12:00+02:00"), when("2026-07-01T20:00+02:00")

    assert [NIGHT.covers(name, gap) for name in ("alice", "bob", "carol")] == [True, True, True]
    assert [NIGHT.covers(name, night) for name in ("alice", "bob", "carol")] == [True, False, False]
    assert list(NIGHT.gaps(when("2026-07-01T06:00+02:00"), when("2026-07-02T12:00+02:00"))) == [
        (when("2026-07-01T10:00+02:00"), when("2026-07-01T18:00+02:00")),
        (when("2026-07-02T10:00+02:00"), when("2026-07-02T12:00+02:00")),
    ]
    assert list(rota().gaps(gap, night)) == [(gap, night)]


def test_the_next_person_is_another_one() -> None:
    after_alice = rota(
        shift("alice", "00:00", "08:00"),
        shift("alice", "08:00", "12:00"),
        shift("bob", "08:00", "12:00", "wed"),
    )

    assert NIGHT.next_after(when("2026-07-01T20:00+02:00")) == ("bob",)
    assert NIGHT.next_after(when("2026-07-01T12:00+02:00")) == ("alice",)
    assert after_alice.next_after(when("2026-07-02T09:00+02:00")) == ("bob",)
    assert rota(shift("alice", "00:00", "00:00")).next_after(when("2026-07-01T20:00Z")) == ()


def test_a_clock_that_is_set_back_finds_the_earlier_shift() -> None:
    assert NIGHT.on_duty(when("2026-07-02T03:00+02:00")) == ("bob",)
    assert NIGHT.on_duty(when("2026-07-02T01:00+02:00")) == ("alice",)
    assert NIGHT.on_duty(when("2026-07-02T09:59+02:00")) == ("bob",)


times = st.integers(0, 3 * 365 * 24 * 60).map(
    lambda minute: datetime(2025, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)
)
# Times at which clocks change, and others.
minutes = st.sampled_from(
    ["00:00", "00:30", "01:59", "02:00", "02:15", "02:30", "03:00", "09:00", "17:45", "23:59"]
)
shifts = st.lists(
    st.builds(
        WeeklyShift,
        who=st.sampled_from(["alice", "bob", "carol"]),
        days=st.lists(st.sampled_from(DAYS), unique=True).map(tuple),
        from_=minutes,
        to=minutes,
    ),
    max_size=4,
)


@st.composite
def dated(draw: st.DrawFn) -> list[DatedShift]:
    base = draw(times)
    whole = st.integers(0, 14 * 24).map(lambda hours: base + timedelta(hours=hours))
    pairs = draw(st.lists(st.tuples(whole, whole), max_size=5))
    names = st.sampled_from(["alice", "bob", "dora"])
    return [DatedShift(draw(names), *sorted(pair)) for pair in pairs]


def spelled_out(
    zone: str, weekly: Sequence[WeeklyShift], others: Sequence[DatedShift], at: datetime
) -> list[DatedShift]:
    """Return every shift near a time, day by day."""
    found, clock = list(others), ZoneInfo(zone)
    for days in range(-4, 20):
        day = (at + timedelta(days=days)).date()
        for each in weekly:
            if each.days and DAYS[day.weekday()] not in each.days:
                continue
            start, end = time.fromisoformat(each.from_), time.fromisoformat(each.to)
            last = day if start < end else date.fromordinal(day.toordinal() + 1)
            span = first_instant(day, start, clock), first_instant(last, end, clock)
            found.append(DatedShift(each.who, *span))
    return found


def on(spelled: Sequence[DatedShift], at: datetime) -> tuple[str, ...]:
    return tuple(sorted({each.who for each in spelled if each.starts <= at < each.ends}))


@given(st.sampled_from(ZONES), shifts, dated(), times)
def test_turns_agree_with_every_shift_spelled_out(
    zone: str, weekly: list[WeeklyShift], others: list[DatedShift], at: datetime
) -> None:
    found = Rota(RotaConfig(timezone=zone, shifts=tuple(weekly)), others)
    spelled = spelled_out(zone, weekly, others, at)
    until = at + timedelta(days=14)

    turns = list(found.turns(at, until))

    edges = sorted({at, *(edge for each in spelled for edge in (each.starts, each.ends))})
    seen = [(on(spelled, edge), edge) for edge in edges if at <= edge < until]
    changes = seen[:1] + [now for before, now in pairwise(seen) if before[0] != now[0]]
    assert [(turn.names, turn.starts) for turn in turns] == changes
    for turn in turns:
        end = turn.ends or turn.starts + HORIZON
        assert found.on_duty(turn.starts) == turn.names == found.on_duty(end - INSTANT)
        assert turn.ends is None or found.on_duty(turn.ends) != turn.names


@given(
    st.sampled_from(ZONES),
    st.lists(st.integers(0, 24 * 60 - 1), min_size=1, max_size=4, unique=True),
    times,
)
def test_shifts_that_meet_leave_no_gap_and_no_overlap_on_any_night(
    zone: str, starts: list[int], at: datetime
) -> None:
    clock = [f"{minute // 60:02}:{minute % 60:02}" for minute in sorted(starts)]
    names = [f"p{n}" for n in range(len(clock))]
    ring = zip(names, clock, [*clock[1:], clock[0]], strict=True)
    found = rota(*(shift(who, start, end) for who, start, end in ring), zone=zone)

    turns = list(found.turns(at, at + timedelta(days=3)))

    assert [len(turn.names) for turn in turns] == [1] * len(turns)
    assert all(before.ends == after.starts for before, after in pairwise(turns))


def test_a_turn_lasts_until_the_change_and_not_longer_than_the_horizon() -> None:
    start = when("2026-07-01T00:00Z")
    late = DatedShift("bob", start + HORIZON + timedelta(days=1), start + HORIZON * 2)
    found = rota(shift("alice", "00:00", "00:00"), dated=[late])

    assert found.turn(start) == Turn(("alice",), start, None)
    assert found.next_change(start + timedelta(days=2)) == late.starts
