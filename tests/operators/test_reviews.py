from typing import Any

import msgspec
import pytest

from safetyd.core.approvals.request import Request
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.events.request_events import Answered, Deferred
from safetyd.journal.commit_loop import put
from safetyd.operators.request_names import unnamed
from safetyd.operators.reviews import Review
from tests.core.approvals.queue_story import QueueStory
from tests.operators.bound_handlers import read_review
from tests.story import at, stop

HOUR_S = 3600.0
Row = dict[str, Any]


def reviews(
    queue: QueueStory, t: float, command: str, *ids: str | None, **fields: object
) -> list[Row]:
    """Return what a person is told of each request."""
    by = str(fields.pop("by", "alice"))
    told: list[object] = []
    read = read_review({"command": command, "ids": list(ids), **fields})
    envelopes = Review(by, read, lambda _: False, told.append).envelopes()
    for envelope in envelopes:
        queue.journal += put(queue.engine, envelope, Moment(at(t), t))
    assert told == []
    for envelope in envelopes:
        envelope.deliver(late=True)
    (reply,) = told
    rows: list[Row] = msgspec.to_builtins(reply)["results"]
    return rows


def test_who_comes_second_is_told_who_answered_when_and_how() -> None:
    queue = QueueStory()
    id_ = queue.asks(0).request_id

    (won,) = reviews(queue, 1, "approve", id_, message="go", by="alice", via="tui")
    (lost,) = reviews(queue, 2, "deny", id_, reason="no", by="bob")

    assert (won["ok"], won["decision"]) == (True, "approved")
    assert (lost["ok"], lost["code"]) == (False, "already_decided")
    assert (lost["decision"], lost["by"], lost["via"]) == ("approved", "alice", "tui")
    assert len([e for e in queue.journal if isinstance(e, Answered)]) == 1


def test_an_answer_that_raises_is_reported_as_failed_and_the_others_are_given(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue, told = QueueStory(), list[object]()
    ids = [queue.asks(0, f"p{n}", text=f"git push {n}").request_id for n in range(2)]

    def waits(request: Request) -> bool:
        if request.id == ids[0]:
            raise ZeroDivisionError
        return False

    review = Review("alice", read_review({"command": "approve", "ids": ids}), waits, told.append)
    for envelope in review.envelopes():
        put(queue.engine, envelope, Moment(at(1), 1))
        envelope.deliver(late=False)

    (reply,) = told
    rows = msgspec.to_builtins(reply)["results"]
    assert [row.get("code") for row in rows] == ["internal", None]
    assert [request.id for request in queue.engine.approvals.pending()] == [ids[0]]
    assert "ZeroDivisionError" in caplog.text


def test_people_are_told_apart_in_the_record() -> None:
    queue = QueueStory()
    ids = [queue.asks(0, f"p{n}", text=f"git push {n}").request_id for n in range(2)]

    reviews(queue, 1, "approve", ids[0], by="alice")
    reviews(queue, 2, "reject", ids[1], by="bob")

    assert [e.by for e in queue.journal if isinstance(e, Answered)] == ["alice", "bob"]
    assert [e.by for e in queue.journal if isinstance(e, PersonSeen)] == ["alice", "bob"]


def test_each_of_several_is_settled_by_itself() -> None:
    queue = QueueStory()
    id_ = queue.asks(0).request_id

    rows = reviews(queue, 1, "deny", id_, "req_unknown", id_)

    assert [row.get("code", "ok") for row in rows] == ["ok", "not_found", "already_decided"]


def test_an_ambiguous_id_says_how_many_requests_start_with_it() -> None:
    queue = QueueStory()
    request = queue.request(queue.asks(0).request_id)

    assert "ambiguous: 2 requests" in unnamed(queue.engine, "req_0000", [request, request])


def test_an_answer_after_the_deadline_does_not_count_even_before_a_tick_says_so() -> None:
    queue = QueueStory()
    id_ = queue.asks(0, wait=True).request_id

    (late,) = reviews(queue, HOUR_S, "approve", id_)

    assert (late["ok"], late["code"]) == (False, "expired")
    assert queue.request(id_).pending


@pytest.mark.parametrize("digest", ["sha256:0000000000", "d1", "0"])
def test_an_approval_of_something_else_than_what_waits_is_refused(digest: str) -> None:
    queue = QueueStory()
    id_ = queue.asks(0).request_id

    (row,) = reviews(queue, 1, "approve", id_, digest=digest)

    assert (row["ok"], row["code"]) == (False, "digest_mismatch")
    assert queue.request(id_).pending


def test_a_cut_digest_names_what_was_shown() -> None:
    queue = QueueStory()
    id_ = queue.asks(0, digest="sha256:0123456789abcdef").request_id

    assert reviews(queue, 1, "approve", id_, digest="01234567")[0]["ok"]


def test_an_approval_that_is_held_back_says_by_what() -> None:
    queue = QueueStory()
    id_ = queue.asks(0).request_id
    queue.happens(stop(1))

    (row,) = reviews(queue, 2, "approve", id_)

    assert (row["ok"], row["decision"], row["held"]) == (True, "approved", "stopped")


def test_a_request_is_put_off_or_withdrawn() -> None:
    queue = QueueStory()
    id_ = queue.asks(0).request_id

    (put_off,) = reviews(queue, 1, "defer", id_, until=at(60))
    (withdrawn,) = reviews(queue, 2, "cancel", id_)

    assert (put_off["ok"], put_off["decision"]) == (True, "pending")
    assert (withdrawn["ok"], withdrawn["decision"]) == (True, "cancelled")


@pytest.mark.parametrize("t", [-1.0, 1.0, 31 * 24 * HOUR_S])
def test_nothing_is_put_off_into_the_past_or_for_longer_than_a_month(t: float) -> None:
    queue = QueueStory()
    id_ = queue.asks(0).request_id

    (row,) = reviews(queue, 1, "defer", id_, until=at(t))

    assert (row["ok"], row["code"]) == (False, "invalid")
    assert not [e for e in queue.journal if isinstance(e, Deferred)]


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "approve", "ids": []},
        {"command": "defer", "ids": ["x"], "until": "2026-03-01T12:00:00"},
        {"command": "deny", "ids": ["x"], "reason": "x" * 2001},
        {"command": "deny", "ids": ["x"], "via": "x" * 65},
    ],
)
def test_an_answer_that_is_not_well_formed_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_review(fields)
