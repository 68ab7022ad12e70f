"""Who is recorded as on call, and what is known of the calendar."""

from datetime import UTC, datetime, timedelta
from typing import Any

from safetyd.core.events.event import Ticked
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.events.rota_events import DatedShift, DutyChanged, RotaRead, RotaUnread
from safetyd.core.on_call import OnCall, OnCallState
from safetyd.core.rota import RotaPolicy, WeeklyShift

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
CALENDAR = RotaPolicy(calendar="oncall.ics")
SHIFTS = (DatedShift("alice", NOON, NOON + HOUR), DatedShift("bob", NOON + HOUR, NOON + 3 * HOUR))


def at(hours: float) -> dict[str, Any]:
    return {"at": NOON + hours * HOUR, "t": 3600.0 * hours}


def tick(on_call: OnCall, hours: float) -> DutyChanged | None:
    """Let time pass. Record the change of duty, if there is one."""
    for event in on_call.observe(Ticked(**at(hours))):
        assert isinstance(event, DutyChanged)
        on_call.observe(event)
        return event
    return None


def read(hours: float = 0, calendar: str = "oncall.ics", shifts: Any = SHIFTS) -> RotaRead:
    return RotaRead(calendar=calendar, shifts=shifts, until=NOON + 99 * HOUR, **at(hours))


def reloaded(on_call: OnCall, config: RotaPolicy) -> OnCall:
    again = OnCall(config)
    again.load(on_call.save()())
    return again


def test_each_change_of_duty_is_recorded_once() -> None:
    on_call = OnCall(CALENDAR)
    on_call.observe(read())

    assert tick(on_call, 0) == DutyChanged(on=("alice",), first=True, **at(0))
    assert tick(on_call, 0.99) is None
    assert tick(on_call, 1) == DutyChanged(on=("bob",), off=("alice",), **at(1))
    assert tick(reloaded(on_call, CALENDAR), 1.5) is None
    assert tick(on_call, 3) == DutyChanged(on=(), off=("bob",), **at(3))


def test_the_last_activity_of_an_operator_outlasts_a_new_calendar() -> None:
    on_call = OnCall(CALENDAR)
    on_call.observe(PersonSeen(by="safetyd", how="first start", **at(0)))
    assert on_call.seen_t is None
    on_call.observe(PersonSeen(by="alice", how="cli", **at(1)))

    on_call.observe(RotaUnread(calendar="other.ics", why="it is gone", **at(2)))

    assert reloaded(on_call, CALENDAR).seen_t == 3600.0


def test_a_new_rota_changes_who_is_on_duty() -> None:
    on_call = OnCall(RotaPolicy(shifts=(WeeklyShift(who="alice"),)))
    assert tick(on_call, 0) == DutyChanged(on=("alice",), first=True, **at(0))

    both = RotaPolicy(shifts=(WeeklyShift(who="alice"), WeeklyShift(who="bob")))
    later = reloaded(on_call, both)

    assert tick(later, 1) == DutyChanged(on=("alice", "bob"), **at(1))
    assert tick(reloaded(later, RotaPolicy()), 2) is None


def test_without_a_rota_nobody_is_recorded() -> None:
    on_call = OnCall(RotaPolicy())

    assert (on_call.in_use, tick(on_call, 0)) == (False, None)


def test_a_calendar_that_disappears_keeps_its_shifts() -> None:
    on_call = OnCall(CALENDAR)
    on_call.observe(read())
    on_call.observe(RotaUnread(calendar="oncall.ics", why="No such file", **at(1)))

    assert on_call.rota.on_duty(NOON + HOUR) == ("bob",)
    assert (on_call.known.problem, on_call.known.until) == ("No such file", NOON + 99 * HOUR)

    on_call.observe(read(2, shifts=SHIFTS[:1]))

    assert on_call.rota.on_duty(NOON + HOUR) == ()
    assert on_call.known.problem == ""


def test_another_calendar_starts_without_shifts() -> None:
    on_call = OnCall(CALENDAR)
    on_call.observe(read())
    tick(on_call, 0)
    other = reloaded(on_call, RotaPolicy(calendar="other.ics"))

    assert other.known == OnCallState(on_duty=("alice",))
    assert other.rota.on_duty(NOON) == ()
    other.observe(RotaUnread(calendar="other.ics", why="No such file", **at(1)))
    assert other.known == OnCallState(
        calendar="other.ics", problem="No such file", on_duty=("alice",)
    )
    assert reloaded(other, CALENDAR).rota.on_duty(NOON) == ()
