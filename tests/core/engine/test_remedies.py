"""Remedies are true: what a verdict says would allow a proposal does allow it."""

from pathlib import Path
from typing import Final

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Unpaused
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.guards.iterations import IterationsConfig
from safetyd.core.guards.rate.rate import RateConfig
from safetyd.core.guards.rate.rate_limits import ProductionAgent, ProductionGlobal, ProductionRates
from safetyd.core.messages.telemetry import Iteration, Outcome
from safetyd.core.messages.verdict import Verdict, after, all_of
from safetyd.core.policy import AgentConfig, Policy
from tests.core.engine.remedy_story import (
    Story,
    entered,
    exited,
    half_open,
    opened,
    paused,
    raised,
    rules,
    several,
)
from tests.core.engine.restriction_samples import JUDGED, WORDED
from tests.snapshot import check_snapshot
from tests.story import at, outcome, play, propose, report, resume, stop

MIDNIGHT = 12 * 3600  # seconds after noon, when stories begin

HOLDS: dict[str, Story] = {
    "stop": Story(
        propose(1),
        propose(3),
        before=(stop(0),),
        done=(resume(2),),
    ),
    "stop of one agent": Story(
        propose(1),
        propose(3),
        before=(stop(0, agent="code"),),
        done=(resume(2, agent="code"),),
    ),
    "stops of several sources": Story(
        propose(1),
        propose(3),
        before=(stop(0, "file:/run/STOP"), stop(0, "environment", epoch=2)),
        done=(resume(2, "file:/run/STOP", epoch=3), resume(2, "environment", epoch=4)),
    ),
    "keys": Story(
        propose(1, "b", keyless=True),
        propose(1, "b"),
        before=(propose(0, "a", keyless=True), stop(0, agent="a")),
        policy=Policy(max_agents=1),
    ),
    "keys with a larger bound": Story(
        propose(1, "b", keyless=True),
        propose(1, "b", keyless=True),
        before=(propose(0, "a", keyless=True), stop(0, agent="a")),
        policy=Policy(max_agents=1),
        wanted=Policy(max_agents=2),
    ),
    "pause": Story(
        propose(1),
        propose(3),
        before=(paused(0), paused(0, "anomaly")),
        done=(Unpaused(at=at(2), t=2, agent="code", sources=("operator", "anomaly"), by="alice"),),
    ),
    "mode": Story(
        propose(0, type="model_call", model="gpt-5"),
        propose(0, type="model_call", model="gpt-5"),
        policy=Policy(mode="development"),
        wanted=Policy(mode="hybrid"),
    ),
    "mode without a model": Story(
        propose(0, type="model_call"),
        propose(0, type="model_call", model="llama-3"),
        policy=Policy(mode="development"),
    ),
    "safe mode": Story(
        propose(1, type="edit_file"),
        propose(3, type="edit_file"),
        before=(entered(0, None), entered(0, "code")),
        done=(exited(2, "code"), exited(2, None)),
    ),
    "iterations": Story(
        propose(9, type="dispatch"),
        propose(9, type="dispatch", session="other"),
        before=tuple(report(t, Iteration()) for t in range(3)),
    ),
    "iterations with a larger limit": Story(
        propose(9),
        propose(9),
        before=tuple(report(t, Iteration()) for t in range(4)),
        wanted=Policy(agents={"code": AgentConfig(iterations=4)}),
    ),
    "iterations without any": Story(
        propose(9, type="dispatch"),
        propose(9, type="dispatch"),
        policy=Policy(iterations=IterationsConfig(agents={"code": 0})),
        wanted=Policy(agents={"code": AgentConfig(iterations=1)}),
    ),
    "cooldown": Story(
        propose(23, type="dispatch"),
        propose(60, type="dispatch"),
        before=(propose(0, id="b", type="dispatch"),),
        too_soon=propose(59, type="dispatch"),
    ),
    "cooldown that is nearly over": Story(
        propose(59.75, type="dispatch"),
        propose(60.05, type="dispatch"),
        before=(propose(0, id="b", type="dispatch"),),
    ),
    "rate": Story(
        propose(0),
        propose(6),
        before=several(2, 0),
        policy=Policy(agents={"code": AgentConfig(tokens_per_minute=10, burst=2)}),
        too_soon=propose(5.9),
    ),
    "fairness": Story(
        propose(0),
        propose(0.8),
        before=(*several(97, 0), propose(0, "other", "o")),
        policy=Policy(
            rate=RateConfig(
                production=ProductionRates(
                    global_=ProductionGlobal(tokens_per_minute=180, burst=120),
                    agent=ProductionAgent(burst=1000),
                )
            )
        ),
    ),
    "budget": Story(
        propose(9, cost_usd=1.2),
        propose(9, cost_usd=0.5),
        before=(propose(0, id="b", cost_usd=4.5),),
        policy=Policy(budget=BudgetConfig(day_usd=5.0)),
    ),
    "budget on the next day": Story(
        propose(9, model="llama-3"),
        propose(MIDNIGHT, model="llama-3"),
        before=(propose(0, id="b", cost_usd=5),),
        policy=Policy(budget=BudgetConfig(day_usd=5.0)),
        too_soon=propose(MIDNIGHT - 1, model="llama-3"),
    ),
    "budget of all without a key": Story(
        propose(9, cost_usd=3, keyless=True, agent="visitor"),
        propose(9, cost_usd=3, keyless=True, agent="visitor"),
        before=(propose(0),),
        done=(raised(1, "keyless", 0.5),),
        policy=Policy(budget=BudgetConfig(day_usd=5.0)),
    ),
    "budget that was used without setting it aside": Story(
        propose(9, cost_usd=1),
        propose(9, cost_usd=1),
        before=(
            propose(0, id="b"),
            propose(0, "ops", "o"),
            report(1, Outcome(ok=True, cost_usd=2.5)),
        ),
        done=(raised(2, "agent", 1.0, "code"),),
        policy=Policy(budget=BudgetConfig(day_usd=5.0)),
    ),
    "budget with larger limits": Story(
        propose(9, cost_usd=6, chain="c"),
        propose(9, cost_usd=6, chain="c"),
        before=(propose(0, id="b", cost_usd=4, chain="c"),),
        policy=Policy(budget=BudgetConfig(chain_usd=5, session_usd=9.5)),
        wanted=Policy(budget=BudgetConfig(chain_usd=10, session_usd=10)),
    ),
    "breaker": Story(
        propose(10, dependency="api"),
        propose(35, dependency="api"),
        before=(opened(0, "api"), opened(5, "api/code", "code")),
        too_soon=propose(34, dependency="api"),
    ),
    "breaker that is being probed": Story(
        propose(60, dependency="api"),
        propose(70, dependency="api"),
        before=(
            opened(0, "api"),
            half_open(30, "api"),
            *(propose(31 + 6 * n, id=f"b{n}", dependency="api") for n in range(3)),
        ),
        done=tuple(outcome(61, f"b{n}") for n in range(3)),
    ),
}

STORIES = HOLDS | JUDGED | WORDED
SAID: Final = Path(__file__).with_name("restrictions.txt")


def decide(policy: Policy, story: tuple[Event, ...], asks: Proposed) -> Decided:
    engine = Engine(policy)
    play(engine, *story)
    decided = engine.decide(asks)[1][0]
    assert isinstance(decided, Decided)
    return decided


def restricted(story: Story) -> tuple[Verdict, ...]:
    return decide(story.policy, story.before, story.asks).verdicts


def said() -> str:
    """Return the reasons and remedies of all samples."""
    return "\n".join(
        f"{name}\n"
        + "".join(
            f"  {verdict.rule}: {verdict.reason}\n  allowed {verdict.remedy}\n"
            for verdict in restricted(story)
        )
        for name, story in STORIES.items()
    )


@pytest.mark.req("S1.39")
def test_a_restriction_says_why_and_what_would_lift_it() -> None:
    check_snapshot(SAID, said())


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_the_reason_which_an_agent_reads_has_no_command(story: Story) -> None:
    reasons = [verdict.reason for verdict in restricted(story) if not verdict.parts]

    assert not [reason for reason in reasons if "`" in reason or "safetyd " in reason]


@pytest.mark.req("S1.39")
@pytest.mark.parametrize("name", [name for name, story in STORIES.items() if story.then])
def test_the_remedy_lets_it_pass(name: str) -> None:
    story = STORIES[name]
    assert story.then is not None
    decided = decide(story.wanted or story.policy, (*story.before, *story.done), story.then)

    assert restricted(story)
    assert decided.verdicts == ()


@pytest.mark.parametrize("story", [story for story in STORIES.values() if story.too_soon])
def test_less_than_the_remedy_does_not_let_it_pass(story: Story) -> None:
    assert story.too_soon is not None
    decided = decide(story.policy, story.before, story.too_soon)

    assert decided.verdicts


def test_every_guard_has_a_story() -> None:
    restricting = {verdict.guard for story in STORIES.values() for verdict in restricted(story)}

    assert restricting >= set(Engine(Policy()).guard_names)


def test_of_many_sessions_one_must_end_before_memory_is_counted_in_another() -> None:
    engine = Engine(rules(memory_per_session=1))
    guard = engine.guards.classify
    guard._state.memory["code"] = {f"s{n}": 1 for n in range(1000)}

    decided = engine.decide(propose(0, type="memory_write", session="one more"))[1][0]

    assert isinstance(decided, Decided)
    assert decided.verdicts[0].remedy.startswith("after one of its ")


@pytest.mark.parametrize(
    ("wait_s", "said"), [(0.01, "0.1"), (3, "3.0"), (9.9, "9.9"), (9.91, "10"), (36.2, "37")]
)
def test_a_wait_is_rounded_up(wait_s: float, said: str) -> None:
    assert after(wait_s) == f"after {said} s"


def test_of_several_waits_the_longest_is_shown() -> None:
    assert all_of(("after 9.5 s", "with a key", "after 37 s", "after 37 s")) == (
        "with a key; and after 37 s"
    )


def test_what_is_not_known_of_one_is_not_known_of_all() -> None:
    assert all_of(("after 37 s", "")) == ""
    assert all_of(()) == ""
