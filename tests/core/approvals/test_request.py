from datetime import timedelta

import pytest

from safetyd.core.action_types import Kinds
from safetyd.core.approvals.request import urgency_of
from safetyd.core.approvals.resolution import _using
from safetyd.core.events.request_events import Answered, Cancelled, Expired
from safetyd.core.messages.proposal import Proposal, Target, Urgency
from tests.core.approvals.queue_story import QueueStory
from tests.story import at

KINDS = Kinds({}, "strict")


def urgency(minutes: float | None = None, **fields: object) -> Urgency:
    proposal = Proposal(**{"type": "push", "id": "p1", **fields})  # type: ignore[arg-type]
    deadline = None if minutes is None else at(0) + timedelta(minutes=minutes)
    return urgency_of(proposal, KINDS.of(proposal), deadline, at(0), 20.0)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "normal"),
        ({"urgency": "high"}, "high"),
        ({"urgency": "low", "type": "read_file"}, "low"),
        ({"urgency": "low", "type": "drop_database"}, "normal"),
        ({"cost_usd": 19.99}, "normal"),
        ({"cost_usd": 20.0}, "high"),
        ({"wait": True, "minutes": 15}, "high"),
        ({"wait": True, "minutes": 16}, "normal"),
        ({"wait": False, "minutes": 15}, "normal"),
        ({"type": "deploy", "text": "to production"}, "high"),
        ({"type": "deploy", "text": "to the reproduction"}, "normal"),
        ({"type": "deploy", "target": Target(name="prod")}, "high"),
        ({"type": "push", "text": "to production"}, "normal"),
    ],
)
def test_urgency_rises_by_one_step_for_what_cannot_wait_or_costs_much(
    fields: dict[str, float], expected: Urgency
) -> None:
    assert urgency(**fields) == expected


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


def test_what_nobody_has_answered_is_no_approval() -> None:
    queue = QueueStory()
    request = queue.request(queue.asks(0).request_id)

    with pytest.raises(AssertionError, match="only what was answered"):
        _using(request)
