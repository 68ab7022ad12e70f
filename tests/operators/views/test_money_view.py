from typing import Any

import pytest

from safetyd.bus.publisher import MAX_ANSWER_BYTES
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Reported
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.policy import Policy
from safetyd.operators.views.money_view import MAX_ROWS, money
from safetyd.operators.views.paging import SLICE
from tests.operators.views.view_reader import encoded, plain, played, whole
from tests.story import play, propose, report

HOUR = 3600


def shown(engine: Engine, t: float) -> dict[str, Any]:
    return plain(whole(money, engine, t))


def spent(t: float, usd: float, agent: str = "code") -> Reported:
    return report(t, Outcome(ok=True, cost_usd=usd), agent)


def test_money_shows_the_day_and_how_its_spending_grew() -> None:
    engine = played(propose(0, cost_usd=0.5), spent(1, 1.5), spent(HOUR, 0.5))

    view = shown(engine, HOUR)

    amounts = {name: view["today"][name] for name in ("id", "spent", "reserved", "limit")}
    assert amounts == {"id": "2026-03-01", "spent": 2.0, "reserved": 0.5, "limit": 50.0}
    assert view["bucket_s"] == 900
    assert view["series"] == [0.0] * 48 + [1.5] * 4 + [2.0]
    assert view["at"] == "2026-03-01T13:00:00Z"


def test_the_projection_goes_on_as_the_last_hour_went() -> None:
    engine = played(propose(0), spent(1, 9.0), spent(2 * HOUR, 0.5), spent(2 * HOUR + 600, 0.5))

    view = shown(engine, 2.5 * HOUR)

    assert view["projection"] == {
        "over_s": 3600.0,
        "spent": 1.0,
        "per_hour": 1.0,
        "at_midnight": 19.5,
        "used_up_at": None,
    }


def test_the_projection_says_when_the_limit_is_reached_with_what_is_set_aside() -> None:
    engine = played(propose(0, cost_usd=4.0), spent(1, 20.0))

    projection = shown(engine, HOUR)["projection"]

    assert (projection["per_hour"], projection["at_midnight"]) == (20.0, 240.0)
    assert projection["used_up_at"] == "2026-03-01T14:18:00Z"


def test_money_that_is_used_up_is_so_now() -> None:
    engine = Engine(Policy(budget=BudgetConfig(party_share=1.0)))
    play(engine, propose(0), spent(1, 50.0))

    assert shown(engine, 9 * HOUR)["projection"]["used_up_at"] == "2026-03-01T21:00:00Z"


def test_without_a_limit_nothing_is_used_up() -> None:
    engine = Engine(Policy(budget=BudgetConfig(day_usd=0.0)))
    play(engine, propose(0), spent(1, 50.0))

    assert shown(engine, 2)["projection"]["used_up_at"] is None


def test_just_after_midnight_one_outcome_is_not_taken_for_a_rate() -> None:
    midnight = 12 * HOUR
    engine = played(propose(midnight), spent(midnight + 1, 0.01))

    projection = shown(engine, midnight + 2)["projection"]

    assert (projection["over_s"], projection["per_hour"]) == (900.0, 0.04)


@pytest.mark.parametrize("t", [0, 12 * HOUR])
def test_what_nothing_is_spent_of_lasts(t: float) -> None:
    view = shown(Engine(Policy()), t)

    assert (view["projection"]["at_midnight"], view["projection"]["used_up_at"]) == (0.0, None)
    assert (view["agents"], view["models"], view["sessions"]) == ([], [], [])
    assert view["keyless"] is None


def test_money_is_shown_by_agent_model_and_session_and_the_most_used_first() -> None:
    engine = played(
        propose(0, "code", cost_usd=0.5, model="m", session="s"),
        propose(1, "ops", cost_usd=1.5, model="n"),
        propose(2, "idle"),
    )

    view = shown(engine, 3)

    assert [(row["id"], row["reserved"]) for row in view["agents"]] == [("ops", 1.5), ("code", 0.5)]
    assert [(row["id"], row["reserved"]) for row in view["models"]] == [("n", 1.5), ("m", 0.5)]
    sessions = [(row["agent"], row["id"], row["reserved"]) for row in view["sessions"]]
    assert sessions == [("ops", "", 1.5), ("code", "s", 0.5)]
    assert view["left_out"] == 0


def test_agents_without_a_key_have_a_share_once_others_have_keys() -> None:
    engine = played(propose(0), propose(1, "made-up", keyless=True, cost_usd=0.5))

    keyless = shown(engine, 2)["keyless"]

    assert (keyless["scope"], keyless["reserved"], keyless["limit"]) == ("keyless", 0.5, 25.0)


def test_money_of_many_fits_into_an_answer_and_the_rest_is_counted() -> None:
    engine = Engine(Policy())
    count = MAX_ROWS + SLICE
    for number in range(count):
        play(engine, propose(number, f"agent-{number:040}", cost_usd=0.001, session="s" * 60))

    answer = whole(money, engine, count)

    assert len(encoded(answer)) < MAX_ANSWER_BYTES
    assert answer.left_out == 2 * count - len(answer.agents) - len(answer.sessions)
