from datetime import timedelta

import pytest

from safetyd.core.guards.budget.accounts import (
    FORGET_CHAIN_S,
    MAX_LINES,
    MAX_MODELS,
    MAX_NAMES,
    Account,
    found,
    found_chain,
    opened,
    opened_chain,
)
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.guards.budget.ledger import MAX_AGENTS
from safetyd.core.guards.budget.limits import Spend
from safetyd.core.messages.money import NANO, dollars, usd
from safetyd.core.messages.telemetry import SessionEnded
from safetyd.core.policy import Policy
from safetyd.core.sessions import SessionsConfig
from tests.core.guards.budget.budget_rig import MIDNIGHT, NO_LIMITS, BudgetRig, cost, marks, unpause
from tests.story import NOON, at, propose, report, tick


def test_outcome_turns_the_reservation_into_what_it_really_cost() -> None:
    shop = BudgetRig()
    shop.buys(0, 2, id="p1")
    shop.play(cost(1, "p1", 0.5))

    assert (shop.spent("session"), shop.reserved("session")) == (0.5, 0)
    assert (shop.spent("day"), shop.reserved("day")) == (0.5, 0)


def test_failed_action_costs_what_it_cost() -> None:
    shop = BudgetRig()
    shop.buys(0, 2, id="p1")
    shop.play(cost(1, "p1", 0.5, ok=False))

    assert shop.spent("day") == 0.5


def test_real_cost_is_the_larger_of_what_is_said_and_what_the_tokens_cost() -> None:
    shop = BudgetRig()
    shop.buys(0, 2, id="p1")
    shop.play(cost(1, "p1", 0.5, priced_nano=3 * NANO))

    assert shop.spent("day") == 3


def test_outcome_that_tells_no_cost_costs_what_was_set_aside() -> None:
    shop = BudgetRig()
    shop.buys(0, 2, id="p1")
    shop.play(cost(1, "p1"))

    assert (shop.spent("day"), shop.reserved("day")) == (2, 0)


def test_second_outcome_changes_nothing() -> None:
    shop = BudgetRig()
    shop.buys(0, 2, id="p1")
    shop.play(cost(1, "p1", 1), cost(2, "p1", 1))

    assert shop.spent("day") == 1


def test_outcome_without_a_proposal_adds_to_what_was_spent() -> None:
    shop = BudgetRig()
    shop.play(cost(0, None, 2, session="s", model="o4"), cost(1, None, session="s"))

    assert (shop.spent("session", "s"), shop.spent("model", "o4"), shop.spent("day")) == (2, 2, 2)


def test_action_without_an_outcome_was_used_to_the_full() -> None:
    shop = BudgetRig(policy=Policy(sessions=SessionsConfig(outcome_timeout_s=60, idle_s=999)))
    shop.buys(0, 2, chain="c")
    shop.play(tick(60))

    assert (shop.spent("chain", "c"), shop.reserved("chain", "c")) == (2, 0)
    assert (shop.spent("day"), shop.reserved("day")) == (2, 0)


@pytest.mark.parametrize(
    "refused",
    [
        propose(0, cost_usd=1, type="run_shell", text="rm -rf /"),
        propose(0, cost_usd=1, confidence=0.1),
        propose(0, cost_usd=1, dry_run=True),
    ],
    ids=["blocked", "asked", "dry run"],
)
def test_what_is_not_allowed_sets_nothing_aside(refused) -> None:
    shop = BudgetRig()
    shop.play(refused)

    assert shop.reserved("day") == 0


def test_repeated_id_sets_nothing_more_aside() -> None:
    shop = BudgetRig()
    shop.play(propose(0, cost_usd=1), propose(1, cost_usd=1))

    assert shop.reserved("day") == 1


def test_an_id_that_is_decided_again_spends_its_earlier_reservation() -> None:
    shop = BudgetRig()
    shop.play(propose(0, cost_usd=1), propose(61, cost_usd=2))

    assert (shop.spent("day"), shop.reserved("day")) == (1, 2)


def test_new_utc_day_begins_with_its_whole_budget() -> None:
    shop = BudgetRig(BudgetConfig(session_usd=0, agent_usd=50, model_usd=50))
    shop.buys(MIDNIGHT - 1, 50, model="o4")

    assert not shop.buys(MIDNIGHT - 0.5, model="o4").allowed
    assert shop.buys(MIDNIGHT, 50, model="o4").allowed
    assert not shop.buys(MIDNIGHT + 1, model="o4").allowed


def test_day_is_not_left_backwards() -> None:
    shop = BudgetRig(BudgetConfig(session_usd=0))
    shop.buys(MIDNIGHT, 50)

    decision = shop.buys(MIDNIGHT - 60, 1)

    assert decision.limit_id == "budget.day"
    assert [s.id for s in shop.budget.standings(at(0)) if s.scope == "day"] == ["2026-03-02"]


def test_cost_counts_on_the_day_on_which_it_was_allowed() -> None:
    shop = BudgetRig()
    shop.buys(MIDNIGHT - 1, 1, id="p1", model="o4")
    shop.play(cost(MIDNIGHT + 1, "p1", 2))

    assert shop.spent("day", t=MIDNIGHT) == 0
    assert shop.spent("session") == 2


def test_budgets_of_an_unused_day_are_empty() -> None:
    shop = BudgetRig()
    shop.buys(0, 1)

    days = [s for s in shop.budget.standings(at(MIDNIGHT)) if s.scope == "day"]

    assert [(s.id, s.spent, s.reserved, s.limit) for s in days] == [("2026-03-02", 0, 0, 50 * NANO)]


def test_a_new_session_starts_at_zero_but_the_day_continues() -> None:
    shop = BudgetRig()
    shop.buys(0, 10, session="s")
    shop.play(report(1, SessionEnded(session="s")))

    assert shop.buys(2, 10, session="s").allowed
    assert shop.reserved("day") == 20


def test_late_outcome_of_an_ended_session_counts_everywhere_else() -> None:
    shop = BudgetRig()
    shop.buys(0, 1, id="p1", session="s", chain="c")
    shop.buys(0, 1, id="p2", session="other")
    shop.play(report(1, SessionEnded(session="s")))
    shop.buys(2, session="s")
    shop.play(cost(3, "p1", 2))

    assert shop.spent("session", "s") == 0
    assert (shop.spent("chain", "c"), shop.spent("day")) == (2, 2)
    assert shop.reserved("session", "other") == 1


def test_chain_is_forgotten_a_day_after_its_last_message() -> None:
    shop = BudgetRig(BudgetConfig(session_usd=0, day_usd=0))
    shop.buys(0, 5, id="p1", chain="c")
    shop.play(cost(1, "p1"))

    assert not shop.buys(FORGET_CHAIN_S, chain="c").allowed
    assert not shop.buys(2 * FORGET_CHAIN_S - 1, chain="c").allowed
    assert shop.buys(3 * FORGET_CHAIN_S, 5, chain="c").allowed


def test_refusal_by_another_guard_keeps_a_chain_alive() -> None:
    shop = BudgetRig(BudgetConfig(session_usd=0, day_usd=0))
    shop.buys(0, 5, id="p1", chain="c")
    shop.play(cost(1, "p1", 4))

    shop.buys(FORGET_CHAIN_S, type="run_shell", text="rm -rf /", chain="c")

    assert not shop.buys(FORGET_CHAIN_S + 1, 5, chain="c").allowed


def test_forgotten_chains_make_room_and_those_that_hold_money_stay() -> None:
    patient = Policy(sessions=SessionsConfig(idle_s=1e9, outcome_timeout_s=1e9))
    shop = BudgetRig(NO_LIMITS, policy=patient)
    shop.buys(0, 1, id="p1", chain="old")
    shop.play(cost(1, "p1"))
    shop.buys(2, 1, chain="held")
    shop.buys(3, id="p3", chain="free")

    shop.buys(FORGET_CHAIN_S + 5, 1, chain="new")
    shop.play(cost(FORGET_CHAIN_S + 6, "p3", 3))

    chains = [s for s in shop.budget.standings(NOON) if s.scope == "chain"]
    held = {s.id: (s.spent // NANO, s.reserved // NANO) for s in chains}
    assert held == {"held": (0, 1), "new": (0, 1), "free": (3, 0)}


@pytest.mark.req("S1.17")
def test_spending_is_kept_by_agent_session_and_model() -> None:
    shop = BudgetRig(NO_LIMITS)
    shop.play(
        propose(0, id="p1", cost_usd=1, session="s", model="o4"),
        cost(1, "p1"),
        propose(2, id="p2", cost_usd=1, session="s", model="o4"),
        cost(3, "p2", 2),
        propose(4, id="p3", cost_usd=1, session="s"),
        cost(5, "p3", 1, model="gpt-5.2"),
        propose(6, id="p4", agent="ops"),
        cost(7, "p4", 4, "ops"),
        cost(8, None, 0, "ops", session="free"),
    )

    assert list(shop.budget.spending()) == [
        Spend("code", "s", "o4", 3 * NANO),
        Spend("code", "s", "gpt-5.2", NANO),
        Spend("ops", "", "", 4 * NANO),
    ]
    assert shop.spent("model", "gpt-5.2") == 1


def test_only_the_latest_lines_of_spending_are_kept() -> None:
    shop = BudgetRig(NO_LIMITS)
    shop.play(*(cost(0, None, 0, "ops", model=f"m{n}") for n in range(10)))
    shop.play(*(cost(n, None, 1, model=f"m{n}") for n in range(MAX_LINES + 2)))

    models = [line.model for line in shop.budget.spending()]

    assert models == [f"m{n}" for n in range(2, MAX_LINES + 2)]
    assert shop.spent("day") == MAX_LINES + 2


def test_chains_beyond_the_bound_share_one_budget() -> None:
    chains: dict[str, Account] = {}
    for n in range(MAX_NAMES):
        opened_chain(chains, f"c{n}", n)
    chains[opened_chain(chains, "one more", 100)].spend(3)

    assert found_chain(chains, "yet one more", 101).spent == 3
    assert found_chain(chains, "c0", 102).spent == 0
    assert len(chains) == MAX_NAMES + 1


def test_models_beyond_the_bound_share_one_budget() -> None:
    models: dict[str, Account] = {}
    for n in range(MAX_MODELS + 1):
        models[opened(models, f"m{n}", MAX_MODELS)].spend(1)

    assert found(models, "unheard of", MAX_MODELS).spent == 1
    assert len(models) == MAX_MODELS + 1


def test_costs_of_names_beyond_the_bound_count_in_the_day() -> None:
    shop = BudgetRig(NO_LIMITS)
    for n in range(MAX_AGENTS + 1):
        shop.play(cost(0, None, 1, f"a{n}", keyless=True))

    assert shop.spent("day") == MAX_AGENTS + 1
    assert shop.spent("agent") == MAX_AGENTS


def test_name_that_may_not_be_known_gets_no_account() -> None:
    shop = BudgetRig(policy=Policy(max_agents=0))

    journal = shop.play(propose(0, cost_usd=60, keyless=True))

    assert marks(journal) == []
    assert [s.scope for s in shop.budget.standings(NOON)] == ["day"]


def test_absurd_costs_are_kept_within_what_can_be_saved() -> None:
    shop = BudgetRig(NO_LIMITS)
    shop.play(*(cost(n, None, 1e308, session="s") for n in range(9)))
    for n in range(9):
        shop.buys(n, 1e308, id=f"p{n}")
    shop.play(*(cost(n, f"p{n}", 0) for n in range(9)))

    saved = shop.budget.save()()

    assert shop.spent("session", "s") == 2**62 / NANO
    assert shop.reserved("day") == 0
    assert saved


def test_standing_shows_what_people_added() -> None:
    shop = BudgetRig()
    shop.buys(0, 11)
    shop.play(unpause(1))

    [session] = [s for s in shop.budget.standings(NOON) if s.scope == "session"]

    assert session.limit == 20 * NANO


def test_a_scope_without_a_limit_shows_none() -> None:
    shop = BudgetRig(NO_LIMITS)
    shop.buys(0, 1)

    assert {standing.limit for standing in shop.budget.standings(NOON)} == {0}


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (0, "$0.00"),
        (10 * NANO, "$10.00"),
        (123_456_789, "$0.12"),
        (400_000, "$0.0004"),
        (1, "$0.000000001"),
    ],
)
def test_amounts_are_written_in_cents_unless_that_would_hide_them(amount, said) -> None:
    assert dollars(amount) == said


def test_window_of_a_day_does_not_depend_on_the_steady_clock() -> None:
    shop = BudgetRig(BudgetConfig(session_usd=0))
    shop.buys(0, 50)
    tomorrow = propose(1)
    tomorrow.at += timedelta(days=1)

    assert shop.engine.decide(tomorrow)[0].allowed


def test_the_chain_and_the_session_with_the_least_left_are_shown() -> None:
    shop = BudgetRig()
    shop.buys(0, 1.0, chain="c1", session="s1")
    shop.buys(0, 2.0, chain="c2", session="s2")

    shown = {s.scope: (s.id, usd(s.account.used)) for s in shop.budget.fullest("code", 1)}

    assert shown == {"chain": ("c2", 2.0), "session": ("s2", 2.0)}
    assert list(shop.budget.fullest("ops", 1)) == []


def test_a_chain_unheard_for_a_day_is_not_shown_as_the_fullest() -> None:
    shop = BudgetRig()
    shop.play(propose(0, chain="c1", cost_usd=1.0), cost(1, "p1", 1.0))

    assert [s.scope for s in shop.budget.fullest("code", FORGET_CHAIN_S)] == ["chain", "session"]
    assert [s.scope for s in shop.budget.fullest("code", FORGET_CHAIN_S + 1)] == ["session"]


def test_an_agents_part_of_the_day_is_shown() -> None:
    shop = BudgetRig()
    shop.buys(0, 1.0)

    assert usd(shop.budget.day_of("code", NOON).reserved) == 1.0
    assert shop.budget.day_of("ops", NOON).reserved == 0
