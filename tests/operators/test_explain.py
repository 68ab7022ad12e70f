from typing import Any

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.decision_events import Withheld
from safetyd.core.events.event import Event, Moment
from safetyd.core.guards.guard_chain import Chain
from safetyd.core.policy import AgentConfig, Policy
from safetyd.journal.audit_reading import PlacedLine
from safetyd.operators.explain import explain, today_of, untold
from safetyd.operators.explain_search import Searched
from safetyd.operators.proposal_trail import Trail
from tests.operators.views.view_reader import encoded, plain
from tests.story import at, outcome, play, propose, stop


def lines_of(*events: Event, policy: Policy | None = None) -> list[bytes]:
    return [encode(event) for event in play(Engine(policy or Policy()), *events)]


def story(lines: list[bytes], id_: str) -> Searched | None:
    """Return what these lines tell of an id."""
    trail = Trail(id_, 1024 * 1024).follow(map(PlacedLine, lines))
    return Searched(trail, None) if trail.decided else None


def explained(lines: list[bytes], id_: str = "p1") -> dict[str, Any]:
    told = story(lines, id_)
    assert told is not None
    return plain(explain(told, untold))


def last(*events: Event, policy: Policy | None = None) -> dict[str, Any]:
    """Return what is told of the last decision."""
    decided: dict[str, Any] = explained(lines_of(*events, policy=policy))["decisions"][-1]
    return decided


def test_explain_tells_every_decision_of_an_id_and_what_was_withheld() -> None:
    lines = lines_of(
        propose(0),
        Withheld(at=at(1), t=1, agent="code", id="p1", why="late"),
        propose(2, digest="sha256:d2"),
        propose(3, id="p2"),
    )

    read = explained(lines)

    assert read["id"] == "p1"
    assert [d["decision"] for d in read["decisions"]] == ["allow", "block"]
    assert [d["first"] for d in read["decisions"]] == [True, False]
    assert [w["why"] for w in read["withheld"]] == ["late"]


def test_explain_tells_how_it_went() -> None:
    lines = lines_of(
        propose(0), propose(0, id="p2"), outcome(1, "p2"), outcome(2, ok=False), outcome(3)
    )

    view = explained(lines)

    assert [(o["agent"], o["ok"], o["error"]) for o in view["outcomes"]] == [
        ("code", False, ""),
        ("code", True, ""),
    ]
    assert [o["seq"] for o in view["outcomes"]] == sorted(o["seq"] for o in view["outcomes"])


def test_explain_finds_nothing_about_an_id_that_only_withheld_speaks_of() -> None:
    lines = lines_of(Withheld(at=at(1), t=1, agent="code", id="p1", why="late"))

    assert story(lines, "p1") is None


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
    view = explained([line, *lines_of(propose(0)), line])

    assert len(view["decisions"]) == 1


def test_every_guard_is_listed_in_the_order_of_the_chain() -> None:
    decided = last(propose(0, type="push", confidence=0.5))

    assert [guard["guard"] for guard in decided["guards"]] == list(Chain._fields)
    assert [g["guard"] for g in decided["guards"] if g["restricted"]] == ["classify", "gate"]


def test_a_guard_that_restricted_tells_what_it_thought_then() -> None:
    gate = next(g for g in last(propose(0, confidence=0.2))["guards"] if g["restricted"])

    assert gate == {
        "guard": "gate",
        "restricted": True,
        "decision": "require_confirmation",
        "rule": "gate.confidence",
        "also": [],
        "reason": "Confidence 20 % is below the required 50 %",
        "remedy": "with confidence >= 0.5",
    }


def test_the_others_tell_where_they_stand_today() -> None:
    engine = Engine(Policy())
    lines = [encode(event) for event in play(engine, propose(0, type="push"), stop(1))]
    told = story(lines, "p1")
    assert told is not None

    view = plain(explain(told, today_of(engine, Moment(at(9), 9.0))))

    guards = {guard["guard"]: guard for guard in view["decisions"][0]["guards"]}
    assert guards["stop"] == {
        "guard": "stop",
        "restricted": False,
        "now": "emergency stop is active since 12:00Z by alice: drill",
    }
    assert "now" not in guards["classify"]
    assert all(guard.get("now", "told") for guard in guards.values())


def test_without_an_engine_nothing_is_said_of_today() -> None:
    assert {guard["now"] for guard in last(propose(0))["guards"]} == {""}


def test_what_was_allowed_has_no_remedy() -> None:
    decided = last(propose(0))

    assert (decided["decided_by"], decided["remedy"], decided["then"]) == (None, "", None)


def test_what_was_asked_about_is_allowed_by_a_person_or_by_meeting_all_that_ask() -> None:
    decided = last(propose(0, type="push", confidence=0.5))

    assert decided["decided_by"] == "classify"
    assert decided["remedy"] == (
        "by a person, or with push in rules.allow_without_permission; and with confidence >= 0.9"
    )
    assert decided["then"] == "allow"


def test_what_was_blocked_may_still_be_asked_about() -> None:
    decided = last(stop(0), propose(1, type="push"))

    assert decided["decided_by"] == "stop"
    assert decided["remedy"] == "after `safetyd resume`"
    assert decided["then"] == "require_confirmation"


def test_of_two_waits_the_longer_is_told() -> None:
    slow = Policy(agents={"code": AgentConfig(tokens_per_minute=1, burst=1, dispatch_s=100)})

    decided = last(propose(0, id="b", type="dispatch"), propose(9, type="dispatch"), policy=slow)

    assert [g["remedy"] for g in decided["guards"] if g["restricted"]] == [
        "after 91 s",
        "after 51 s",
    ]
    assert decided["remedy"] == "after 91 s"


def test_a_repeat_that_is_now_held_tells_of_its_guard_once() -> None:
    decided = last(propose(0), stop(1), propose(2))

    assert (decided["first"], decided["decision"]) == (False, "block")
    assert [g["guard"] for g in decided["guards"] if g["restricted"]] == ["stop"]
    assert decided["remedy"] == "after `safetyd resume`"


def test_what_is_no_guard_and_restricted_is_listed_first() -> None:
    decided = last(propose(0), propose(1, digest="sha256:other"))

    assert decided["decided_by"] == "recall"
    assert [guard["guard"] for guard in decided["guards"]][:2] == ["recall", "stop"]
    assert decided["remedy"] == "with a new id"


def test_a_dry_run_is_explained_as_well() -> None:
    decided = last(propose(0, type="push", dry_run=True))

    assert (decided["first"], decided["decided_by"]) == (False, "classify")


def test_of_a_line_that_has_no_remedy_none_is_told() -> None:
    remedy = b"after `safetyd resume`"
    lines = [line.replace(remedy, b"") for line in lines_of(stop(0), propose(1))]

    decided = explained(lines)["decisions"][0]

    assert (decided["remedy"], decided["then"]) == ("", None)


def test_of_a_question_without_a_remedy_only_a_person_is_told() -> None:
    lines = [
        line.replace(b"with confidence >= 0.5", b"")
        for line in lines_of(propose(0, confidence=0.2))
    ]

    assert explained(lines)["decisions"][0]["remedy"] == "by a person"


def test_repeats_give_way_so_that_the_account_can_be_sent() -> None:
    dry = [propose(n, id="p1", dry_run=True) for n in range(1, 400)]
    told = story(lines_of(propose(0), *dry), "p1")
    assert told is not None

    view = explain(told, untold)

    decisions = plain(view)["decisions"]
    assert len(encoded(view)) < 256 * 1024
    assert [decided["first"] for decided in decisions[:2]] == [True, False]
    assert decisions[-1]["seq"] == told.trail.decided[-1].seq


def test_one_decision_is_told_however_little_room_there_is() -> None:
    told = story(lines_of(propose(0), propose(1, dry_run=True)), "p1")
    assert told is not None

    assert [d["first"] for d in plain(explain(told, untold, 1))["decisions"]] == [True]


def test_explain_tells_every_part_of_a_command_that_does_not_pass() -> None:
    command = propose(0, type="run_shell", text="ls; sh -c 'rm -rf ~/music'; $X")

    decided = last(command, policy=Policy(profile="coding"))

    (gate,) = (guard for guard in decided["guards"] if guard["guard"] == "gate")
    assert [(part["shown"], part.get("way", [])) for part in gate["parts"]] == [
        ("rm -rf ~/music", ["sh -c"]),
        ("$X", []),
    ]
    assert all("parts" not in g for g in decided["guards"] if g is not gate)
