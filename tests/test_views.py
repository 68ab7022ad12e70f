from typing import Any

import msgspec
import pytest

from safetyd.core.engine import Engine
from safetyd.core.events import Event, Moment, Withheld
from safetyd.core.guards.keys import MAX_OPEN_ACTIONS
from safetyd.core.lines import encode
from safetyd.core.policy import Policy
from safetyd.core.telemetry import Heartbeat
from safetyd.views import HEARD_S, agents, explain, status
from tests.play import at, outcome, play, propose, report, resume, stop


def told(*story: Event, t: float = 10.0) -> dict[str, Any]:
    engine = Engine(Policy())
    play(engine, *story)
    return plain(status(engine, Moment(at(t), t)))


def plain(view: object) -> dict[str, Any]:
    """Return what a client reads."""
    read: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(view))
    return read


def test_status_of_a_fresh_engine() -> None:
    view = told()

    assert view["mode"] == "production"
    assert view["profile"] == "strict"
    assert view["policy"] == Policy().digest()
    assert (view["seq"], view["agents"]) == (0, 0)
    assert view["stop"] == {
        "active": False,
        "epoch": 0,
        "stops": [],
        "acknowledged": [],
        "silent": [],
        "open_actions": 0,
    }


def halted(*story: Event, t: float = 10.0) -> dict[str, Any]:
    view: dict[str, Any] = told(*story, t=t)["stop"]
    return view


def test_stop_shows_who_has_acknowledged_it_and_who_has_not() -> None:
    view = halted(
        propose(0, "code"),
        propose(0, "ops"),
        stop(1, epoch=3),
        report(2, Heartbeat(stop_epoch=3), "code"),
    )

    assert (view["active"], view["epoch"]) == (True, 3)
    assert (view["acknowledged"], view["silent"]) == (["code"], ["ops"])
    assert view["open_actions"] == 2


def test_acknowledging_an_older_stop_is_silence() -> None:
    view = halted(
        propose(0, "code"),
        report(1, Heartbeat(stop_epoch=1), "code"),
        stop(2, epoch=2),
    )

    assert (view["acknowledged"], view["silent"]) == ([], ["code"])


def test_stop_of_one_agent_asks_nothing_of_the_others() -> None:
    view = halted(propose(0, "code"), propose(0, "ops"), stop(1, agent="ops"))

    assert (view["acknowledged"], view["silent"]) == ([], ["ops"])


def test_after_a_resume_nobody_is_silent() -> None:
    view = halted(propose(0, "code"), stop(1), resume(2))

    assert (view["active"], view["silent"], view["acknowledged"]) == (False, [], [])


def test_agent_that_was_not_heard_for_long_is_not_expected_to_answer() -> None:
    view = halted(propose(0, "code"), stop(1), t=HEARD_S + 1)

    assert (view["silent"], view["open_actions"]) == ([], 1)


def test_actions_that_are_only_counted_are_open_too() -> None:
    proposals = [propose(n, id=f"p{n}") for n in range(MAX_OPEN_ACTIONS + 3)]
    engine = Engine(Policy())
    play(engine, *proposals)

    view = plain(status(engine, Moment(at(90), 90.0)))

    assert view["stop"]["open_actions"] == MAX_OPEN_ACTIONS + 3


def test_agents_are_listed_by_name_with_what_they_did() -> None:
    engine = Engine(Policy())
    play(
        engine,
        propose(0, "ops", keyless=True),
        propose(1, "code", "p1"),
        propose(2, "code", "p2"),
        propose(3, "code", "p3", type="run_shell", text="rm -rf /"),
        outcome(4, "p1", ok=False),
    )

    view = plain(agents(engine, Moment(at(6), 6.0)))
    code, ops = view["agents"]

    assert code == {
        "agent": "code",
        "key": True,
        "heard_s": 2.0,
        "allowed": 2,
        "asked": 0,
        "blocked": 1,
        "failed": 1,
        "open_actions": ["p2"],
        "unreported": 0,
        "stopped": False,
    }
    assert (ops["agent"], ops["key"]) == ("ops", False)


@pytest.mark.parametrize(
    ("agent", "stopped"), [("ops", [False, True]), (None, [True, True]), ("else", [False, False])]
)
def test_agents_that_are_stopped_are_marked(agent: str | None, stopped: list[bool]) -> None:
    engine = Engine(Policy())
    play(engine, propose(0, "code"), propose(0, "ops"), stop(1, agent=agent))

    view = plain(agents(engine, Moment(at(2), 2.0)))

    assert [row["stopped"] for row in view["agents"]] == stopped


def lines_of(*story: Event) -> list[bytes]:
    return [encode(event) for event in play(Engine(Policy()), *story)]


def test_explain_tells_every_decision_of_an_id_and_what_was_withheld() -> None:
    lines = lines_of(
        propose(0),
        Withheld(at=at(1), t=1, agent="code", id="p1", why="late"),
        propose(2, digest="sha256:d2"),
        propose(3, id="p2"),
    )

    view = explain(lines, "p1")

    assert view is not None
    read = plain(view)
    assert read["id"] == "p1"
    assert [d["decision"] for d in read["decisions"]] == ["allow", "block"]
    assert [d["first"] for d in read["decisions"]] == [True, False]
    assert [w["why"] for w in read["withheld"]] == ["late"]


def test_explain_tells_how_it_went() -> None:
    lines = lines_of(
        propose(0), propose(0, id="p2"), outcome(1, "p2"), outcome(2, ok=False), outcome(3)
    )

    view = plain(explain(lines, "p1"))

    assert [(o["agent"], o["ok"], o["error"]) for o in view["outcomes"]] == [
        ("code", False, ""),
        ("code", True, ""),
    ]
    assert [o["seq"] for o in view["outcomes"]] == sorted(o["seq"] for o in view["outcomes"])


def test_explain_finds_nothing_about_an_id_that_only_withheld_speaks_of() -> None:
    lines = lines_of(Withheld(at=at(1), t=1, agent="code", id="p1", why="late"))

    assert explain(lines, "p1") is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"event":"opened","file":"audit-00000001.jsonl","previous":"","after_seq":0}',
        b'{"event":"decided","id":"p1"',
        b'{"event":"decided","seq":"many"}',
        b'{"event":"unheard_of"}',
        b'{"event":"withheld","seq":1,"at":"2026-03-01T12:00:00Z","t":1,"id":"\xff"}',
        b"",
        b"\x00\xff",
    ],
)
def test_lines_that_cannot_be_read_are_passed_over(line: bytes) -> None:
    view = explain([line, *lines_of(propose(0)), line], "p1")

    assert view is not None
    assert len(plain(view)["decisions"]) == 1
