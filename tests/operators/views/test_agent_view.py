from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from safetyd.bus.publisher import MAX_ANSWER_BYTES
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import AnomalyFound, Paused
from safetyd.core.messages.telemetry import Iteration
from safetyd.core.policy import Policy
from safetyd.operators.contract.agent_contract import AgentsAnswer, AgentsQuestion
from safetyd.operators.views.agent_view import FOREMOST, RECENT_S, SHOWN, agents, foremost
from safetyd.operators.views.paging import SLICE
from tests.operators.views.view_reader import encoded, entered, plain, played, whole
from tests.story import at, outcome, play, propose, report, stop


def page_of(engine: Engine, t: float, **wanted: Any) -> AgentsAnswer:
    return whole(agents, engine, t, AgentsQuestion(**wanted))


def listed(engine: Engine, t: float, **wanted: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = plain(page_of(engine, t, **wanted))["agents"]
    return rows


def first(engine: Engine, t: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = plain({"rows": whole(foremost, engine, t)})["rows"]
    return rows


def test_agents_are_listed_by_name_with_what_they_did() -> None:
    engine = played(
        propose(0, "ops", keyless=True),
        propose(1, "code", "p1"),
        propose(2, "code", "p2"),
        propose(3, "code", "p3", type="run_shell", text="rm -rf /"),
        outcome(4, "p1", ok=False),
    )

    code, ops = listed(engine, 6)

    done = {name: code[name] for name in ("allowed", "asked", "blocked", "failed")}
    assert done == {"allowed": 2, "asked": 0, "blocked": 1, "failed": 1}
    assert (code["agent"], code["key"], code["heard_s"]) == ("code", True, 2.0)
    assert (code["open_actions"], code["unreported"]) == (["p2"], 0)
    assert (ops["agent"], ops["key"]) == ("ops", False)


@pytest.mark.req("S0.20")
@pytest.mark.req("S1.13")
def test_agents_show_what_is_left_of_every_limit() -> None:
    engine = played(
        propose(0, "code", "p1", type="dispatch", session="s", chain="c", cost_usd=0.5),
        report(1, Iteration(session="s")),
        propose(2, "code", "p2", session="other", cost_usd=0.25),
        outcome(3, "p2", ok=False),
    )

    (code,) = listed(engine, 3)

    assert (code["state"], code["consecutive_errors"]) == ("executing", 1)
    assert code["max_consecutive_errors"] == 3
    assert (code["tokens"], code["burst"]) == (120.0, 120.0)
    assert (code["iterations"], code["max_iterations"]) == (1, 3)
    assert [(b["scope"], b["id"], b["spent"] + b["reserved"]) for b in code["budgets"]] == [
        ("chain", "c", 0.5),
        ("session", "s", 0.5),
        ("agent", "code", 0.75),
    ]
    assert [b["limit"] for b in code["budgets"]] == [5.0, 10.0, None]
    assert (code["anomalies"], code["near"]) == ({}, [])


@pytest.mark.parametrize(
    ("agent", "stopped"), [("ops", [False, True]), (None, [True, True]), ("else", [False, False])]
)
def test_agents_that_are_stopped_are_marked(agent: str | None, stopped: list[bool]) -> None:
    engine = played(propose(0, "code"), propose(0, "ops"), stop(1, agent=agent))

    assert [row["stopped"] for row in listed(engine, 2)] == stopped


def test_agents_show_their_kernel_and_what_pauses_them() -> None:
    engine = played(propose(0, "code"), propose(0, "ops"), paused("ops"), entered(2, "code"))

    code, ops = listed(engine, 3)

    assert (code["state"], code["pauses"]) == ("safe_mode", [])
    assert (ops["state"], ops["kernel"]) == ("paused", "executing")
    assert ops["pauses"] == ["operator"]


def test_an_agent_that_is_stopped_is_not_shown_as_paused() -> None:
    engine = played(propose(0, "code"), paused("code"), stop(2, agent="code"))

    (code,) = listed(engine, 3)

    assert (code["state"], code["kernel"]) == ("stopped", "executing")


def paused(agent: str) -> Paused:
    return Paused(at=at(1), t=1.0, agent=agent, source="operator", by="alice")


def test_agents_come_in_pages_of_which_each_begins_after_the_last() -> None:
    engine = played(*(propose(0, name) for name in "dbac"))

    assert [row["agent"] for row in listed(engine, 1, limit=3)] == ["a", "b", "c"]
    assert [row["agent"] for row in listed(engine, 1, limit=3, after="c")] == ["d"]
    assert page_of(engine, 1, limit=3).more
    assert not page_of(engine, 1, limit=4).more


def test_no_page_is_larger_than_the_bus_can_carry() -> None:
    engine = Engine(Policy())
    long = "x" * 40
    for number in range(90):
        name = f"agent-{number:040}"
        play(engine, *(propose(number, name, f"{long}{n}") for n in range(SHOWN)))

    seen: list[str] = []
    more = True
    while more:
        page = page_of(engine, 99, after=seen[-1] if seen else "")
        assert len(encoded(page)) < MAX_ANSWER_BYTES
        seen += [row.agent for row in page.agents]
        more = page.more

    assert seen == sorted(engine.keys.agents)


def dispatches(count: int) -> list[Event]:
    return [propose(n * 100, id=f"p{n}", type="dispatch", text=str(n)) for n in range(count)]


def fails(count: int) -> list[Event]:
    return [
        e for n in range(count) for e in (propose(n, id=f"p{n}"), outcome(n, f"p{n}", ok=False))
    ]


@pytest.mark.parametrize(
    ("story", "near"),
    [
        ([propose(0)], []),
        (fails(1), []),
        (fails(2), ["errors"]),
        (dispatches(2), []),
        (dispatches(3), ["iterations"]),
        ([propose(0, chain="c", cost_usd=3.9)], []),
        ([propose(0, chain="c", cost_usd=4.0)], ["chain"]),
        ([propose(0, cost_usd=8.0)], ["session"]),
        ([propose(0, id=f"p{n}") for n in range(100)], ["tokens"]),
    ],
)
def test_limits_that_are_nearly_reached_are_named(story: list[Event], near: list[str]) -> None:
    (code,) = listed(played(*story), story[-1].t)

    assert code["near"] == near


@pytest.mark.parametrize(
    ("story", "reached"),
    [
        (fails(2), []),
        (dispatches(3), ["iterations"]),
        ([propose(0, chain="c", cost_usd=4.0)], []),
        ([propose(0, chain="c", cost_usd=5.0)], ["chain"]),
        ([propose(0, id=f"p{n}") for n in range(100)], []),
        ([propose(0, id=f"p{n}") for n in range(120)], ["tokens"]),
    ],
)
def test_limits_that_are_reached_are_more_than_near(story: list[Event], reached: list[str]) -> None:
    (code,) = listed(played(*story), story[-1].t)

    assert code["reached"] == reached
    assert set(reached) <= set(code["near"])


def test_errors_that_led_to_safe_mode_are_not_a_limit_to_come() -> None:
    (code,) = listed(played(*fails(3)), 3)

    assert (code["state"], code["consecutive_errors"], code["near"]) == ("safe_mode", 3, [])


def test_those_that_matter_most_come_first() -> None:
    odd = AnomalyFound(
        at=at(2), t=2.0, rule="anomaly.x", severity="low", message="odd", agent="odd"
    )
    names = ("heard", "odd", "code", "safe", "paused", "stopped", "latest")
    engine = played(
        *(propose(0, name) for name in names),
        *fails(2),
        odd,
        paused("paused"),
        entered(2, "safe"),
        stop(2, agent="stopped"),
        propose(3, "latest", "p2"),
    )

    assert [row["agent"] for row in first(engine, 4)] == [
        "stopped",
        "paused",
        "safe",
        "code",
        "odd",
        "latest",
        "heard",
    ]


def test_an_anomaly_of_long_ago_matters_no_more() -> None:
    odd = AnomalyFound(at=at(0), t=0.0, rule="anomaly.x", severity="low", message="", agent="odd")
    engine = played(odd, propose(0, "odd"), propose(1, "new"))

    assert [row["agent"] for row in first(engine, RECENT_S)] == ["new", "odd"]


def test_of_many_agents_a_screenful_is_shown() -> None:
    engine = played(*(propose(n, f"a{n}") for n in range(FOREMOST + 5)))

    rows = first(engine, 20)

    assert [row["agent"] for row in rows] == [f"a{n}" for n in range(FOREMOST + 4, 4, -1)]
    assert "open_actions" not in rows[0]


@pytest.mark.parametrize("view", [agents, foremost])
def test_what_happens_between_two_slices_does_no_harm(view: Callable[..., Any]) -> None:
    names = [f"agent-{number:03}" for number in range(3 * SLICE)]
    engine = played(*(propose(0, name) for name in names))
    later = iter(range(100))

    def decide() -> None:
        play(engine, propose(1, f"later-{next(later)}"))

    wanted = () if view is foremost else (AgentsQuestion(),)
    made = whole(view, engine, 2.0, *wanted, between=decide)

    assert next(later) >= 3
    rows = made if view is foremost else made.agents
    assert {row.agent for row in rows} <= set(names)
    assert len(rows) == (FOREMOST if view is foremost else len(names))


def test_agents_show_their_newest_open_action_and_their_last_decision() -> None:
    engine = played(
        propose(0, "code", "p1"),
        propose(1, "code", "p2", type="edit_file", paths=["/srv/a.py"]),
        propose(2, "code", "p3", type="run_shell", text="rm -rf /"),
        propose(3, "idle", "p1"),
        outcome(4, "p1", agent="idle"),
    )

    code, idle = listed(engine, 5)

    assert code["action"] == {"id": "p2", "type": "edit_file", "since_s": 4.0}
    last = {name: code["last"][name] for name in ("id", "type", "decision", "at")}
    assert last == {
        "id": "p3",
        "type": "run_shell",
        "decision": "block",
        "at": "2026-03-01T12:00:02Z",
    }
    assert code["last"]["rule"].startswith("gate.")
    assert idle["action"] is None
    assert (idle["last"]["decision"], idle["last"]["rule"]) == ("allow", "")


def crowd() -> Engine:
    """Return an engine of four agents that differ in everything they are sorted by."""
    return played(
        propose(0, "bold", "b1", type="run_shell", text="rm -rf /", keyless=True),
        propose(1, "bold", "b2", keyless=True),
        propose(1, "calm", "c1", cost_usd=0.5),
        propose(2, "dull", "d1", cost_usd=0.25),
        propose(2, "dull", "d2"),
        outcome(3, "d1", ok=False, agent="dull"),
        outcome(3, "d2", ok=False, agent="dull"),
        *(propose(4, "Able", f"a{n}") for n in range(9)),
        paused("calm"),
        stop(5, agent="dull"),
    )


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("name", ["Able", "bold", "calm", "dull"]),
        ("state", ["dull", "calm", "Able", "bold"]),
        ("errors", ["Able", "bold", "calm", "dull"]),
        ("money", ["Able", "bold", "dull", "calm"]),
        ("heard", ["Able", "dull", "bold", "calm"]),
        ("blocked", ["Able", "calm", "dull", "bold"]),
    ],
)
def test_agents_are_sorted_by_what_is_asked_for(sort: str, names: list[str]) -> None:
    assert [row["agent"] for row in listed(crowd(), 5, sort=sort)] == names


def test_agents_with_the_least_rate_left_come_first() -> None:
    assert listed(crowd(), 4, sort="rate")[0]["agent"] == "Able"


def test_equals_are_in_the_order_of_names_whichever_way_they_are_sorted() -> None:
    rows = listed(crowd(), 5, sort="errors", descending=True)

    assert [row["agent"] for row in rows] == ["dull", "Able", "bold", "calm"]
    backwards = [row["agent"] for row in listed(crowd(), 5, descending=True)]
    assert backwards == ["dull", "calm", "bold", "Able"]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"state": "executing"}, ["Able", "bold"]),
        ({"state": "executing", "descending": True}, ["bold", "Able"]),
        ({"text": "AL"}, ["calm"]),
        ({"text": "nobody"}, []),
        ({"key": False}, ["bold"]),
        ({"key": True}, ["Able", "calm", "dull"]),
        ({"key": True, "state": "stopped", "text": "d"}, ["dull"]),
    ],
)
def test_agents_that_are_not_wanted_are_left_out(wanted: dict[str, Any], names: list[str]) -> None:
    page = page_of(crowd(), 5, **wanted)

    assert [row.agent for row in page.agents] == names
    assert page.total == len(names)


def test_any_order_holds_over_pages() -> None:
    engine = crowd()
    pages = [page_of(engine, 5, sort="money", limit=3, offset=offset) for offset in (0, 3)]

    assert [[row.agent for row in page.agents] for page in pages] == [
        ["Able", "bold", "dull"],
        ["calm"],
    ]
    assert [(page.more, page.total) for page in pages] == [(True, 4), (False, 4)]


@pytest.mark.parametrize("order", [{"sort": "money"}, {"descending": True}])
def test_another_order_than_that_of_names_cannot_go_on_after_one(order: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError, match="use `offset`"):
        msgspec.convert({"after": "code", **order}, AgentsQuestion)


def test_agents_that_are_forgotten_while_they_are_sorted_are_left_out() -> None:
    names = [f"agent-{number:03}" for number in range(2 * SLICE)]
    engine = played(*(propose(0, name) for name in names))

    def forget() -> None:
        engine.keys.agents.pop(names[-1], None)

    page = whole(agents, engine, 1.0, AgentsQuestion(sort="blocked"), between=forget)

    assert [row.agent for row in page.agents] == names[:-1]
