"""Urgent messages are counted by party: nobody's are used up by others."""

from collections.abc import Callable

import msgspec
import pytest

from safetyd.core.approvals.request import request_id
from safetyd.core.events.notification_events import Due
from safetyd.core.outbox import pace
from safetyd.core.outbox.pace import PEOPLE
from tests.core.outbox.outbox_story import HOUR, MINUTE, OutboxStory, announced, refs, requested
from tests.core.outbox.test_outbox_notes import found
from tests.story import at

Asks = Callable[[OutboxStory, int], list[Due]]


def made_up(story: OutboxStory, n: int) -> list[Due]:
    fields = {"urgency": "high", "inferred": True, "keyless": True}
    return story.asked(n / 10, "p", f"made-up-{n}", **fields)


def another(story: OutboxStory, n: int) -> list[Due]:
    return story.asked(n / 10, f"p{n}", "other", urgency="high", inferred=True)


def alerts(story: OutboxStory, n: int) -> list[Due]:
    return story.dues(found(n / 10, rule=f"r{n}", agent="other"))


def of_nobody(story: OutboxStory, n: int) -> list[Due]:
    return story.dues(announced(n / 10, f"note_n{n}", "alert", urgency="high"))


@pytest.mark.parametrize("others", [made_up, another, alerts, of_nobody])
@pytest.mark.parametrize("arrives", [True, False])
def test_what_is_urgent_of_others_holds_up_nobody(others: Asks, arrives: bool) -> None:  # noqa: FBT001
    story = OutboxStory()
    for n in range(8):
        dues = others(story, n)
        assert len(dues) == (n < PEOPLE.party)
        if arrives:
            story.tells(n / 10, *dues)

    (due,) = story.asked(1, "p", "deployer", urgency="high", inferred=True)

    assert refs(due) == [request_id("deployer", "p", story.last)]
    assert story.waiting()[0][2] == 5
    assert story.replayed().state() == story.state() == story.restored().state()
    assert story.ticks(20 * MINUTE) == []
    assert [len(each.items) for each in story.ticks(20 * MINUTE + 1)] == [5]


def test_alerts_of_an_agent_and_what_it_asks_are_counted_together() -> None:
    story = OutboxStory()
    for n in range(3):
        story.tells(n, *another(story, n), *alerts(story, n))

    ((*_, waits, until),) = story.waiting()

    assert (waits, until) == (3, at(0.1 + 20 * MINUTE))


def test_one_message_tells_of_all_parties_whose_time_has_come() -> None:
    story = OutboxStory()
    for n in range(7):
        story.tells(n / 10, *made_up(story, n), *another(story, n))

    (due,) = story.tells_at(20 * MINUTE + 1)

    assert len(due.items) == 8
    assert made_up(story, 12_100) == another(story, 12_100) == []


def test_whoever_was_not_urgent_yet_waits_least() -> None:
    story = OutboxStory()
    for n in range(PEOPLE.in_all):
        story.tells(n, *story.asked(n, "p", f"a{n}", urgency="high", inferred=True))
    story.asks(10, "p", "a0", urgency="high", inferred=True)
    fresh = story.asks(10, "p", "deployer", urgency="high", inferred=True)

    assert story.ticks(4 + 5 * MINUTE - 1) == []
    (due,) = story.tells_at(4 + 5 * MINUTE)

    assert refs(due) == [fresh]
    assert story.ticks(4 + 25 * MINUTE - 1) == []
    assert len(story.ticks(4 + 25 * MINUTE)) == 1


def test_what_a_party_was_told_of_long_ago_is_forgotten() -> None:
    story = OutboxStory()
    for n in range(PEOPLE.in_all):
        story.tells(n, *story.asked(n, "p", f"a{n}", urgency="high"))

    story.asks(HOUR + PEOPLE.in_all, "p", "deployer", urgency="high")

    (queue,) = story.outbox._state.lanes.values()
    assert list(queue.urgent) == ["deployer"]


def test_a_checkpoint_that_counted_all_together_is_taken_on() -> None:
    story = OutboxStory()
    state = msgspec.msgpack.decode(story.outbox.save()())
    waits = story.asks(0, "p", "a", urgency="high")
    batch = {"sort": "high", "flush_at": at(0), "items": {waits: requested(waits)}, "since": at(0)}
    queue = state["lanes"]["alice/mail"]
    del queue["urgent"]
    queue |= {"rows": {"high": batch}, "where": {waits: "high"}, "soonest": at(0), "newest": at(0)}
    queue |= {"open_high": [f"dlv_{n}" for n in range(5)], "high_at": [at(0)] * 5}

    story.outbox.load(msgspec.msgpack.encode(state))

    assert [refs(due) for due in story.ticks(1)] == [[waits]]


def test_what_a_journal_does_not_tell_of_though_it_could_is_told_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(pace, "PEOPLE", PEOPLE._replace(party=1))
        story = OutboxStory()
        story.tells(0, *another(story, 0))
        assert another(story, 1) == []

    (due,) = story.replayed().ticks(1)

    assert len(due.items) == 1
