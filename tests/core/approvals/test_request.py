from typing import Any

import pytest

from safetyd.core.action_types import Kinds
from safetyd.core.approvals.request import urgency_of
from safetyd.core.approvals.resolution import _using
from safetyd.core.events.request_events import Answered, Cancelled, Expired
from safetyd.core.messages.proposal import Proposal, Target, Urgency
from tests.core.approvals.queue_story import QueueStory
from tests.story import at

KINDS = Kinds({}, "strict")


@pytest.mark.req("S3.59", "S3.62")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "normal"),
        ({"urgency": "high"}, "high"),
        ({"urgency": "low", "type": "read_file"}, "low"),
        ({"urgency": "low", "type": "drop_database", "cost_usd": 30.0}, "normal"),
        ({"cost_usd": 19.99}, "normal"),
        ({"cost_usd": 20.0}, "high"),
        ({"cost_usd": 30.0, "urgent_cost_usd": 0.0}, "normal"),
        ({"wait": True, "minutes": 15}, "high"),
        ({"wait": True, "minutes": 16}, "normal"),
        ({"wait": False, "minutes": 15}, "normal"),
        ({"type": "deploy", "text": "kubectl apply to PROD"}, "high"),
        ({"type": "deploy", "text": "to the reproduction of an olive product"}, "normal"),
        ({"type": "deploy", "target": Target(name="prod")}, "high"),
        ({"type": "deploy", "paths": ("live/db.sql",)}, "high"),
        ({"type": "db_write", "text": "on the production database"}, "high"),
        ({"type": "push", "text": "to production"}, "normal"),
    ],
)
def test_urgency_rises_by_one_step_for_what_cannot_wait_or_costs_much(
    fields: dict[str, Any], expected: Urgency
) -> None:
    fields = {"type": "push", "id": "p1", **fields}
    minutes, most_usd = fields.pop("minutes", None), fields.pop("urgent_cost_usd", 20.0)
    deadline = None if minutes is None else at(minutes * 60)
    proposal = Proposal(**fields)

    assert urgency_of(proposal, KINDS.of(proposal), deadline, at(0), most_usd) == expected


def test_only_the_event_that_came_first_counts_as_the_answer() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    request = queue.request(asked.request_id)
    deny = Answered(
        at=at(1),
        t=1.0,
        request_id=request.id,
        agent="code",
        id="p1",
        answer="denied",
        by="alice",
        via="cli",
    )
    assert not request.answered_by(deny)
    queue.happens(deny)

    ended = queue.request(request.id)

    assert ended.answered_by(deny)
    assert not ended.answered_by(Expired(at=at(1), t=1.0, request_ids=(request.id,)))
    cancel = Cancelled(at=at(2), t=2.0, request_id=request.id, by="alice", via="cli")
    assert not ended.answered_by(cancel)


def test_an_unanswered_request_is_no_approval() -> None:
    queue = QueueStory()
    request = queue.request(queue.asks(0).request_id)

    with pytest.raises(AssertionError, match="answer"):
        _using(request)
