"""What the calendar says is journalled when it changes, and a failure once."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import anyio.abc
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.rota_events import DatedShift, RotaRead, RotaUnread
from safetyd.core.policy import Policy
from safetyd.core.rota import RotaPolicy
from safetyd.extras.rota.calendar_process import CalendarRequest
from safetyd.extras.rota.calendar_watch import CalendarWatch, read_period
from safetyd.journal.mailbox import EventEnvelope

NOW = datetime(2026, 10, 20, 15, tzinfo=UTC)
MONDAY = datetime(2026, 10, 19, tzinfo=UTC)
UNTIL = MONDAY + timedelta(weeks=9)
SHIFT = """BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//EN\r\nBEGIN:VEVENT\r\nUID:1\r
SUMMARY:{}\r\nDTSTART:20261020T100000Z\r\nDTEND:20261020T120000Z\r\nEND:VEVENT\r
END:VCALENDAR\r\n"""
TIMES = datetime(2026, 10, 20, 10, tzinfo=UTC), datetime(2026, 10, 20, 12, tzinfo=UTC)


class Watched:
    """A watch with an engine. `found` waits for the next reading and returns its events."""

    def __init__(self, calendar: Path) -> None:
        self.calendar = calendar
        self.engine = Engine(Policy(rota=RotaPolicy(calendar="oncall.ics")))
        self.watch = CalendarWatch(self._wanted, self._put)
        self._read = asyncio.Queue[EventEnvelope]()

    def _wanted(self) -> tuple[str, CalendarRequest]:
        starts, ends = read_period(NOW)
        people: dict[str, tuple[str, ...]] = {"alice": (), "bob": ()}
        return "oncall.ics", CalendarRequest(
            starts=starts, ends=ends, timezone="UTC", place=str(self.calendar), people=people
        )

    def _put(self, envelope: EventEnvelope) -> None:
        self._read.put_nowait(envelope)

    async def found(self) -> list[Event]:
        envelope = await self._read.get()
        events = [*envelope.open(self.engine, Moment(NOW, 1.0))]
        return [made for event in events for made in self.engine.handle(event)]


def read(who: str, seq: int) -> RotaRead:
    return RotaRead(
        seq=seq,
        at=NOW,
        t=1.0,
        calendar="oncall.ics",
        shifts=(DatedShift(who, *TIMES),) if who else (),
        until=UNTIL,
        unmatched=() if who else ("dora",),
    )


async def test_changes_are_journalled_and_a_calendar_that_disappears_is_one_event(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path / "oncall.ics")
    steps: list[tuple[Callable[[], object], type[Event] | None]] = [
        (lambda: None, None),
        (lambda: watched.calendar.write_text(SHIFT.format("bob")), RotaRead),
        (watched.calendar.unlink, RotaUnread),
        (lambda: None, None),
        (lambda: watched.calendar.write_text(SHIFT.format("bob")), RotaRead),
        (lambda: watched.calendar.write_text(SHIFT.format("dora")), RotaRead),
    ]
    watched.calendar.write_text(SHIFT.format("alice"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watched.watch.run)
        first = await watched.found()
        seen = []
        for change, _ in steps:
            change()
            watched.watch.renew()
            seen.append(
                [
                    event
                    for event in await watched.found()
                    if isinstance(event, RotaRead | RotaUnread)
                ]
            )
        tasks.cancel_scope.cancel()

    assert first[0] == read("alice", 1)
    assert [[type(event) for event in events] for events in seen] == [
        [kind] if kind else [] for _, kind in steps
    ]
    assert watched.engine.on_call.known.unmatched == ("dora",)


async def test_the_calendar_is_read_again_by_itself(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "oncall.ics")
    watched.watch = CalendarWatch(watched._wanted, watched._put, refresh_s=0.0)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watched.watch.run)
        (unread, *_), again = await watched.found(), await watched.found()
        tasks.cancel_scope.cancel()

    assert isinstance(unread, RotaUnread)
    assert (unread.why, again) == ("No such file or directory", [])


@pytest.mark.parametrize("days", range(7))
def test_the_period_is_the_same_for_a_week(days: int) -> None:
    assert read_period(MONDAY + timedelta(days=days, hours=23)) == (MONDAY, UNTIL)


async def test_without_a_calendar_nothing_is_read() -> None:
    watch = CalendarWatch(lambda: None, lambda _: pytest.fail("there is no calendar"))

    with anyio.move_on_after(0):
        await watch.run()
