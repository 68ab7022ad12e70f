"""One report uses up nobody else's day, however large it is, and an operator can strike it."""

import pytest

from safetyd.core.catalogue.catalogue import alert_of
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import CostStruck, LargeReport, Paused
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.messages.money import NANO
from safetyd.core.sender_limits import SenderLimits
from tests.core.guards.budget.budget_rig import BudgetRig, cost, pauses
from tests.story import at

ABSURD = 9e8


def shop(**config: float) -> BudgetRig:
    """Return a shop in which ten dollars a day may be spent, five of them without reservation."""
    limits = {"chain_usd": 0, "session_usd": 0, "day_usd": 10, **config}
    return BudgetRig(BudgetConfig(**limits), shared=True)


def large(journal: list[Event]) -> list[LargeReport]:
    return [event for event in journal if isinstance(event, LargeReport)]


def struck(t: float, id_: str, agent: str = "code") -> CostStruck:
    return CostStruck(
        at=at(t), t=t, id=id_, agent=agent, usd=ABSURD, by="alice", reason="it is made up"
    )


@pytest.mark.parametrize("keyless", [False, True], ids=["key", "anonymous"])
def test_an_absurd_report_of_the_only_agent_leaves_half_of_the_day_to_others(
    *, keyless: bool
) -> None:
    rig = shop()

    journal = rig.play(cost(1, None, ABSURD, "liar", keyless=keyless))

    assert rig.spent("day") == 5
    assert rig.spent("agent", "liar") == ABSURD
    refused = rig.buys(2, 0.1, agent="liar", keyless=keyless)
    assert refused.limit_id == "budget.share:liar"
    assert rig.buys(3, 5, agent="honest", keyless=keyless).allowed
    [report] = large(journal)
    assert (report.agent, report.usd, report.counted_usd, report.why) == (
        "liar",
        ABSURD,
        5,
        "share",
    )
    [pause] = pauses(journal)
    assert (pause.agent, pause.source) == ("liar", "report")
    assert f"budgets strike {report.id}" in pause.reason


@pytest.mark.parametrize("keyless", [False, True], ids=["keys", "anonymous"])
def test_several_agents_report_no_more_than_one(*, keyless: bool) -> None:
    rig = shop()

    rig.play(*(cost(n, None, ABSURD, f"k{n}", keyless=keyless) for n in range(9)))

    assert rig.spent("day") == 5
    assert rig.buys(10, 5, agent="honest", keyless=keyless).allowed


def test_a_single_agent_may_spend_the_whole_day_with_reserved_and_priced_calls() -> None:
    rig = shop()
    rig.buys(1, 4, id="p1")
    journal = rig.play(cost(2, "p1", 4))
    journal += rig.play(*(cost(3 + n, None, 1.5, priced_nano=NANO) for n in range(4)))

    assert rig.spent("day") == 10
    assert rig.buys(9, 0.1).limit_id == "budget.day"
    assert not large(journal)
    assert not pauses(journal)


def test_tokens_do_not_explain_more_than_ten_times_their_price() -> None:
    rig = shop()

    usual = rig.play(cost(1, None, 1.2, priced_nano=NANO // 8))
    beyond = rig.play(cost(2, None, 2, priced_nano=NANO // 8))

    assert not large(usual)
    assert [(each.why, each.usd, each.tokens_usd) for each in large(beyond)] == [
        ("price", 2, 0.125)
    ]
    assert [pause.agent for pause in pauses(beyond)] == ["code"]
    assert rig.spent("day") == 3.2, "it is within the share"


def test_a_small_report_pauses_nobody_whatever_its_tokens_cost() -> None:
    rig = shop()

    journal = rig.play(cost(1, None, 0.02, priced_nano=1000))

    assert not large(journal)
    assert rig.spent("day") == 0.02


def test_invented_tokens_explain_no_more_than_the_share() -> None:
    rig = shop()

    journal = rig.play(cost(1, None, ABSURD, priced_nano=int(ABSURD) * NANO))

    assert rig.spent("day") == 5
    assert [each.why for each in large(journal)] == ["share"]


def test_further_large_reports_of_a_day_are_one_entry() -> None:
    rig = shop()

    journal = rig.play(*(cost(n, None, ABSURD, session=f"s{n}") for n in range(3)))

    assert len(large(journal)) == len(pauses(journal)) == 1
    [entry] = rig.budget.large_reports()
    assert (entry.count, entry.nano) == (3, 3 * int(ABSURD) * NANO)


def test_a_struck_report_counts_in_no_account() -> None:
    rig = shop(session_usd=10, chain_usd=7, model_usd=6)
    rig.buys(1, 1, id="p1", model="o4", session="s")
    journal = rig.play(cost(2, None, 0.5), cost(3, "p1", ABSURD, model="o4"))
    [report] = large(journal)

    rig.play(struck(4, report.id))

    assert rig.spent("day") == rig.spent("agent", "code") == rig.spent("session") == 1.5
    assert rig.spent("model", "o4") == 1
    assert sum(each.spent for each in rig.budget.spending()) == 1.5 * NANO
    assert not list(rig.budget.large_reports())
    assert rig.buys(5, 1, session="s").allowed


def test_a_struck_report_is_struck_once_and_of_its_own_day() -> None:
    rig = shop()
    [report] = large(rig.play(cost(1, None, ABSURD)))
    rig.play(cost(86_400, None, 3))

    rig.play(struck(86_401, report.id), struck(86_402, report.id))

    assert rig.spent("day", t=86_403) == rig.spent("agent", "code", t=86_403) == 3
    assert rig.spent("session") == 3


def test_a_report_of_a_name_that_nobody_knows_pauses_at_most_64_names() -> None:
    rig = shop()

    journal = rig.play(*(cost(n, None, ABSURD, f"k{n}", keyless=True) for n in range(70)))

    assert len([event for event in journal if isinstance(event, Paused)]) == 64


def test_the_alert_says_why_a_report_is_large() -> None:
    (beyond,) = large(shop().play(cost(1, None, 2, priced_nano=NANO // 8)))
    (absurd,) = large(shop().play(cost(1, None, ABSURD)))

    said = [alert_of(event) for event in (beyond, absurd)]
    texts = [alert.text for alert in said if alert is not None]
    assert "more than its tokens explain, which cost $0.12" in texts[0].replace("0.125", "0.12")
    assert "left of its share" in texts[1]


def test_reports_of_anonymous_agents_of_earlier_days_make_room() -> None:
    rig = shop()
    names = [f"k{number}" for number in range(SenderLimits().doubted_names)]
    rig.play(*(cost(1, None, ABSURD, name, keyless=True) for name in names))
    tomorrow = 24 * 3600.0

    crowded = rig.play(cost(2, None, ABSURD, "more", keyless=True))
    later = rig.play(cost(tomorrow, None, ABSURD, "more", keyless=True))

    assert (large(crowded), len(large(later))) == ([], 1)
