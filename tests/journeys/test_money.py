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
