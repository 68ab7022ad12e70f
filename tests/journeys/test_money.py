"""Spending, pending costs and purchases, over the bus."""

import pytest

from tests.conftest import StartDaemon
from tests.journeys.asking_agent import Asker, Reply, review
from tests.journeys.people import query

pytestmark = pytest.mark.journey

BUY = {"type": "purchase", "text": "a desk", "session": "s"}
THINK = {"type": "model_call", "text": "think", "session": "s"}


def amounts(money: Reply, what: str) -> list[float]:
    """Return an amount for the day, the agent and the session."""
    rows = [money["today"], *money["agents"], *money["sessions"]]
    return [round(row[what], 2) for row in rows]


def test_a_pending_purchase_does_not_count_as_spent(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    with Asker(daemon) as asker:
        asked = asker.propose("b1", **BUY, cost_usd=8)
        again = asker.propose("b2", **BUY, cost_usd=8)
        assert (asked["status"], again["request_id"]) == ("pending", asked["request_id"])

        assert asker.propose("m1", **THINK, cost_usd=3)["decision"] == "allow"

        money = query(daemon, "money")
        assert amounts(money, "pending") == [8, 8, 8]
        assert amounts(money, "reserved") == [3, 3, 3]
        assert "$8.00 pending" in daemon.safetyd("status").stdout
        assert query(daemon, "status")["paused"] == []

        review(daemon, "deny", asked["request_id"])
        assert amounts(query(daemon, "money"), "pending") == [0, 0, 0]
        assert asker.propose("m2", **THINK, cost_usd=3)["decision"] == "allow"


def test_status_names_the_request_that_ends_a_pause_while_it_is_pending(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon()
    with Asker(daemon) as asker:
        asked = asker.propose("m1", **THINK, cost_usd=11)
    approve = f"`safetyd approve {asked['request_id']}"
    assert approve in daemon.safetyd("status").stdout

    review(daemon, "deny", asked["request_id"])

    said = daemon.safetyd("status").stdout
    assert "PAUSED: code" in said
    assert approve not in said
    assert "`safetyd unpause code`" in said


def test_what_is_bought_is_shown_apart_from_model_spending_everywhere(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon("[budget]\nsession_usd = 10\npurchases_day_usd = 600\n")
    with Asker(daemon) as asker:
        asked = [asker.propose(f"b{n}", **BUY, cost_usd=549) for n in range(3)]
        assert len({one["request_id"] for one in asked}) == 1, "three proposals are one request"
        assert query(daemon, "money")["today"]["pending"] == 549
        review(daemon, "approve", asked[0]["request_id"])
        assert asker.propose("b9", **BUY, cost_usd=549)["decision"] == "allow"
        assert asker.propose("m1", **THINK, cost_usd=3)["decision"] == "allow"
        daemon.safetyd("outcome", "code", "b9", "--cost-usd", "549")

    money = query(daemon, "money")
    assert (amounts(money, "spent"), amounts(money, "pending")) == ([0, 0, 0], [0, 0, 0])
    assert amounts(money, "reserved") == [3, 3, 3]
    bought = money["purchases"]
    assert (bought["spent"] + bought["reserved"], bought["limit"]) == (549, 600)
    assert query(daemon, "status")["paused"] == []
    assert "$549.00 of $600.00, not counted as spending" in daemon.safetyd("money").stdout
    report = query(daemon, "report", date="today")["report"]
    assert (report["limits"]["cost_usd"], report["limits"]["bought_usd"]) == (0, bought["spent"])
