import uuid
from collections.abc import Sequence
from typing import Literal

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import (
    SafetyEvent,
)
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    BreakerMoved,
    BudgetMarked,
)
from safetyd.core.events.notification_events import NotTold
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.guards.rate.rate import RateConfig
from safetyd.core.policy import Configured, Policy
from safetyd.core.reporting.reporter import MAX_PER_TICK
from tests.story import at, play, propose, tick


def told(events: Sequence[Event]) -> list[SafetyEvent]:
    return [event for event in events if isinstance(event, SafetyEvent)]


def marked(mark: Literal["warning", "exceeded"]) -> BudgetMarked:
    return BudgetMarked(
        at=at(0),
        t=0,
        mark=mark,
        scope="day",
        id="2026-03-01",
        spent=39.0,
        reserved=1.0,
        limit=50.0,
        estimate=0.5,
    )


def blocked(t: float, n: int, agent: str = "code"):
    return propose(t, agent=agent, id=f"p{n}", type="run_shell", text="rm -rf /")


def test_first_block_is_told_at_once() -> None:
    (event,) = told(play(Engine(Policy()), blocked(0, 1)))

    assert (event.event_type, event.agent_id) == ("ACTION_BLOCKED", "code")
    assert event.metadata == {"rule": "gate.blocklist:rm_rf", "count": 1}
    assert str(uuid.UUID(event.id)) == event.id


def test_further_blocks_of_ten_seconds_are_one_event_with_a_count() -> None:
    engine = Engine(Policy())
    play(engine, *(blocked(n, n) for n in range(5)))

    assert told(play(engine, tick(9.9))) == []
    (event,) = told(play(engine, tick(10)))
    assert event.metadata["count"] == 4


def test_quiet_window_is_dropped_and_the_next_block_is_told_at_once() -> None:
    engine = Engine(Policy())
    play(engine, blocked(0, 1), blocked(20, 2, "ops"))

    assert len(told(play(engine, blocked(21, 3)))) == 1


def test_window_with_a_count_waits_for_its_tick() -> None:
    engine = Engine(Policy())
    play(engine, blocked(0, 1), blocked(1, 2), blocked(20, 3, "ops"))

    (event,) = told(play(engine, tick(21)))
    assert (event.agent_id, event.metadata["count"]) == ("code", 1)


def test_one_tick_tells_of_a_bounded_number() -> None:
    engine = Engine(Policy())
    agents = [f"a{n}" for n in range(MAX_PER_TICK + 1)]
    play(engine, *(blocked(0, 1, agent) for agent in agents))
    play(engine, *(blocked(1, 2, agent) for agent in agents))

    assert len(told(play(engine, tick(10)))) == MAX_PER_TICK
    assert len(told(play(engine, tick(10)))) == 1


def test_quiet_windows_are_passed_over_on_a_tick() -> None:
    engine = Engine(Policy())
    play(engine, blocked(0, 1, "ops"), blocked(0, 1), blocked(1, 2))

    (event,) = told(play(engine, tick(12)))
    assert event.agent_id == "code"


def test_dry_run_is_not_reported() -> None:
    events = play(Engine(Policy()), propose(0, type="run_shell", text="rm -rf /", dry_run=True))

    assert told(events) == []


def test_a_start_is_no_news() -> None:
    start = Configured(at=at(0), t=0, policy=Policy(), digest="d", version="1", why="start")

    assert told(Engine(Policy()).handle(start)) == []


def test_a_budget_event_carries_its_numbers() -> None:
    (event,) = told(Engine(Policy()).handle(marked("warning")))

    assert event.reason == "day budget 2026-03-01, $40.00 of $50.00 used"
    assert event.cost_snapshot == {
        "scope": "day",
        "id": "2026-03-01",
        "spent": 39.0,
        "reserved": 1.0,
        "limit": 50.0,
        "estimate": 0.5,
    }


def test_a_budget_event_of_a_model_names_the_model() -> None:
    engine = Engine(Policy(budget=BudgetConfig(model_usd=1)))

    calls = (
        propose(n, id=f"p{n}", type="model_call", model="gpt-5", cost_usd=usd)
        for n, usd in enumerate((0.5, 2.0))
    )
    events = told(play(engine, *calls))

    marked = [event for event in events if event.event_type == "COST_BUDGET_EXCEEDED"]
    assert [event.model_id for event in marked] == ["gpt-5"]


def test_a_breaker_event_names_the_breaker() -> None:
    moved = BreakerMoved(at=at(0), t=0, breaker="api", state="open", reason="r")

    (event,) = told(Engine(Policy()).handle(moved))

    assert event.breaker_id == "api"


def test_a_breaker_that_may_be_probed_is_no_news() -> None:
    moved = BreakerMoved(at=at(0), t=0, breaker="api", state="half_open", reason="r")

    assert told(Engine(Policy()).handle(moved)) == []


@pytest.mark.parametrize("state", ["cancelled", "expired", "quiet"])
def test_a_message_that_nobody_misses_is_no_news(
    state: Literal["cancelled", "expired", "quiet"],
) -> None:
    missed = NotTold(at=at(0), t=0, delivery="dlv_1", channel="email", state=state)

    assert told(Engine(Policy()).handle(missed)) == []


@pytest.mark.parametrize("state", ["dead", "undelivered", "parked"])
def test_a_message_that_does_not_arrive_names_its_channel_and_state(
    state: Literal["dead", "undelivered", "parked"],
) -> None:
    lost = NotTold(at=at(0), t=0, delivery="dlv_1", channel="email", state=state, error="550")

    (event,) = told(Engine(Policy()).handle(lost))

    assert (event.event_type, event.reason) == ("NOTIFICATION_FAILED", "550")
    assert event.metadata == {"channel": "email", "delivery": "dlv_1", "state": state}


@pytest.mark.req("S1.35")
def test_a_cloud_call_in_development_is_a_mode_violation() -> None:
    engine = Engine(Policy(mode="development"))

    (event,) = told(play(engine, propose(0, type="model_call", provider="openai", model="gpt-5")))

    assert (event.event_type, event.model_id) == ("MODE_VIOLATION", "gpt-5")


@pytest.mark.req("S1.31")
def test_refusals_by_the_rate_are_events_of_their_own_with_a_count() -> None:
    agent = RateConfig().production.agent
    engine = Engine(Policy())
    play(engine, *(propose(0, id=f"p{n}") for n in range(agent.burst)))

    events = told(play(engine, *(propose(0, id=f"q{n}") for n in range(3)), tick(10)))

    limited = [event for event in events if event.event_type == "RATE_LIMIT_BLOCK"]
    assert [event.metadata["count"] for event in limited] == [1, 2]
