"""The rota as operators see it, in answers and at a terminal."""

from datetime import timedelta
from typing import Any

from safetyd.console.render.layout import when
from safetyd.console.render.rota_table import rota as shown
from safetyd.console.render.status_page import status as status_page
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.rota_events import DatedShift, RotaRead, RotaUnread
from safetyd.core.policy import Policy
from safetyd.core.rota import RotaPolicy, WeeklyShift
from safetyd.operators.contract.rota_contract import RotaAnswer, RotaQuestion
from safetyd.operators.views.rota_view import rota
from tests.operators.views.view_reader import status_of
from tests.story import at, play

HOUR = 3600.0
WEEKLY = RotaPolicy(  # the story begins on Sunday, 1 March 2026 at 12:00 UTC
    timezone="UTC",
    shifts=(
        WeeklyShift(who="alice", days=("sun",), from_="08:00", to="20:00"),
        WeeklyShift(who="bob", days=("sun",), from_="18:00", to="02:00"),
    ),
)
CALENDAR = RotaPolicy(timezone="UTC", calendar="oncall.ics")


def answer(policy: RotaPolicy, *story: Event, days: int = 1) -> RotaAnswer:
    engine = Engine(Policy(rota=policy))
    play(engine, *story)
    return rota(engine, Moment(at(0), 0.0), RotaQuestion(days=days))


def test_turns_show_who_is_on_call_who_is_next_and_gaps() -> None:
    found = answer(WEEKLY)

    assert found.on_call is not None
    assert (found.on_call.names, found.on_call.until) == (("alice",), at(6 * HOUR))
    assert found.on_call.then == ("alice", "bob")
    assert [(turn.names, turn.starts, turn.ends) for turn in found.turns] == [
        (("alice",), at(0), at(6 * HOUR)),
        (("alice", "bob"), at(6 * HOUR), at(8 * HOUR)),
        (("bob",), at(8 * HOUR), at(14 * HOUR)),
        ((), at(14 * HOUR), at(6 * 24 * HOUR + 20 * HOUR)),
    ]
    assert shown(found).splitlines()[0] == (
        f"On call now: alice until {when(at(6 * HOUR))}, then alice, bob"
    )
    assert shown(found).endswith(
        "NOBODY ON CALL: 1 time, 6 d in total\n  Urgent requests are then sent to everybody."
    )
    assert answer(WEEKLY, days=7).turns[-1].ends == at(7 * 24 * HOUR + 6 * HOUR)


def test_without_a_rota_the_answer_says_so() -> None:
    found = answer(RotaPolicy())

    assert (found.on_call, found.turns) == (None, ())
    assert shown(found).startswith("There is no rota, so urgent requests are sent to everybody.")


def test_a_calendar_says_what_it_lacks() -> None:
    about: dict[str, Any] = {"calendar": "oncall.ics", "at": at(0), "t": 0.0}
    shifts = (DatedShift("alice", at(0), at(HOUR)),)
    read = RotaRead(shifts=shifts, until=at(99 * HOUR), unmatched=("Vac\x1bation",), **about)

    fresh, known = answer(CALENDAR), answer(CALENDAR, read)
    lost = answer(CALENDAR, read, RotaUnread(why="No such file", **about))

    assert "CALENDAR: oncall.ics was not read yet." in shown(fresh)
    assert shown(fresh).startswith("On call now: nobody; urgent requests are sent to everybody")
    assert known.read_until == at(99 * HOUR)
    assert "CALENDAR: entries that name no recipient are ignored: Vac" in shown(known)
    assert "\x1b" not in shown(known)
    assert "CALENDAR: oncall.ics cannot be read: No such file" in shown(lost)
    assert lost.turns == known.turns


def test_status_says_who_is_on_call() -> None:
    engine = Engine(Policy(rota=WEEKLY))
    without = status_of(Engine(Policy()), 0.0)

    said = status_page(status_of(engine, 0.0))

    later = when(at(0) + timedelta(hours=6))
    assert f"on call      alice until {later}, then alice, bob: `safetyd rota`" in said
    assert "on call" not in status_page(without)
