"""What people see of requests, page by page."""

from typing import Any

import pytest

from safetyd.core.events.event import Moment
from safetyd.core.events.history_events import Committed
from safetyd.core.events.notification_events import ChannelMoved, Due, Told
from safetyd.core.policy import Policy
from safetyd.core.recipients import QuietHours, Recipient, TellingConfig
from safetyd.operators.contract.request_contract import (
    HistoryQuestion,
    PendingQuestion,
    RequestQuestion,
)
from safetyd.operators.views.request_view import history, pending, request
from tests.core.approvals.queue_story import QueueStory
from tests.operators.views.view_reader import plain, status_of
from tests.story import at, tick

NOW = Moment(at(100), 100.0)


def three() -> tuple[QueueStory, list[str | None]]:
    """Return a queue with three open requests, and their ids."""
    queue = QueueStory()
    return queue, [queue.asks(n, f"p{n}", text=f"git push {n}").request_id for n in (1, 2, 3)]


def mailed() -> QueueStory:
    """Return a queue of which alice is told by mail."""
    awake = QuietHours(start="00:00", end="00:00")
    alice = Recipient(name="alice", channels=("email",), quiet=awake)
    return QueueStory(
        Policy(telling=TellingConfig(recipients=(alice,), channels={"email": "email"}))
    )


def waiting(queue: QueueStory, **wanted: Any) -> dict[str, Any]:
    return plain(pending(queue.engine, NOW, PendingQuestion(**wanted)))


def ended(queue: QueueStory, **wanted: Any) -> dict[str, Any]:
    return plain(history(queue.engine, NOW, HistoryQuestion(**wanted)))


def test_a_page_says_whether_more_follow():
    queue, ids = three()

    first = waiting(queue, limit=2)
    second = waiting(queue, limit=2, after=ids[1])

    assert [row["id"] for row in first["requests"]] == ids[:2]
    assert (first["more"], first["pending"]) == (True, 3)
    assert [row["id"] for row in second["requests"]] == ids[2:]
    assert second["more"] is False


def test_the_next_page_is_found_though_the_last_one_shown_was_answered_meanwhile():
    queue, ids = three()
    queue.answers(4, ids[1], "denied")

    assert [row["id"] for row in waiting(queue, after=ids[1])["requests"]] == ids[2:]


def test_a_page_that_is_full_before_its_last_row_says_that_more_follow():
    queue = QueueStory()
    for n in range(49):
        large = {"text": f"{n:03} " + "\x01" * 8000, "description": "\x01" * 8000}
        queue.asks(n, f"p{n}", agent=f"a{n % 7}", **large)

    page = waiting(queue)

    assert page["more"] is (len(page["requests"]) < 49)


@pytest.mark.req("S3.55")
def test_an_approval_is_in_the_history_before_it_is_used():
    queue, ids = three()
    queue.answers(5, ids[0])
    queue.answers(9, ids[2], "denied", words="no")

    page = ended(queue)

    assert [(row["request_id"], row["decision"]) for row in page["history"]] == [
        (ids[2], "denied"),
        (ids[0], "approved"),
    ]
    assert page["history"][0]["response_time_seconds"] == 6.0
    assert page["history"][0]["decided_by"] == "alice"


def test_the_history_goes_on_after_a_request():
    queue, ids = three()
    for t, id_ in enumerate(ids, 5):
        queue.answers(t, id_, "denied")

    first = ended(queue, limit=1)
    rest = ended(queue, after=ids[2])

    assert first["more"] is True
    assert [row["request_id"] for row in rest["history"]] == [ids[1], ids[0]]
    assert rest["more"] is False


def test_a_card_has_the_last_answers_to_the_same_kind():
    queue, ids = three()
    queue.answers(5, ids[0], "denied")

    card = plain(request(queue.engine, NOW, RequestQuestion(id=ids[1] or "").id))["request"]

    assert [row["request_id"] for row in card["before"]] == [ids[0]]
    assert card["left_s"] is not None


def test_a_name_that_no_request_has_is_not_found():
    assert plain(request(QueueStory().engine, NOW, "req_00000000"))["code"] == "not_found"


def test_the_status_counts_what_waits_and_knows_how_long_the_oldest_has():
    queue, _ = three()

    some, none = (plain(status_of(q.engine, NOW.t))["requests"] for q in (queue, QueueStory()))

    assert (some["pending"], some["oldest_s"]) == (3, 99.0)
    assert (none["pending"], none["oldest_s"]) == (0, 0.0)
    assert (none["channels"], none["down"], none["unnotified"]) == ([], [], 0)


def test_the_status_says_how_people_are_told_and_what_nobody_was():
    queue = mailed()
    queue.asks(1)
    queue.happens(ChannelMoved(at=at(2), t=2.0, channel="email", up=False, why="no login"))

    told = plain(status_of(queue.engine, 1_000.0))["requests"]

    assert (told["channels"], told["down"], told["unnotified"]) == (["email"], ["email"], 1)


def test_a_page_says_how_people_are_told_and_what_cannot_be():
    queue = mailed()
    queue.asks(1)
    before = waiting(queue)
    queue.happens(ChannelMoved(at=at(2), t=2.0, channel="email", up=False))

    after = waiting(queue)

    assert before["channels"] == ["email"]
    assert [page["requests"][0]["undeliverable"] for page in (before, after)] == [False, True]


def test_status_counts_requests_that_were_not_sent_yet():
    queue = mailed()
    queue.asks(1, "p1", urgency="high")
    queue.asks(1, "p2", text="git push x")
    before = plain(status_of(queue.engine, 2.0))["requests"]["unsent"]
    queue.happens(tick(70))
    for due in [event for event in queue.journal if isinstance(event, Due)]:
        sent = due.delivery
        queue.happens(Told(at=at(75), t=75.0, delivery=sent, channel="email", state="accepted"))

    after = plain(status_of(queue.engine, 80.0))["requests"]["unsent"]

    assert (before["requests"], before["urgent"], before["expiring"]) == (2, 1, 0)
    assert before["until"] is not None
    assert after is None


def test_a_card_says_who_was_told_where_and_when():
    queue = mailed()
    id_ = queue.asks(1).request_id or ""
    (due,) = (event for event in queue.happens(tick(70)) if isinstance(event, Due))
    before = plain(request(queue.engine, NOW, id_))["request"]["told"]
    queue.happens(Told(at=at(75), t=75.0, delivery=due.delivery, channel="email", state="accepted"))

    after = plain(request(queue.engine, NOW, id_))["request"]["told"]

    told = {"delivery": due.delivery, "recipient": "alice", "channel": "email"}
    assert before == [{**told, "state": "open", "at": "2026-03-01T12:01:10Z"}]
    assert after == [{**told, "state": "accepted", "at": "2026-03-01T12:01:15Z"}]


def test_a_card_and_the_list_of_what_ended_say_what_was_changed() -> None:
    queue = QueueStory()
    asked = queue.asks(0, wait=True).request_id
    queue.answers(5, asked, waits=True)
    unchanged = plain(request(queue.engine, NOW, asked or ""))["request"]

    about: dict[str, Any] = {"agent": "code", "id": "p1", "why": "after"}
    queue.happens(Committed(at=at(6), t=6.0, project="shop", commit="4f2a", **about))

    assert "change" not in unchanged
    kept = {"project": "shop", "commit": "4f2a"}
    assert plain(request(queue.engine, NOW, asked or ""))["request"]["change"] == kept
    assert ended(queue)["history"][0]["change"] == kept
