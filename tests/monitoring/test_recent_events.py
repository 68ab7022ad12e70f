from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.policy import Policy
from safetyd.monitoring.recent_events import (
    MAX_BYTES,
    MAX_EVENTS,
    Missed,
    RecentEvents,
)
from tests.cost import ratio, reading
from tests.story import outcome, play, propose, resume, stop

MANY = 2 * MAX_EVENTS


def nothing(before: int) -> tuple[list[Event], int]:
    return [], before - 1


def decided(count: int, *, text: str = "") -> list[Event]:
    """Return so many decisions, made cheaply."""
    (event,) = play(Engine(Policy()), propose(0, text=text))
    assert isinstance(event, Decided)
    return [
        Decided(
            seq=seq,
            at=event.at,
            t=event.t,
            agent=event.agent,
            proposal=event.proposal,
            digest=event.digest,
            decision=event.decision,
            type=event.type,
            tier=event.tier,
            reversibility=event.reversibility,
            risk=event.risk,
        )
        for seq in range(1, count + 1)
    ]


def seqs(events: Sequence[Event]) -> list[int]:
    return [event.seq for event in events]


def test_decisions_and_what_people_are_told_are_kept_and_nothing_else() -> None:
    recent = RecentEvents(0, nothing)
    events = play(Engine(Policy()), propose(0), outcome(1), stop(2), resume(3))

    recent.observe(events)

    kept = [event for event in events if isinstance(event, Decided | SafetyEvent)]
    assert list(recent.newest()) == kept[::-1]
    assert len(kept) < len(events)


def test_the_oldest_give_way() -> None:
    recent = RecentEvents(0, nothing)

    for event in decided(MANY):
        recent.observe([event])

    newest = seqs(recent.newest())
    assert newest[0] == MANY
    assert MAX_EVENTS <= len(newest) < 2 * MAX_EVENTS
    assert recent.after == newest[-1] - 1


@pytest.mark.parametrize("fields", [{"text": "x" * 8000}, {"paths": ("x" * 4000,) * 10}])
def test_large_ones_give_way_sooner(fields: dict[str, Any]) -> None:
    recent = RecentEvents(0, nothing)
    engine = Engine(Policy())

    for n in range(MAX_EVENTS):
        recent.observe(play(engine, propose(n, id=f"p{n}", **fields)))

    assert len(recent.newest()) * 8000 < MAX_BYTES * 1.1
    assert recent.newest()[0].seq == engine.seq


def test_who_follows_gets_everything_once_in_order() -> None:
    recent, events = RecentEvents(0, nothing), decided(10)
    subscription = recent.subscribe()

    recent.observe(events[:4])
    first = subscription.take()
    recent.observe(events[4:])
    second, third = subscription.take(2), subscription.take()

    assert [seqs(taken.events) for taken in (first, second, third)] == [
        [1, 2, 3, 4],
        [5, 6],
        [7, 8, 9, 10],
    ]
    assert {first.missed, second.missed, third.missed} == {None}
    assert subscription.take().events == []


def test_who_follows_from_now_on_gets_nothing_of_before() -> None:
    recent, events = RecentEvents(0, nothing), decided(3)
    recent.observe(events[:2])

    subscription = recent.subscribe()
    recent.observe(events[2:])

    assert seqs(subscription.take().events) == [3]


def test_who_follows_from_an_event_on_gets_what_is_still_here() -> None:
    recent = RecentEvents(0, nothing)
    recent.observe(decided(5))

    assert seqs(recent.subscribe(3).take().events) == [4, 5]


def test_a_slow_reader_is_told_what_was_missed() -> None:
    recent, events = RecentEvents(0, nothing), decided(MANY)
    subscription = recent.subscribe()
    recent.observe(events[:1])
    subscription.take()

    for event in events[1:]:
        recent.observe([event])
    taken, rest = subscription.take(), subscription.take()

    assert taken.missed == Missed(1, recent.after)
    assert seqs([*taken.events, *rest.events]) == list(range(recent.after + 1, MANY + 1))
    assert rest.missed is None


async def test_whoever_waits_is_woken_by_news_only() -> None:
    recent, events = RecentEvents(0, nothing), decided(2)
    engine = Engine(Policy())
    got: list[int] = []

    async def follow() -> None:
        subscription = recent.subscribe()
        for _ in range(2):
            await subscription.wait()
            got.extend(seqs(subscription.take().events))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(follow)
            await anyio.wait_all_tasks_blocked()
            recent.observe(play(engine, outcome(1)))
            await anyio.wait_all_tasks_blocked()
            before = list(got)
            recent.observe(events[:1])
            await anyio.wait_all_tasks_blocked()
            recent.observe(events[1:])

    assert before == []
    assert got == [1, 1, 1, 2, 2, 2]


async def test_what_happened_before_the_start_comes_first() -> None:
    events = decided(10)
    asked: list[int] = []

    def earlier(before: int) -> tuple[list[Event], int]:
        asked.append(before)
        return events[2:5], 2

    recent = RecentEvents(5, earlier)
    recent.observe(events[5:8])

    await recent.refill()

    assert asked == [6]
    assert seqs(recent.newest()) == [8, 7, 6, 5, 4, 3]
    assert recent.subscribe(1).take().missed == Missed(1, 2)
    assert seqs(recent.subscribe(2).take().events) == [3, 4, 5, 6, 7, 8]


async def test_files_that_cannot_be_read_do_not_end_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def earlier(_before: int) -> tuple[list[Event], int]:
        raise PermissionError("no")

    recent = RecentEvents(5, earlier)

    await recent.refill()

    assert recent.after == 5
    assert ": no\n" in caplog.text


def test_keeping_a_decision_costs_little_beside_reading_one() -> None:
    batch = decided(64, text="make test")
    recent = RecentEvents(0, nothing)

    assert ratio(lambda: recent.observe(batch), reading, times=50) / len(batch) < 0.25


def test_a_thousand_followers_cost_nothing_while_they_show_what_they_took() -> None:
    batch = decided(64, text="make test")
    alone, followed = RecentEvents(0, nothing), RecentEvents(0, nothing)
    subscriptions = [followed.subscribe() for _ in range(1000)]

    cost = ratio(lambda: followed.observe(batch), lambda: alone.observe(batch), times=50)

    assert cost < 2
    assert subscriptions[0].take().events
