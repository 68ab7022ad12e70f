from typing import Any

from safetyd.bus.publisher import MAX_ANSWER_BYTES
from safetyd.core.engine.engine import Engine
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.telemetry import Iteration
from safetyd.core.policy import Policy
from safetyd.operators.views.limit_view import limits
from safetyd.operators.views.paging import SLICE
from tests.operators.views.view_reader import encoded, plain, played, whole
from tests.story import play, propose, report


def shown(engine: Engine, t: float) -> dict[str, Any]:
    return plain(whole(limits, engine, t))


def test_buckets_show_what_is_left_and_when_they_are_full_again() -> None:
    engine = played(propose(0, "code", model="m"), *(propose(0, "ops", f"p{n}") for n in range(6)))

    common, _, ops, *others = shown(engine, 0)["buckets"]

    assert common == {
        "kind": "global",
        "id": "",
        "tokens": 1493.0,
        "burst": 1500.0,
        "per_s": 100.0,
        "full_s": 0.1,
    }
    assert ops == {
        "kind": "agent",
        "id": "ops",
        "tokens": 114.0,
        "burst": 120.0,
        "per_s": 5.0,
        "full_s": 1.2,
    }
    assert [(one["kind"], one["id"]) for one in others] == [("agent", "code"), ("model", "m")]


def test_a_bucket_that_nobody_took_from_is_full() -> None:
    (common,) = shown(Engine(Policy()), 5)["buckets"]

    assert (common["tokens"], common["full_s"]) == (1500.0, 0.0)


def test_agents_without_a_key_leave_a_part_once_others_have_keys() -> None:
    engine = played(propose(0, "made-up", keyless=True))
    alone = [one["kind"] for one in shown(engine, 0)["buckets"]]
    play(engine, propose(0, "code"))

    _, keyless, *_ = shown(engine, 0)["buckets"]

    assert "keyless" not in alone
    assert keyless["kind"] == "keyless"
    assert (keyless["tokens"], keyless["burst"]) == (748.0, 750.0)


def test_sessions_that_may_begin_no_more_rounds_are_shown() -> None:
    rounds = (report(n, Iteration(session=session)) for n in range(3) for session in ("s", ""))
    engine = played(propose(0, session="s"), *rounds, propose(4, "ops", session="s"))
    play(engine, report(5, Iteration(session="other")))

    reached = shown(engine, 6)["iterations"]

    assert reached == [
        {"agent": "code", "session": "s", "rounds": 3, "limit": 3},
        {"agent": "code", "session": "", "rounds": 3, "limit": 3},
    ]


def test_cooldowns_that_hold_are_shown_and_those_that_are_over_are_not() -> None:
    engine = played(
        propose(0, id="p1", type="dispatch", target=Target(name="old")),
        propose(50, id="p2", type="dispatch", target=Target(name="new")),
        propose(40, "ops", "p3", type="dispatch"),
    )

    cooling = shown(engine, 70)["cooldowns"]

    assert cooling == [
        {"agent": "code", "target": "new", "left_s": 40.0, "cooldown_s": 60.0},
        {"agent": "ops", "target": "ops", "left_s": 30.0, "cooldown_s": 60.0},
    ]


def test_limits_of_many_fit_into_an_answer_and_the_rest_is_counted() -> None:
    engine = Engine(Policy())
    for number in range(SLICE * 12):
        play(engine, propose(number, f"agent-{number:040}", type="dispatch"))

    answer = whole(limits, engine, SLICE * 12)

    assert len(encoded(answer)) < MAX_ANSWER_BYTES
    assert answer.left_out == SLICE * 12 + 2 - len(answer.buckets)
    assert len(answer.cooldowns) == 59
