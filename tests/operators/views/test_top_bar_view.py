"""What stands at the top of every page: the strictest hold, and what waits."""

from typing import Any

from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import Paused
from safetyd.operators.views.top_bar_view import NAMED, stopped, top_bar
from tests.core.approvals.queue_story import push
from tests.operators.views.view_reader import entered, plain, played
from tests.story import at, propose, stop


def shown(engine: Engine, t: float = 10.0) -> dict[str, Any]:
    return plain(top_bar(engine, Moment(at(t), t)))


def hold(*story: Event) -> dict[str, Any]:
    held: dict[str, Any] = shown(played(*story))["hold"]
    return held


def paused(t: float, agent: str) -> Paused:
    return Paused(at=at(t), t=t, agent=agent, source="operator", by="bob", reason="tired")


def test_nothing_holds_and_nothing_waits() -> None:
    bar = shown(played())

    assert bar["hold"]["level"] == "NORMAL"
    assert (bar["pending"], bar["oldest_at"], bar["agents"], bar["seq"]) == (0, None, 0, 0)
    assert not bar["standstill"]["active"]


def test_what_waits_is_counted_with_the_age_of_the_oldest() -> None:
    bar = shown(played(push(1, "p1", text="git push a"), push(2, "p2", text="git push b")))

    assert (bar["pending"], bar["agents"]) == (2, 1)
    assert bar["oldest_at"] == "2026-03-01T12:00:01Z"


def test_a_hold_says_since_when_by_whom_and_why() -> None:
    assert hold(stop(3)) == {
        "level": "STOPPED",
        "agents": [],
        "more": 0,
        "since": "2026-03-01T12:00:03Z",
        "by": "alice",
        "why": "drill",
    }


def test_of_several_holds_the_strictest_is_shown() -> None:
    pause, safe, one, all_ = paused(1, "a"), entered(2), stop(3, agent="b"), stop(4, epoch=2)
    first = propose(0)

    assert hold(first, pause)["level"] == "PAUSED"
    assert hold(first, pause, one)["agents"] == ["b"]
    assert hold(first, pause, one, safe)["level"] == "SAFE MODE"
    assert hold(first, pause, one, safe, all_)["level"] == "STOPPED"
    assert hold(first, pause, one, safe, all_)["agents"] == []


def test_what_holds_besides_comes_after_it_the_strictest_first() -> None:
    pause, safe, one, all_ = paused(1, "a"), entered(2), stop(3, agent="b"), stop(4, epoch=2)

    bar = shown(played(propose(0), pause, one, safe, all_))

    assert [held["level"] for held in bar["others"]] == ["SAFE MODE", "STOPPED", "PAUSED"]
    assert [held["agents"] for held in bar["others"]] == [[], ["b"], ["a"]]
    assert shown(played(propose(0), pause))["others"] == []


def test_only_the_first_of_many_are_named() -> None:
    names = [f"a{n}" for n in range(NAMED + 2)]
    pauses = hold(*(paused(1, name) for name in names))
    stops = hold(*(stop(1, agent=name, epoch=n) for n, name in enumerate(names, 1)))
    safe = hold(*(entered(1, name) for name in names))

    for level, held in (("PAUSED", pauses), ("STOPPED", stops), ("SAFE MODE", safe)):
        assert held["level"] == level
        assert (len(held["agents"]), held["more"]) == (NAMED, 2)


def test_safe_mode_of_everybody_names_nobody() -> None:
    assert hold(entered(1, "a"), entered(2))["agents"] == []


def test_two_stops_of_one_agent_name_it_once() -> None:
    engine = played(stop(1, agent="a"), stop(2, "anomaly", agent="a", epoch=2))

    held = stopped(engine.stop.stops)

    assert held is not None
    assert (held.agents, held.more) == (("a",), 0)
    assert stopped(()) is None
