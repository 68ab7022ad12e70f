"""The index of requests."""

from typing import Final

import pytest

from safetyd.core.approvals import request_index as module
from safetyd.core.approvals.request import MAX_JOINED, ApprovalsConfig
from safetyd.core.engine.engine import Engine
from safetyd.core.events.guard_events import Unpaused
from safetyd.core.events.request_events import (
    Answered,
    Cancelled,
    Claimed,
    Deferred,
    Expired,
    Lapsed,
    Released,
    Superseded,
)
from safetyd.core.policy import Policy
from tests.core.approvals.queue_story import QueueStory
from tests.core.approvals.test_queue import paused
from tests.story import at, tick

DAY_S: Final = 86_400.0


def cancel(queue: QueueStory, t: float, request_id: str | None) -> None:
    queue.happens(Cancelled(at=at(t), t=t, request_id=request_id or "", by="alice", via="cli"))


def test_a_request_is_named_by_the_beginning_of_its_id() -> None:
    queue = QueueStory()
    first = queue.asks(0).request_id or ""
    queue.asks(0, "p2", text="git push other")
    named = queue.engine.approvals.named

    assert [r.id for r in named(first)] == [first]
    assert [r.id for r in named(first[:8])] == [first]
    assert named(first[:7]) == named("") == named(f"{first}x") == []


def test_agent_that_waits_for_most_answers_is_known_with_their_number() -> None:
    queue = QueueStory()
    assert queue.engine.approvals.most_insistent() == (None, 0)
    queue.asks(0, "p1", agent="quiet")
    queue.asks(0, "p2", text="git push other", agent="loud")
    queue.asks(0, "p3", text="git push third", agent="loud")

    assert queue.engine.approvals.most_insistent() == ("loud", 2)


def test_what_is_over_is_forgotten_in_time_but_an_id_keeps_its_newer_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_CLOSED", 1)
    queue = QueueStory()
    old = queue.asks(0).request_id
    cancel(queue, 1, old)
    new = queue.asks(1_000).request_id
    assert new != old

    cancel(queue, 1_001, queue.asks(1_001, "p2", text="git push other").request_id)

    cancel(queue, 1_002, queue.asks(1_002, "p3", text="git push third").request_id)

    approvals = queue.engine.approvals
    assert approvals.find(old or "") is approvals.of_proposal("code", "p2") is None
    assert approvals.of_proposal("code", "p1") is approvals.find(new or "")
    restored = Engine.restore(queue.engine.save()()).approvals
    assert restored.of_proposal("code", "p1") == approvals.find(new or "")


def test_an_approval_is_found_again_once_a_newer_request_of_its_action_has_ended() -> None:
    queue = QueueStory()
    good = queue.asks(0, confidence=0.95).request_id
    queue.answers(1, good)
    unsure = queue.asks(2, "p2", confidence=0.1).request_id
    assert unsure != good

    queue.answers(3, unsure, "denied")

    assert queue.asks(4, "p3", confidence=0.95).request_id == good
    assert queue.request(good).used == "p3"


def test_an_id_may_come_back_to_the_approval_that_it_asked_for() -> None:
    queue = QueueStory()
    good = queue.asks(0, confidence=0.95).request_id
    queue.answers(1, good)
    unsure = queue.asks(2, confidence=0.1).request_id
    queue.answers(3, unsure, "denied")
    assert queue.request(good).lost == ("p1",)

    used = queue.asks(1_000, confidence=0.95)

    assert (used.request_id, used.allowed) == (good, True)
    assert queue.request(good).lost == ()
    assert queue.request(unsure).lost == ("p1",)


def test_of_many_repeats_the_first_receive_the_decision_and_all_are_counted() -> None:
    queue = QueueStory()
    first = queue.asks(0)
    repeats = [f"r{n}" for n in range(MAX_JOINED + 1)]
    for id_ in repeats:
        assert queue.asks(1, id_).request_id == first.request_id

    request = queue.request(first.request_id)
    assert (request.repeats, len(request.joined)) == (MAX_JOINED + 1, MAX_JOINED)

    queue.answers(2, first.request_id, "denied")

    assert queue.asks(3, repeats[0]).cause == "human_denied"
    again = queue.asks(3, repeats[-1])
    assert again.cause == "human_denied", "it was told nothing, so it is decided again"


def test_no_more_than_some_end_at_one_tick() -> None:
    queue = QueueStory(Policy(approvals=ApprovalsConfig(max_pending_per_agent=1_000)))
    for number in range(100):
        asked = queue.asks(0, f"p{number}", text=f"git push {number}")
        if number % 2:
            queue.answers(1, asked.request_id)

    ended = [_ended(queue, 8 * DAY_S + n) for n in range(3)]

    assert ended == [64, 36, 0]


def _ended(queue: QueueStory, t: float) -> int:
    events = queue.happens(tick(t))
    return sum(len(e.request_ids) for e in events if isinstance(e, Expired | Lapsed))


def test_what_comes_for_a_request_that_is_unknown_or_over_changes_nothing() -> None:
    queue = QueueStory()
    over = queue.asks(0).request_id or ""
    queue.answers(1, over, "denied")
    before = queue.engine.approvals.save()()

    for id_ in (over, "req_unknown"):
        queue.happens(
            Answered(
                at=at(2),
                t=2.0,
                request_id=id_,
                agent="code",
                id="p1",
                answer="approved",
                by="bob",
                via="cli",
            ),
            Released(at=at(2), t=2.0, request_id=id_, agent="code", id="p1"),
            Deferred(at=at(2), t=2.0, request_id=id_, by="bob", until=at(9)),
            Cancelled(at=at(2), t=2.0, request_id=id_, by="bob", via="cli"),
            Superseded(at=at(2), t=2.0, request_id=id_, agent="code", by_id="p2"),
            Expired(at=at(2), t=2.0, request_ids=(id_,)),
            Lapsed(at=at(2), t=2.0, request_ids=(id_,)),
        )
    stray = Claimed(at=at(2), t=2.0, request_id="req_unknown", agent="code", id="p1", claimant="x")
    queue.happens(stray)

    assert queue.engine.approvals.save()() == before
    assert queue.asks(3).cause == "human_denied"


def test_an_approval_that_was_used_already_is_not_used_again_by_a_replayed_line() -> None:
    queue = QueueStory()
    queue.answers(1, queue.asks(0).request_id)
    queue.asks(2, "p2")
    (used,) = (event for event in queue.journal if getattr(event, "uses", None))

    queue.engine.approvals.observe(used)

    assert queue.request(queue.asks(2, "p2").request_id).used == "p2"


@pytest.mark.parametrize("waits", [True, False])
def test_a_claim_uses_an_approval_or_marks_the_one_that_is_used(waits: bool) -> None:  # noqa: FBT001
    queue = QueueStory()
    asked = queue.asks(0).request_id or ""
    queue.answers(1, asked, waits=waits)
    claimed = Claimed(at=at(2), t=2.0, request_id=asked, agent="code", id="p1", claimant="x")

    queue.happens(claimed)

    assert (queue.request(asked).used, queue.request(asked).claimant) == ("p1", "x")
    assert queue.engine.actions.under_way("code") == ("p1",)


def test_deferring_without_a_deadline_or_to_an_earlier_time_moves_none() -> None:
    queue = QueueStory()
    queue.happens(paused(0, "ops"))
    (free,) = (known.id for known in queue.engine.approvals.pending())
    due = queue.asks(0, "p2", text="git push other").request_id or ""
    deadline = queue.request(due).deadline

    for until in (at(60), at(30)):
        for id_ in (free, due):
            queue.happens(Deferred(at=at(1), t=1.0, request_id=id_, by="alice", until=until))

    assert queue.request(free).deadline is None
    assert deadline is not None
    assert queue.request(due).deadline == deadline + (at(60) - at(1))
    assert queue.request(due).until == at(30)


@pytest.mark.parametrize(("source", "left"), [("anomaly", 0), ("operator", 1)])
def test_a_request_to_end_a_pause_is_cancelled_when_the_pause_ends(source: str, left: int) -> None:
    queue = QueueStory()
    queue.happens(paused(0))

    queue.happens(Unpaused(at=at(1), t=1.0, agent="code", sources=(source,), by="alice"))

    assert queue.engine.approvals.pending_count() == left
    assert queue.replayed().approvals.pending_count() == left
