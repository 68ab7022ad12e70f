"""Purchases count separately from model spending, have the same limits, and are never blocked."""

from typing import Any, Final

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Overdue
from safetyd.core.events.guard_events import NameForgotten
from safetyd.core.guards.budget import ledger
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.messages.money import NANO, usd
from safetyd.core.policy import Policy
from tests.core.guards.budget.budget_rig import MIDNIGHT, BudgetRig, cost, priced
from tests.story import ask, at, propose

BUY: Final[dict[str, Any]] = {"type": "purchase"}


def bought(shop: BudgetRig, t: float = 0) -> tuple[float, float]:
    """Return what was bought today and what is reserved for it, in dollars."""
    today = shop.budget.bought_today(at(t))
    return usd(today.spent), usd(today.reserved)


@pytest.mark.parametrize(
    ("limits", "fields", "whose"),
    [
        ({"chain_usd": 10}, {"chain": "c"}, "chain"),
        ({"session_usd": 10}, {}, "session"),
        ({"day_usd": 10}, {"session": None}, "today"),
        ({"agent_usd": 10}, {}, "agent"),
    ],
    ids=["chain", "session", "day", "agent"],
)
def test_a_purchase_above_a_limit_needs_approval_and_pauses_nobody(limits, fields, whose) -> None:
    shop = BudgetRig(BudgetConfig(**{"chain_usd": 0, "session_usd": 0, "day_usd": 0, **limits}))
    assert shop.buys(0, 6.0, **BUY, **fields).allowed

    asked = shop.buys(1, 6.0, **BUY, **fields)

    assert (asked.decision, asked.cause) == ("require_confirmation", "budget")
    assert asked.triggered_rules == ("budget.purchase",)
    assert all(said in asked.reason for said in (whose, "$12.00", "$10.00"))
    assert shop.engine.guards.pause.agents == ()
    assert shop.buys(2, 4.0, **BUY, **fields).allowed


def test_prices_and_tokens_of_one_action_count_apart() -> None:
    shop = BudgetRig()
    ask(shop.engine, priced(propose(0, id="b", cost_usd=4.0, model="o4", **BUY), 250_000_000))
    assert bought(shop) == (0.0, 4.0)
    assert shop.reserved("day") == 0.25

    shop.play(cost(1, "b", 5.0, priced_nano=500_000_000))

    assert bought(shop) == (5.0, 0.0)
    assert (shop.spent("day"), shop.reserved("day")) == (0.5, 0.0)
    assert shop.spent("model", "o4") == 0.5


def test_an_outcome_that_names_no_price_cost_what_was_expected() -> None:
    shop = BudgetRig()
    shop.buys(0, 4.0, id="b", **BUY)

    shop.play(cost(1, "b"))

    assert bought(shop) == (4.0, 0.0)


def test_a_price_that_only_the_outcome_names_is_counted() -> None:
    shop = BudgetRig()
    shop.buys(0, id="b", **BUY)

    shop.play(cost(1, "b", 4.0))

    assert bought(shop) == (4.0, 0.0)


def test_a_purchase_of_which_nothing_was_heard_counts_as_bought() -> None:
    shop = BudgetRig()
    shop.buys(0, 4.0, id="b", **BUY)
    shop.buys(0, 3.0, id="c", agent="ops", **BUY)

    shop.play(Overdue(at=at(1), t=1.0, agent="code", ids=("b",)))
    shop.play(NameForgotten(at=at(2), t=2.0, agent="ops"))

    assert bought(shop) == (7.0, 0.0)


def test_the_limit_of_the_day_is_another_tomorrow() -> None:
    shop = BudgetRig(BudgetConfig(day_usd=10, session_usd=0))
    assert shop.buys(0, 10.0, **BUY).allowed
    assert not shop.buys(1, 1.0, **BUY).allowed

    assert shop.buys(MIDNIGHT, 10.0, **BUY).allowed


def test_what_was_bought_outlives_a_restart() -> None:
    engine = Engine(Policy())
    shop = BudgetRig()
    shop.buys(0, 4.0, **BUY)

    engine.guards.budget.load(shop.budget.save()())

    assert engine.guards.budget.bought_today(at(0)).reserved == 4_000_000_000


def test_a_purchase_in_a_session_whose_model_money_is_used_up_waits_as_everything_does() -> None:
    shop = BudgetRig(BudgetConfig(session_usd=10, day_usd=10))
    shop.buys(0, 10.0, type="model_call")

    asked = shop.buys(1, 1.0, **BUY)

    assert asked.triggered_rules[0] == "budget.session"


def test_a_purchase_needs_no_model_money_of_a_day_that_is_used_up() -> None:
    shop = BudgetRig(BudgetConfig(session_usd=0, day_usd=10))
    shop.buys(0, 10.0, type="model_call")

    assert shop.buys(1, 10.0, **BUY).allowed
    assert shop.buys(2, 1.0, **BUY).triggered_rules == ("budget.purchase",)


def test_a_limit_of_their_own_is_the_only_limit_on_purchases() -> None:
    shop = BudgetRig(BudgetConfig(day_usd=10, session_usd=5, chain_usd=5, purchases_day_usd=80))

    assert shop.buys(0, 79.0, **BUY, chain="c").allowed
    asked = shop.buys(1, 2.0, agent="ops", **BUY)

    assert asked.triggered_rules == ("budget.purchase",)
    assert "Purchases today would total $81.00, more than the limit of $80.00" in asked.reason
    assert shop.budget.bought_today(at(1)).limit == 80_000_000_000
    assert shop.buys(2, 5.0, type="model_call").allowed, "nothing of this is model spending"


def test_a_limit_of_zero_means_that_purchases_have_no_limit() -> None:
    shop = BudgetRig(BudgetConfig(day_usd=10, purchases_day_usd=0))

    assert shop.buys(0, 500.0, **BUY).allowed


def test_a_purchase_of_a_name_without_accounts_counts_for_all_anonymous_agents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger, "MAX_AGENTS", 1)
    shop = BudgetRig()
    shop.buys(0, 1.0, id="b", **BUY)

    shop.play(cost(1, None, 3.0, "made-up", keyless=True, action_type="purchase"))

    assert shop.budget.bought_today(at(1)).spent == 3 * NANO
