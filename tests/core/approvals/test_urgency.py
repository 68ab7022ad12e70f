"""How urgent a request is: as the asker says, raised once for what cannot wait or costs much."""

import pytest

from safetyd.core.approvals.request import ApprovalsConfig
from safetyd.core.policy import Policy
from tests.core.approvals.queue_story import QueueStory
from tests.story import propose


def urgency(policy: Policy | None = None, **fields) -> str:
    queue = QueueStory(policy)
    asked = queue.proposes(propose(0, **{"type": "deploy", **fields}))
    return queue.request(asked.request_id).urgency


@pytest.mark.req("S3.59")
@pytest.mark.parametrize("said", ["normal", "high"])
def test_the_asker_says_how_urgent_it_is(said: str) -> None:
    assert urgency(urgency=said) == said


@pytest.mark.req("S3.62")
@pytest.mark.parametrize(
    "fields",
    [
        {"wait": True, "timeout_s": 900.0},
        {"cost_usd": 20.0},
        {"text": "kubectl apply to PROD"},
        {"paths": ("live/db.sql",)},
        {"type": "db_write", "text": "on the production database"},
    ],
)
def test_what_cannot_wait_costs_much_or_is_live_is_urgent(fields) -> None:
    assert urgency(**fields) == "high"


@pytest.mark.req("S3.62")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"wait": True, "timeout_s": 901.0},
        {"timeout_s": 60.0},
        {"cost_usd": 19.99},
        {"text": "delivery product olive"},
        {"type": "push", "text": "push to prod"},
    ],
)
def test_what_can_wait_is_as_urgent_as_it_was_said_to_be(fields) -> None:
    assert urgency(**fields) == "normal"


@pytest.mark.req("S3.62")
def test_a_low_urgency_rises_by_one_step_only() -> None:
    assert urgency(urgency="low", cost_usd=30.0) == "normal"


def test_no_cost_is_urgent_if_an_operator_says_so() -> None:
    policy = Policy(approvals=ApprovalsConfig(urgent_cost_usd=0))

    assert urgency(policy, cost_usd=30.0) == "normal"
