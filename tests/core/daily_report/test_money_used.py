"""The report's money is the budget's: both are told of the same events and know the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.daily_report.day_numbers import BudgetUse
from safetyd.core.daily_report.report_fold import ReportFold
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import decode
from safetyd.core.events.decision_events import Reported
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import BudgetRaised, CostStruck
from safetyd.core.events.request_events import Claimed
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.messages.telemetry import Outcome
from safetyd.core.messages.verdict import ALLOW, ASK, Severity
from safetyd.core.policy import Policy
from safetyd.core.sessions import SessionsConfig
from tests.core.simulation.recorded_story import TELLING, RandomStory, RecordedStory
from tests.examples import examples

DOLLAR = 1_000_000_000
POLICIES = (
    Policy(telling=TELLING, budget=BudgetConfig(day_usd=20.0)),
    Policy(
        profile="coding",
        telling=TELLING,
        budget=BudgetConfig(day_usd=6.0, default_cost_usd=0.05, party_share=0.25),
        sessions=SessionsConfig(outcome_timeout_s=300.0),
    ),
)
TEN = Policy(mode="development", budget=BudgetConfig(day_usd=10.0))


def known(engine: Engine, now: Moment) -> BudgetUse:
    """Return what `safetyd money` and `safetyd budgets` show of the day."""
    today = next(engine.guards.budget.standings(now.at))
    return BudgetUse(today.account.spent, today.limit)


def folded(story: RecordedStory) -> ReportFold:
    fold = ReportFold()
    for line in story.lines:
        fold.fold(decode(line))
    return fold


def reported(story: RecordedStory) -> BudgetUse:
    """Return what the report has of the same day."""
    number = story.engine.guards.budget.spent_today(story.now.at)[0]
    uses = [
        use
        for day in folded(story).days.values()
        for utc, use in day.budgets.items()
        if story.now.at.fromordinal(number).date().isoformat() == utc
    ]
    return uses[-1] if uses else BudgetUse(0, known(story.engine, story.now).limit)


@pytest.mark.req("S4.28")
@examples(0.5)
@given(st.integers(0, 2**32), st.sampled_from(POLICIES))
def test_the_budget_of_a_report_is_what_the_ledger_has(seed: int, policy: Policy) -> None:
    story = RandomStory(policy, seed)

    story.play(120)

    assert reported(story) == known(story.engine, story.now)


def call(story: RecordedStory, id_: str, usd: float, *, agent: str = "code", **more: bool) -> None:
    decided = story.propose(agent, "llm_call", "hello", id=id_, cost_usd=usd, model="m", **more)
    assert decided is not None
    assert decided.decision is ALLOW, decided.verdicts


def cost(story: RecordedStory) -> int:
    return sum(day.cost_nano for day in folded(story).days.values())


def test_an_action_that_nobody_reports_costs_what_was_set_aside() -> None:
    story = RecordedStory(TEN)
    call(story, "p1", 2.0)
    before = reported(story)
    story.wait(3700)

    assert before == BudgetUse(0, 10 * DOLLAR)
    assert reported(story) == known(story.engine, story.now) == BudgetUse(2 * DOLLAR, 10 * DOLLAR)
    assert cost(story) == 2 * DOLLAR


def test_a_budget_that_is_raised_is_reported_with_what_is_left_of_it() -> None:
    story = RecordedStory(TEN)
    call(story, "p1", 9.0)
    story.outcome("code", "p1", usd=9.0)
    story.happen(BudgetRaised, scope="day", usd=30.0, by="alice", reason="more")

    assert reported(story) == known(story.engine, story.now) == BudgetUse(9 * DOLLAR, 40 * DOLLAR)


def test_what_a_party_reports_beyond_its_share_is_a_cost_and_not_of_the_budget() -> None:
    story = RecordedStory(TEN)
    call(story, "p1", 1.0, agent="ops")
    call(story, "p2", 1.0, agent="made-up", keyless=True)
    told = Outcome(id="p2", ok=True, cost_usd=50.0)
    story.happen(Reported, agent="made-up", telemetry=told, keyless=True)

    # One dollar was reserved, and half of the pool's share is for what is only said.
    used = BudgetUse(7 * DOLLAR // 2, 10 * DOLLAR)
    assert reported(story) == known(story.engine, story.now) == used
    assert cost(story) == 50 * DOLLAR


def test_what_is_claimed_after_approval_is_executed_and_paid_for_once() -> None:
    story = RecordedStory(TEN)
    request_id = story.ask("push", "main", id="p1", cost_usd=3.0)
    story.answer(request_id)
    for claimant in ("first", "second"):
        story.happen(Claimed, request_id=request_id, agent="code", id="p1", claimant=claimant)
    story.outcome("code", "p1")

    (day,) = folded(story).days.values()
    assert (day.approved, day.cost_nano) == (1, 3 * DOLLAR)
    assert reported(story) == known(story.engine, story.now) == BudgetUse(3 * DOLLAR, 10 * DOLLAR)


def test_an_approval_that_was_used_counts_no_more_when_it_is_claimed() -> None:
    story = RecordedStory(TEN)
    request_id = story.ask("push", "main", id="p1", cost_usd=3.0)
    story.answer(request_id)
    used = story.propose("code", "push", "main", id="p2", cost_usd=3.0)
    assert used is not None
    assert used.uses is not None
    story.happen(Claimed, request_id=request_id, agent="code", id="p2", claimant="c")

    (day,) = folded(story).days.values()
    assert day.approved == 1


def test_a_struck_report_is_no_cost_of_the_day() -> None:
    story = RecordedStory(TEN)
    story.happen(Reported, agent="code", telemetry=Outcome(ok=True, cost_usd=9e8))
    assert reported(story) == known(story.engine, story.now) == BudgetUse(5 * DOLLAR, 10 * DOLLAR)
    [entry] = story.engine.guards.budget.large_reports()

    story.happen(CostStruck, agent="code", id=entry.id, usd=9e8, by="alice", reason="made up")

    assert reported(story) == known(story.engine, story.now) == BudgetUse(0, 10 * DOLLAR)
    assert cost(story) == 0


@pytest.mark.parametrize(("again", "decision"), [("llm_call", ALLOW), ("push", ASK)])
def test_an_id_that_comes_again_has_used_up_what_was_set_aside_for_it(
    again: str, decision: Severity
) -> None:
    story = RecordedStory(TEN)
    call(story, "p1", 2.0)
    story.wait(700)  # its decision is forgotten, and its outcome still awaited
    fields: dict[str, Any] = {"id": "p1", "cost_usd": 1.0, "model": "m", "digest": "other"}
    decided = story.propose("code", again, "hello", **fields)

    assert decided is not None
    assert decided.decision is decision
    assert reported(story) == known(story.engine, story.now) == BudgetUse(2 * DOLLAR, 10 * DOLLAR)
    assert cost(story) == 2 * DOLLAR


def test_a_new_limit_holds_for_what_was_spent_before_it() -> None:
    story = RecordedStory(TEN)
    call(story, "p1", 2.0)
    story.outcome("code", "p1")
    story.configure(Policy(mode="development", budget=BudgetConfig(day_usd=4.0)))

    assert reported(story) == known(story.engine, story.now) == BudgetUse(2 * DOLLAR, 4 * DOLLAR)
