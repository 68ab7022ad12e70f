"""Urgent messages are counted by party: nobody's are used up by others."""

from collections.abc import Callable

import msgspec
import pytest

from safetyd.core.approvals.request import request_id
from safetyd.core.events.notification_events import Due
from safetyd.core.outbox import delivery_queue as lanes
from tests.core.outbox.outbox_story import HOUR, MINUTE, OutboxStory, announced, refs, requested
from tests.core.outbox.test_outbox_notes import found
from tests.story import at

Asks = Callable[[OutboxStory, int], list[Due]]


def made_up(post: OutboxStory, n: int) -> list[Due]:
    return post.asked(n / 10, "p", f"made-up-{n}", urgency="high", keyless=True)


def another(post: OutboxStory, n: int) -> list[Due]:
    return post.asked(n / 10, f"p{n}", "other", urgency="high")


def alerts(post: OutboxStory, n: int) -> list[Due]:
    return post.dues(found(n / 10, rule=f"r{n}", agent="other"))


def of_nobody(post: OutboxStory, n: int) -> list[Due]:
    return post.dues(announced(n / 10, f"note_n{n}", "alert", urgency="high"))


@pytest.mark.parametrize("others", [made_up, another, alerts, of_nobody])
@pytest.mark.parametrize("arrives", [True, False])
def test_what_is_urgent_of_others_holds_up_nobody(others: Asks, arrives: bool) -> None:  # noqa: FBT001
    post = OutboxStory()
    for n in range(8):
        dues = others(post, n)
        assert len(dues) == (n < lanes.MAX_HIGH)
        if arrives:
            post.tells(n / 10, *dues)

    (due,) = post.asked(1, "p", "deployer", urgency="high")

    assert refs(due) == [request_id("deployer", "p", post.last)]
    assert post.waiting()[0][2] == 3
    assert post.replayed().state() == post.state() == post.restored().state()
    rest = post.ticks(MINUTE + 1)
    assert [len(each.items) for each in rest] == ([3] if arrives else [])


def test_alerts_of_an_agent_and_what_it_asks_are_counted_together() -> None:
    post = OutboxStory()
    for n in range(3):
        post.tells(n, *another(post, n), *alerts(post, n))

    ((*_, waits, until),) = post.waiting()

    assert (waits, until) == (1, at(0.2 + MINUTE))


def test_one_message_tells_of_all_parties_whose_time_has_come() -> None:
    post = OutboxStory()
    for n in range(7):
        post.tells(n / 10, *made_up(post, n), *another(post, n))

    (due,) = post.tells_at(MINUTE + 1)

    assert len(due.items) == 4
    assert made_up(post, 620) == another(post, 620) == []


def test_what_a_party_was_told_of_long_ago_is_forgotten() -> None:
    post = OutboxStory()
    for n in range(50):
        post.tells(n, *post.asked(n, "p", f"a{n}", urgency="high"))

    post.asks(HOUR, "p", "deployer", urgency="high")

    (lane,) = post.outbox._state.lanes.values()
    assert list(lane.urgent) == ["deployer"]


def test_a_checkpoint_that_counted_all_together_is_taken_on() -> None:
    post = OutboxStory()
    state = msgspec.msgpack.decode(post.outbox.save()())
    waits = post.asks(0, "p", "a", urgency="high")
    row = {"sort": "high", "flush_at": at(0), "items": {waits: requested(waits)}, "since": at(0)}
    lane = state["lanes"]["alice/mail"]
    del lane["urgent"]
    lane |= {"rows": {"high": row}, "where": {waits: "high"}, "soonest": at(0), "newest": at(0)}
    lane |= {"open_high": [f"dlv_{n}" for n in range(5)], "high_at": [at(0)] * 5}

    post.outbox.load(msgspec.msgpack.encode(state))

    assert [refs(due) for due in post.ticks(1)] == [[waits]]


def test_what_a_journal_does_not_tell_of_though_it_could_is_told_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(lanes, "MAX_HIGH", 1)
        post = OutboxStory()
        post.tells(0, *another(post, 0))
        assert another(post, 1) == []

    (due,) = post.replayed().ticks(1)

    assert len(due.items) == 1
