from typing import Any

import msgspec
import pytest

from safetyd.core.events.decision_events import Decided
from safetyd.core.events.guard_events import BudgetMarked
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.messages.money import NANO
from safetyd.core.messages.telemetry import SessionEnded
from safetyd.core.messages.verdict import Severity
from tests.core.guards.budget.budget_rig import (
    MIDNIGHT,
    NO_LIMITS,
    BudgetRig,
    cost,
    marks,
    pauses,
    priced,
    unpause,
)
from tests.story import at, propose, report, stop


@pytest.mark.req("S1.21")
@pytest.mark.req("S2.3")
@pytest.mark.req("S2.4")
@pytest.mark.req("S2.5")
def test_limits_are_those_of_the_seeds() -> None:
    config = BudgetConfig()

    assert (config.chain_usd, config.session_usd, config.day_usd) == (5, 10, 50)
    assert (config.agent_usd, config.model_usd, config.warn_ratio) == (0, 0, 0.8)


def test_a_proposal_without_a_cost_is_free_by_default() -> None:
    shop = BudgetRig()
    shop.buys(0, chain="c-7")

    assert shop.reserved("day") == 0


def test_proposal_without_a_cost_takes_the_default() -> None:
    shop = BudgetRig(BudgetConfig(default_cost_usd=0.25))
    shop.buys(0)

    assert shop.reserved("day") == 0.25


def test_estimate_is_the_larger_of_what_is_said_and_what_the_tokens_cost() -> None:
    shop = BudgetRig()
    shop.play(
        priced(propose(0, id="p1", cost_usd=1.0), 2 * NANO),
        priced(propose(0, id="p2", cost_usd=3.0), 2 * NANO),
        priced(propose(0, id="p3"), 2 * NANO),
    )

    assert shop.reserved("day") == 7


def test_price_is_fixed_in_the_journal() -> None:
    journal = BudgetRig().play(priced(propose(0), 7), cost(1, "p1", priced_nano=9))

    assert [getattr(event, "priced_nano", None) for event in journal] == [7, 9, 9]


@pytest.mark.req("S1.40")
@pytest.mark.req("S2.3")
def test_chain_is_halted_once_its_budget_is_used() -> None:
    shop = BudgetRig()
    shop.buys(0, 5, chain="c-7")

    decision = shop.buys(1, chain="c-7")

    assert (decision.decision, decision.cause) == (Severity.BLOCK, "budget")
    assert decision.limit_id == "budget.chain:c-7"
    assert shop.buys(2, chain="c-8").allowed
    assert shop.buys(2).allowed


def test_reaching_a_limit_exactly_is_allowed_and_a_nano_more_is_not() -> None:
    shop = BudgetRig()
    shop.buys(0, 4.9, chain="c-7")

    assert not shop.buys(1, 0.100000001, chain="c-7").allowed
    assert shop.buys(1, 0.1, chain="c-7").allowed


def test_agents_do_not_share_a_chain_by_its_name() -> None:
    shop = BudgetRig()
    shop.buys(0, 5, chain="c-7")

    assert shop.buys(1, 1, agent="ops", chain="c-7").allowed


@pytest.mark.req("S2.5")
@pytest.mark.req("S1.20")
def test_session_asks_for_more_and_its_agent_is_paused() -> None:
    shop = BudgetRig()
    shop.buys(0, 9.8, session="s-42")

    journal = shop.play(propose(1, cost_usd=0.5, session="s-42"))

    decided = journal[0]
    assert isinstance(decided, Decided)
    assert decided.decision is Severity.ASK
    assert decided.verdicts[0].limit_id == "budget.session:s-42"
    (paused,) = pauses(journal)
    assert (paused.agent, paused.source) == ("code", "budget")
    assert paused.reason == decided.verdicts[0].reason


def test_implicit_session_has_a_budget_too() -> None:
    shop = BudgetRig()
    shop.buys(0, 10)

    decision = shop.buys(1, 0.01)

    assert (decision.decision, decision.limit_id) == (Severity.ASK, "budget.session")


def test_agent_is_paused_once_until_people_answer() -> None:
    shop = BudgetRig()
    journal = shop.play(
        propose(0, id="p1", cost_usd=11, session="a"),
        propose(1, id="p2", cost_usd=11, session="a"),
        propose(2, id="p3", cost_usd=11, session="b"),
    )

    assert len(pauses(journal)) == 1


@pytest.mark.req("S2.5")
def test_approval_gives_the_session_its_budget_once_more_and_no_further() -> None:
    shop = BudgetRig()
    shop.buys(0, 10)
    shop.buys(1, 1)
    shop.play(unpause(2))

    assert shop.buys(3, 10).allowed
    assert pauses(shop.play(propose(4, cost_usd=0.01)))


def test_approval_is_for_the_session_of_the_request() -> None:
    shop = BudgetRig()
    shop.buys(0, 10, session="a")
    shop.buys(0, 10, session="b")
    shop.buys(1, 1, session="a")
    shop.buys(1, 1, session="b")
    shop.play(unpause(2))

    assert shop.buys(3, 1, session="a").allowed
    assert pauses(shop.play(propose(4, cost_usd=1, session="b")))


def test_approval_after_the_session_is_over_raises_nothing() -> None:
    shop = BudgetRig()
    shop.buys(0, 11, session="a")
    shop.play(report(1, SessionEnded(session="a")), unpause(2))

    assert not shop.buys(3, 11, session="a").allowed


def test_only_an_answer_to_the_budget_raises_it() -> None:
    shop = BudgetRig()
    shop.buys(0, 10)
    shop.buys(1, 1)
    shop.play(unpause(2, "operator"), unpause(2, agent="nobody"))

    assert not shop.buys(3, 1).allowed


@pytest.mark.req("S2.4")
@pytest.mark.parametrize(
    "needy",
    [
        {"usd": 0.01},
        {"type": "model_call"},
        {"type": "dispatch"},
        {"model": "llama3"},
        {"provider": "ollama"},
    ],
)
def test_used_up_day_blocks_what_needs_money_of_every_agent(needy: dict[str, Any]) -> None:
    shop = BudgetRig(BudgetConfig(session_usd=0))
    shop.buys(0, 50, agent="ops")

    decision = shop.buys(1, **needy)

    assert (decision.decision, decision.cause) == (Severity.BLOCK, "budget")
    assert decision.limit_id == "budget.day"


def test_what_costs_nothing_passes_a_day_that_is_used_up() -> None:
    shop = BudgetRig(BudgetConfig(session_usd=0, agent_usd=50))
    shop.buys(0, 50, chain="c", id="p1")

    assert shop.buys(1).allowed
    assert shop.buys(1, 0, type="edit_file").allowed


def test_what_costs_nothing_passes_no_chain_that_is_halted() -> None:
    shop = BudgetRig()
    shop.buys(0, 5, chain="c")

    assert shop.buys(1, chain="c").limit_id == "budget.chain:c"


@pytest.mark.req("S2.4")
def test_used_up_day_is_one_alert() -> None:
    shop = BudgetRig(BudgetConfig(session_usd=0))
    shop.buys(0, 50)

    asks = (propose(n, id=f"p{n}", agent=f"a{n}", cost_usd=1) for n in range(5))
    journal = shop.play(*asks)

    assert marks(journal) == [("exceeded", "day", "2026-03-01")]


def test_single_estimate_too_large_refuses_that_proposal_only() -> None:
    shop = BudgetRig(BudgetConfig(session_usd=0))

    assert not shop.buys(0, 50.01).allowed
    assert shop.buys(1, 50).allowed


@pytest.mark.req("S1.19")
def test_every_scope_that_refuses_is_named_and_the_strictest_gives_the_reason() -> None:
    shop = BudgetRig(BudgetConfig(agent_usd=20, model_usd=20))

    decision = shop.buys(0, 60, chain="c", model="gpt-5.2")

    assert decision.triggered_rules == (
        "budget.chain",
        "budget.session",
        "budget.day",
        "budget.agent",
        "budget.model",
    )
    assert decision.limit_id == "budget.chain:c"


def test_block_by_the_day_goes_before_a_question_by_the_session() -> None:
    decision = BudgetRig().buys(0, 60)

    assert decision.decision is Severity.BLOCK
    assert decision.triggered_rules == ("budget.day", "budget.session")


def test_agent_and_model_have_limits_if_they_are_given_some() -> None:
    shop = BudgetRig(BudgetConfig(agent_usd=2, model_usd=3))
    shop.buys(0, 2, model="gpt-5.2")

    assert shop.buys(1, 1, model="o4").limit_id == "budget.agent:code"
    assert shop.buys(1, 1.5, agent="ops", model="gpt-5.2").limit_id == "budget.model:gpt-5.2"
    assert shop.buys(1, 1, agent="ops", model="gpt-5.2").allowed


def test_zero_is_no_limit() -> None:
    shop = BudgetRig(NO_LIMITS)

    assert shop.buys(0, 1e6, chain="c").allowed
    assert marks(shop.play(propose(1, cost_usd=1e6, chain="c"))) == []


def test_an_agent_may_have_a_session_limit_of_its_own() -> None:
    shop = BudgetRig(session_usd={"nightly": 40, "free": 0})

    assert shop.buys(0, 11, agent="nightly").allowed
    assert shop.buys(0, 12, agent="free").allowed
    assert not shop.buys(0, 11, agent="code").allowed


def test_approval_raises_an_agents_own_limit_by_its_own_amount() -> None:
    shop = BudgetRig(session_usd={"code": 2})
    shop.buys(0, 2)
    shop.buys(1, 1)
    shop.play(unpause(2))

    assert shop.buys(3, 2).allowed
    assert not shop.buys(4, 0.01).allowed


@pytest.mark.req("S1.21")
@pytest.mark.req("S1.19")
def test_warning_comes_once_when_four_fifths_are_used() -> None:
    shop = BudgetRig()

    journal = shop.play(
        propose(0, id="p1", cost_usd=7.99, session="s"),
        propose(1, id="p2", cost_usd=0.01, session="s"),
        propose(2, id="p3", cost_usd=0.01, session="s"),
    )

    [mark] = [event for event in journal if isinstance(event, BudgetMarked)]
    assert (mark.at, mark.mark, mark.scope, mark.id) == (at(1), "warning", "session", "s")
    assert (mark.spent, mark.reserved, mark.limit, mark.estimate) == (0, 8, 10, 0.01)
    assert mark.agent == "code"


def test_real_cost_can_be_what_brings_the_warning() -> None:
    journal = BudgetRig().play(propose(0, cost_usd=1), cost(1, "p1", 9))

    assert marks(journal) == [("warning", "session", "")]


def test_warning_comes_again_on_another_day() -> None:
    shop = BudgetRig(BudgetConfig(session_usd=0))

    journal = shop.play(
        propose(0, id="p1", cost_usd=40),
        propose(1, id="p2", cost_usd=1),
        propose(MIDNIGHT, id="p3", cost_usd=40),
    )

    assert marks(journal) == [("warning", "day", "2026-03-01"), ("warning", "day", "2026-03-02")]


def test_every_scope_warns_for_itself() -> None:
    shop = BudgetRig(BudgetConfig(agent_usd=5, model_usd=5, day_usd=5, session_usd=5))

    journal = shop.play(propose(0, cost_usd=4, chain="c", session="s", model="o4"))

    assert [(scope, id_) for _, scope, id_ in marks(journal)] == [
        ("chain", "c"),
        ("session", "s"),
        ("day", "2026-03-01"),
        ("agent", "code"),
        ("model", "o4"),
    ]
    assert [e.agent for e in journal if isinstance(e, BudgetMarked)] == [
        "code",
        "code",
        None,
        "code",
        None,
    ]


@pytest.mark.req("S1.19")
def test_exceeded_comes_once_when_a_budget_first_refuses() -> None:
    shop = BudgetRig()

    journal = shop.play(*(propose(n, id=f"p{n}", cost_usd=6, chain="c") for n in range(3)))

    assert marks(journal) == [("exceeded", "chain", "c")]


def test_opinion_alone_marks_nothing() -> None:
    shop = BudgetRig()

    assert marks(shop.play(propose(0, cost_usd=60, dry_run=True))) == []


def test_a_blocked_proposal_pauses_no_agent_for_its_budget() -> None:
    shop = BudgetRig()

    journal = shop.play(stop(0), propose(1, cost_usd=11))

    assert marks(journal) == [("exceeded", "session", "")]
    assert pauses(journal) == []


def test_an_unpause_that_approves_nothing_raises_no_limit() -> None:
    shop = BudgetRig()
    shop.buys(0, 11)

    shop.play(msgspec.structs.replace(unpause(1), approved=False))

    assert not shop.buys(2, 11).allowed


@pytest.mark.parametrize(
    "wrong", [{"day_usd": -5}, {"warn_ratio": 0}, {"warn_ratio": 1.1}, {"hour_usd": 1}]
)
def test_limits_that_make_no_sense_are_refused(wrong) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, BudgetConfig)
