"""Shares of the day: invented or unreserved costs cannot use up the common budget."""

import pytest

from safetyd.core.events.decision_events import Reported
from safetyd.core.events.guard_events import BudgetRaised
from safetyd.core.guards.budget.balances import ACTIVE_S
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.guards.budget.ledger import MAX_AGENTS, Ledger
from safetyd.core.messages.money import NANO
from tests.core.guards.budget.budget_rig import MIDNIGHT, BudgetRig, cost, marks
from tests.story import at, propose, tick


def shop(*keyed: str, **config: float) -> BudgetRig:
    """Return a shop in which ten dollars a day may be spent, and these agents are known."""
    limits = {"chain_usd": 0, "session_usd": 0, "day_usd": 10, **config}
    made = BudgetRig(BudgetConfig(**limits), shared=True)
    made.play(*(propose(0, agent, f"hello-{agent}") for agent in keyed))
    return made


def explained(usd: float, agent: str = "code", **fields: object) -> list[Reported]:
    """Report costs that the price of the tokens explains."""
    return [cost(1, None, 1, agent, priced_nano=NANO, **fields) for _ in range(int(usd))]  # type: ignore[arg-type]


def lift(scope: str, usd: float, id_: str = "", t: float = 1) -> BudgetRaised:
    return BudgetRaised(
        at=at(t),
        t=t,
        scope=scope,  # type: ignore[arg-type]
        usd=usd,
        by="alice",
        reason="drill",
        id=id_,
    )


def test_costs_that_names_without_a_key_report_use_up_their_share_and_no_more() -> None:
    open_shop = shop("code")

    for n in range(3):
        open_shop.play(cost(1, None, 1e9, f"k{n}", keyless=True))

    assert open_shop.spent("day") == 2.5
    assert open_shop.buys(2, 2.5, agent="k9", keyless=True).allowed, "half of it is for others"
    refused = open_shop.buys(2, 0.01, agent="k9", keyless=True)
    assert open_shop.buys(2, 5).allowed
    assert refused.limit_id == "budget.keyless"
    assert open_shop.spent("agent", "k2") == 1e9, "what was said is kept where it was said"


def test_what_people_add_for_some_is_taken_from_no_other_whatever_is_made_up() -> None:
    open_shop = shop("code")
    open_shop.play(cost(1, None, 1e9, "k0", keyless=True))

    open_shop.play(lift("keyless", 2))
    assert open_shop.buys(2, 1, agent="k1", keyless=True).allowed
    open_shop.play(cost(3, None, 1e9, "k0", keyless=True), lift("keyless", 1e9, t=3))
    open_shop.play(cost(4, None, 1e9, "k0", keyless=True))

    assert open_shop.buys(5, 5).allowed, "its half of the day is there"


def test_what_names_without_a_key_set_aside_is_held_to_their_share() -> None:
    open_shop = shop("code")

    answers = [open_shop.buys(1, 2, agent=f"k{n}", keyless=True) for n in range(3)]

    assert [answer.allowed for answer in answers] == [True, True, False]
    assert (open_shop.reserved("keyless"), open_shop.reserved("day")) == (4, 4)
    open_shop.play(cost(2, "b1", 0.5, "k0", keyless=True))
    assert (open_shop.reserved("keyless"), open_shop.spent("keyless")) == (2, 0.5)
    assert (open_shop.reserved("day"), open_shop.spent("day")) == (2, 0.5)
    open_shop.play(tick(4000))
    assert (open_shop.spent("keyless"), open_shop.spent("day")) == (2.5, 2.5)


def test_without_any_keys_anonymous_agents_have_the_whole_day() -> None:
    open_shop = shop()

    assert open_shop.buys(1, 6, agent="k0", keyless=True).allowed
    assert open_shop.buys(1, 4, agent="k1", keyless=True).allowed
    assert open_shop.buys(1, 1, agent="k1", keyless=True).limit_id == "budget.day"


def test_an_agent_that_reports_more_than_its_share_is_blocked_and_the_others_are_not() -> None:
    open_shop = shop("code", "ops")

    open_shop.play(cost(1, None, 4, "ops"), cost(2, None, 1e9, "ops"))

    refused = open_shop.buys(3, 1, agent="ops")
    assert refused.limit_id == "budget.share:ops"
    assert open_shop.spent("day") == 5
    assert open_shop.buys(3, 5).allowed
    assert open_shop.buys(4, agent="ops").allowed
    assert open_shop.buys(MIDNIGHT, 1, agent="ops").allowed


def test_what_was_set_aside_is_no_agents_share() -> None:
    open_shop = shop("ops")
    open_shop.buys(1, 8, id="p1", agent="ops")
    open_shop.play(cost(2, "p1", 9, "ops"))

    assert (open_shop.spent("day"), open_shop.spent("share", "ops")) == (9, 1)
    assert open_shop.buys(3, 1, agent="ops").allowed


@pytest.mark.parametrize("keyless", [False, True], ids=["keys", "anonymous"])
def test_several_agents_that_reserve_all_they_can_leave_the_others_their_parts(
    *, keyless: bool
) -> None:
    rig = shop()
    agents = ("code", "ops", "quiet", "late")
    rig.play(*(propose(0, agent, f"hello-{agent}", keyless=keyless) for agent in agents))

    for n in range(40):
        rig.buys(n, 0.5, agent=agents[n % 2], keyless=keyless)

    refused = rig.buys(50, 0.5, agent="code", keyless=keyless)
    assert (refused.limit_id, refused.cause) == ("budget.kept:code", "budget")
    assert "kept for other agents" in refused.reason
    assert rig.reserved("agent", "code") + rig.reserved("agent", "ops") > 6
    for agent in ("quiet", "late"):
        assert rig.buys(51, 1.6, agent=agent, keyless=keyless).allowed


def test_priced_reports_leave_other_agents_their_part_too() -> None:
    rig = shop("code", "ops")

    rig.play(*(cost(n, None, 4, priced_nano=4 * NANO) for n in range(9)))

    assert rig.spent("day") == 5
    assert rig.spent("agent", "code") == 36
    assert not rig.buys(10, model="o4").allowed
    assert rig.buys(11, 5, agent="ops").allowed


def test_nothing_is_kept_for_agents_without_an_allowed_action_today() -> None:
    rig = shop("code", "ops")
    rig.play(propose(90_000, "stranger", "p", text="rm -rf /"))

    assert rig.buys(90_001, 10).allowed


def test_operators_hear_once_a_day_that_an_agent_used_what_is_not_kept_for_others() -> None:
    rig = shop("code", "ops")

    journal = rig.play(*(propose(n, "code", f"p{n}", cost_usd=2) for n in range(6)))

    assert [mark for mark in marks(journal) if mark[1] == "kept"] == [("exceeded", "kept", "code")]
    (standing,) = rig.budget.raisable("day", "", at(7))
    assert standing.limit == 10 * NANO


def test_the_only_agent_with_a_key_may_reserve_the_whole_day() -> None:
    open_shop = shop("code")
    open_shop.play(propose(0, "k0", "hello", keyless=True), cost(1, None, 4))

    assert open_shop.buys(2, 6).allowed


def test_a_models_day_is_shared_in_the_same_way() -> None:
    open_shop = shop("code", "ops", model_usd=4)
    open_shop.buys(1, model="o4", agent="k0", keyless=True)

    open_shop.play(
        cost(1, None, 3, "k0", model="o4", keyless=True), cost(1, None, 3, "ops", model="o4")
    )

    assert open_shop.spent("model", "o4") == 2
    refused = open_shop.buys(2, 0.5, model="o4", agent="k0", keyless=True)
    assert "budget.share" in refused.triggered_rules
    assert "budget.share" in open_shop.buys(2, 0.5, model="o4", agent="ops").triggered_rules
    assert open_shop.buys(2, 0.5, model="o3", agent="k0", keyless=True).allowed


def test_names_beyond_the_bound_count_against_the_share_as_well() -> None:
    open_shop = shop("code")
    for n in range(MAX_AGENTS):
        open_shop.play(cost(1, None, 0, f"k{n}", keyless=True))

    open_shop.play(cost(2, None, 9, "one-more", keyless=True))

    assert (open_shop.spent("keyless"), open_shop.spent("day")) == (2.5, 2.5)
    assert open_shop.buys(3, 5).allowed


def test_a_share_warns_once_when_nearly_and_once_when_fully_used() -> None:
    open_shop = shop("code")

    near = open_shop.play(propose(1, "k1", cost_usd=4, keyless=True))
    used = open_shop.play(*(propose(n, "k0", f"p{n}", cost_usd=2, keyless=True) for n in (2, 3)))

    assert marks(near) == [("warning", "keyless", "")]
    assert marks(used) == [("exceeded", "keyless", "")]


@pytest.mark.parametrize(
    ("scope", "id_", "limits", "used", "asks"),
    [
        ("day", "", {}, explained(10), {}),
        ("agent", "code", {"agent_usd": 3}, explained(3), {}),
        ("model", "o4", {"model_usd": 2}, explained(2, model="o4"), {"model": "o4"}),
        ("keyless", "", {}, explained(5, "k1", keyless=True), {"agent": "k0", "keyless": True}),
    ],
    ids=["day", "agent", "model", "keyless"],
)
def test_an_operator_raises_a_budget_for_the_day(
    scope: str, id_: str, limits: dict[str, float], used: list[Reported], asks: dict[str, object]
) -> None:
    open_shop = shop("code", **limits)
    open_shop.play(*used)
    assert not open_shop.buys(2, 1, **asks).allowed

    open_shop.play(lift(scope, 1, id_))

    assert open_shop.buys(3, 1, **asks).allowed
    assert not open_shop.buys(4, 1, **asks).allowed
    today, *_ = open_shop.budget.raisable(scope, id_, at(4))
    tomorrow, *_ = open_shop.budget.raisable(scope, id_, at(MIDNIGHT))
    assert (today.limit - today.base, tomorrow.limit - tomorrow.base) == (NANO, 0)


def test_what_has_no_limit_cannot_be_raised() -> None:
    assert shop("code").budget.raisable("agent", "code", at(0)) == ()
    assert shop().budget.raisable("keyless", "", at(0)) == ()


def test_a_raised_budget_warns_again_when_used_up() -> None:
    open_shop = shop("code")
    open_shop.play(*explained(10), propose(2, id="p2", cost_usd=1))

    open_shop.play(lift("day", 1, t=3))

    again = open_shop.play(propose(4, id="p4", cost_usd=2))
    assert marks(again) == [("exceeded", "day", "2026-03-01")]


def test_a_limited_number_of_agents_has_a_part_of_the_day() -> None:
    ledger = Ledger()
    for number in range(MAX_AGENTS):
        ledger.see(f"a{number}", 0.0, keyless=True)

    ledger.see("more", 1.0, keyless=True)
    crowded = set(ledger.state.seen or ())
    ledger.see("later", ACTIVE_S, keyless=True)

    assert "more" not in crowded
    assert set(ledger.state.seen or ()) == {"later"}
