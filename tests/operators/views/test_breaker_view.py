import itertools
from typing import Any

from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import BreakerMoved
from safetyd.core.reporting.failure_windows import MAX_CALLS
from safetyd.operators.views.breaker_view import DRAWN, breakers
from tests.operators.views.view_reader import plain, played, status_of
from tests.story import at, outcome, propose


def shown(engine: Engine, t: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = plain(breakers(engine, Moment(at(t), float(t))))["breakers"]
    return rows


def called(t: float, *, ok: bool, agent: str = "code", dependency: str = "db") -> list[Event]:
    id_ = f"{dependency}-{t}"
    done = outcome(t, id_, ok=ok, agent=agent)
    return [propose(t, agent, id_, dependency=dependency), done]


def test_breakers_show_how_long_they_have_been_open_and_how_calls_went() -> None:
    moved = BreakerMoved(at=at(2), t=2.0, breaker="api", state="open", reason="5 calls failed")
    engine = played(propose(0, dependency="db"), outcome(1, ok=False), moved)

    api, db = plain(breakers(engine, Moment(at(5), 5.0)))["breakers"]

    assert (api["breaker"], api["state"], api["open_s"]) == ("api", "open", 3.0)
    assert (db["breaker"], db["state"], db["open_s"]) == ("db", "closed", None)
    assert (api["wait_s"], db["wait_s"]) == (27.0, None)
    assert (db["calls"], db["failures"]) == (1, 1)


def test_breakers_that_an_answer_has_no_room_for_are_counted() -> None:
    names = ("x" * 900 + str(n) for n in range(300))
    moves = [
        BreakerMoved(at=at(1), t=1.0, breaker=name, state="open", reason="down") for name in names
    ]

    view = plain(breakers(played(*moves), Moment(at(2), 2.0)))

    assert view["left_out"] > 0
    assert len(view["breakers"]) + view["left_out"] == 300


def test_the_window_has_the_calls_in_order_and_how_they_went() -> None:
    story = [
        *called(0, ok=False),
        *called(50, ok=True),
        *called(55, ok=False),
        *called(58, ok=False, agent="ops"),
    ]

    (db,) = shown(played(*story), 61)

    assert db["window"] == {
        "calls": 3,
        "failures": 2,
        "in_a_row": 2,
        "ages_s": [61.0, 11.0, 6.0, 3.0],
        "ok": [False, True, False, False],
    }


def test_the_window_has_the_newest_calls() -> None:
    calls = [event for t in range(MAX_CALLS + 5) for event in called(t, ok=True)]

    (db,) = shown(played(*calls), MAX_CALLS + 5)

    assert (len(db["window"]["ages_s"]), db["window"]["in_a_row"]) == (MAX_CALLS, 0)
    assert (db["window"]["ages_s"][0], db["window"]["ages_s"][-1]) == (60.0, 1.0)


def test_breakers_say_when_they_open() -> None:
    limits = plain(breakers(played(), Moment(at(0), 0.0)))["limits"]

    assert (limits["error_rate"], limits["min_calls"], limits["window_s"]) == (0.5, 20, 60.0)
    assert (limits["max_consecutive_failures"], limits["probe_count"]) == (5, 3)


def test_a_breaker_that_is_tried_again_shows_its_probes() -> None:
    moved = BreakerMoved(at=at(0), t=0.0, breaker="db", state="open", reason="5 calls failed")
    engine = played(moved, *called(31, ok=True), propose(37, id="late", dependency="db"))

    (db,) = shown(engine, 38)

    probes = {name: db[f"probes_{name}"] for name in ("started", "succeeded", "out")}
    assert (db["state"], probes) == ("half_open", {"started": 2, "succeeded": 1, "out": 1})


def test_closed_breakers_that_were_called_last_come_first() -> None:
    story = [*called(0, ok=True, dependency="old"), *called(1, ok=True, dependency="new")]

    assert [row["breaker"] for row in shown(played(*story), 2)] == ["new", "old"]


def test_only_the_first_breakers_are_drawn_and_in_a_status_none() -> None:
    names = [f"b{number}" for number in range(DRAWN + 1)]
    moves = [
        BreakerMoved(at=at(1), t=1.0, breaker=name, state="open", reason="down") for name in names
    ]
    engine = played(*moves)

    rows = shown(engine, 2)

    assert [row["window"] is None for row in rows] == [False] * DRAWN + [True]
    assert {row.window for row in status_of(engine, 2).breakers} == {None}


def test_a_breaker_that_is_open_shows_the_calls_that_opened_it() -> None:
    ages = (500, 490, 30, 29, 28, 27, 26)
    agents = itertools.cycle(("code", "ops"))
    story = [
        event for age in ages for event in called(500 - age, ok=age == 490, agent=next(agents))
    ]

    (db,) = shown(played(*story), 500)

    assert (db["state"], db["wait_s"]) == ("open", 4.0)
    assert db["window"] == {
        "calls": 5,
        "failures": 5,
        "in_a_row": 5,
        "ages_s": [*map(float, ages)],
        "ok": [False, True, False, False, False, False, False],
    }
