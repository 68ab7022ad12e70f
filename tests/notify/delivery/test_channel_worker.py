"""Stories of messages on their way to one channel."""

import itertools

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.notify.channel import Limits, Rate
from safetyd.operators.contract.notification_contract import ChannelState
from tests.examples import examples
from tests.notify.delivery.fake_channel import (
    PATIENCE_S,
    FakeChannel,
    Report,
    Word,
    WorkerRound,
    at_work,
    round_of,
)

FIVE_REFUSALS: list[Word] = ["refuses"] * 5
SMS = Limits(deadline_s=PATIENCE_S, delays_s=(15.0, 60.0), max_tries=4, ambiguous_tries=1)


async def test_what_the_channel_takes_is_reported_once() -> None:
    story = round_of("takes")

    async with at_work(story.worker):
        story.put("a")
        await story.rest()
        await story.later(3600)

    assert story.dispatcher.reports == [Report("a", "accepted", 1)]
    assert story.tried() == ["a"]


async def test_put_wakes_a_worker_that_sleeps() -> None:
    story = round_of("takes")

    async with at_work(story.worker):
        await story.rest()
        story.put("a")
        await story.channel.until_tried(1)

    assert story.tried() == ["a"]


async def test_what_fails_is_tried_again_after_each_delay_and_the_last_one_repeats() -> None:
    story = round_of("refuses", "refuses", "refuses", "takes", delays_s=(5.0, 15.0))
    tries = []

    async with at_work(story.worker):
        story.put("a")
        await story.rest()
        for _ in range(5):
            tries.append(len(story.channel.tried))
            await story.later(4.9)
            tries.append(len(story.channel.tried))
            await story.later(5.2)

    assert tries == [1, 1, 2, 2, 2, 3, 3, 3, 4, 4]
    assert story.dispatcher.reports == [Report("a", "accepted", 4)]


async def test_after_the_last_try_it_is_dead() -> None:
    story = round_of("refuses", delays_s=(5.0,), max_tries=3)

    async with at_work(story.worker):
        story.put("a")
        for _ in range(5):
            await story.later(60)

    assert story.dispatcher.reports == [Report("a", "dead", 3, "come back later")]


async def test_a_copy_that_costs_is_sent_once_and_a_minute_later() -> None:
    story = WorkerRound(FakeChannel("loses", limits=SMS))

    async with at_work(story.worker):
        story.put("a")
        await story.later(59)
        before = story.tried()
        await story.later(2)
        await story.later(3600)

    assert before == ["a"]
    assert story.dispatcher.reports == [Report("a", "dead", 2, "the connection was lost")]
    assert story.worker.counts.ambiguous == 2


async def test_a_refusal_leaves_the_copy_that_costs_for_later() -> None:
    story = WorkerRound(FakeChannel("loses", "refuses", "takes", limits=SMS))

    async with at_work(story.worker):
        story.put("a")
        for _ in range(3):
            await story.later(100)

    assert story.dispatcher.reports == [Report("a", "accepted", 3)]


async def test_after_a_restart_no_more_than_one_copy_that_costs_is_sent() -> None:
    story = WorkerRound(FakeChannel("loses", limits=SMS))

    async with at_work(story.worker):
        story.put("a", again=True)
        await story.rest()

    assert story.dispatcher.ends() == [("a", "dead")]


async def test_a_message_says_that_another_copy_may_have_arrived() -> None:
    story = round_of("refuses", "loses", "takes", delays_s=(5.0,))

    async with at_work(story.worker):
        story.put("a")
        await story.later(10)
        await story.later(10)
        story.put("b", again=True)
        await story.rest()

    marks = [(notice.delivery, notice.again) for notice in story.channel.tried]
    assert marks == [("a", False), ("a", False), ("a", True), ("b", True)]


async def test_what_is_undeliverable_is_dead_at_once_and_the_channel_up() -> None:
    story = round_of("rejects")

    async with at_work(story.worker):
        story.put(*"abcdefgh")
        await story.rest()

    assert {state for _, state in story.dispatcher.ends()} == {"dead"}
    assert len(story.tried()) == 8
    assert story.dispatcher.moves == []


async def test_a_channel_to_be_to_reopen_gets_nothing_before_it_is() -> None:
    story = round_of("locked", "locked", "takes")

    async with at_work(story.worker):
        story.put("a", "b")
        await story.later(86_400)
        before = story.tried(), story.worker.state().next_try_s
        story.worker.recover()
        await story.rest()
        story.worker.recover()
        story.put("a", "c")
        await story.rest()

    assert before == (["a"], None)
    assert story.dispatcher.ends() == [
        ("a", "parked"),
        ("b", "parked"),
        ("a", "accepted"),
        ("c", "accepted"),
    ]
    assert story.dispatcher.moves == [(False, "the login was refused"), (True, "")]


async def test_mending_tries_at_once_what_waits() -> None:
    story = round_of("refuses", "takes", delays_s=(600.0,))

    async with at_work(story.worker):
        story.put("a")
        await story.rest()
        story.worker.recover()
        await story.rest()

    assert story.dispatcher.ends() == [("a", "accepted")]


async def test_mending_lets_the_oldest_go_first() -> None:
    story = round_of("refuses", "refuses", "refuses", "takes", delays_s=(5.0, 600.0))

    async with at_work(story.worker):
        story.put("a")
        await story.later(6)
        story.put("b")
        await story.rest()
        story.worker.recover()
        await story.rest()

    assert story.tried() == ["a", "a", "b", "a", "b"]


async def test_what_has_no_use_any_more_is_not_sent() -> None:
    story = round_of("takes")
    story.dispatcher.answers = {"a": "cancelled", "b": "expired", "c": "quiet", "d": None}

    async with at_work(story.worker):
        story.put(*"abcd")
        await story.rest()

    assert story.tried() == []
    assert story.dispatcher.reports == [
        Report("a", "cancelled", 0),
        Report("b", "expired", 0),
        Report("c", "quiet", 0),
        Report("d", "cancelled", 0),
    ]


async def test_what_was_answered_between_two_tries_is_not_sent_again() -> None:
    story = round_of("refuses", "takes", delays_s=(5.0,))

    async with at_work(story.worker):
        story.put("a")
        await story.rest()
        story.dispatcher.answers["a"] = "cancelled"
        await story.later(10)

    assert story.dispatcher.reports == [Report("a", "cancelled", 1)]


async def test_what_is_dropped_while_it_waits_is_not_tried() -> None:
    story = round_of("refuses", "takes", delays_s=(5.0,))

    async with at_work(story.worker):
        story.put("a", "b")
        story.worker.drop("b")
        story.worker.drop("unknown")
        await story.rest()
        story.worker.drop("a")
        await story.later(3600)

    assert story.tried() == ["a"]
    assert story.dispatcher.reports == []
    assert story.worker.state().oldest_s is None


async def test_what_is_dropped_under_way_may_still_arrive() -> None:
    story = round_of("holds")

    async with at_work(story.worker):
        story.put("a")
        await story.channel.until_tried(1)
        story.worker.drop("a")
        story.channel.released.set()
        await story.rest()

    assert story.dispatcher.ends() == [("a", "accepted")]


@pytest.mark.parametrize(("put_anew", "tries"), [((), 1), (("a",), 2)])
async def test_what_is_dropped_under_way_is_tried_again_only_if_put_anew(
    put_anew: tuple[str, ...], tries: int
) -> None:
    story = round_of("hangs", "takes", deadline_s=0.02, delays_s=(5.0,))

    async with at_work(story.worker):
        story.put("a")
        await story.channel.until_tried(1)
        story.worker.drop("a")
        story.put(*put_anew)
        await story.later(10)

    assert len(story.tried()) == tries


async def test_putting_what_is_known_changes_nothing() -> None:
    story = round_of("holds")

    async with at_work(story.worker):
        story.put("a", "b")
        await story.channel.until_tried(1)
        story.put("a", "b", again=True)
        story.channel.released.set()
        await story.rest()

    assert [(notice.delivery, notice.again) for notice in story.channel.tried] == [
        ("a", False),
        ("b", False),
    ]


async def test_five_failures_in_a_row_give_the_channel_a_rest() -> None:
    story = round_of(*FIVE_REFUSALS, "takes", delays_s=(5.0,))

    async with at_work(story.worker):
        story.put(*"abcdef")
        await story.rest()
        at_first = story.tried()
        await story.later(29)
        resting = story.worker.state()
        await story.later(2)

    assert at_first == ["a", "b", "c", "d", "e"]
    assert (resting.fuse, resting.up, resting.next_try_s) == ("open", False, 1.0)
    assert len(story.tried()) == 11
    assert story.dispatcher.moves == [(False, "come back later"), (True, "")]


async def test_the_oldest_urgent_message_tries_the_channel_alone() -> None:
    story = round_of(*FIVE_REFUSALS, "holds", concurrency=4, delays_s=(5.0,))

    async with at_work(story.worker):
        story.put(*"abcde")
        await story.rest()
        story.put("f", "g", urgency="high")
        story.t += 31
        story.worker.put("h", "normal", "h")
        await story.channel.until_tried(6)
        await anyio.wait_all_tasks_blocked()
        alone = story.tried()[5:], story.worker.state().fuse
        story.channel.released.set()
        await story.rest()

    assert alone == (["f"], "half_open")
    assert len(story.dispatcher.reports) == 8


async def test_a_channel_that_was_down_before_a_restart_is_up_with_its_first_success() -> None:
    story = WorkerRound(FakeChannel("takes", limits=Limits(deadline_s=PATIENCE_S)), up=False)

    async with at_work(story.worker):
        story.put("a", "b")
        await story.rest()

    assert story.dispatcher.moves == [(True, "")]


async def test_the_state_says_how_the_channel_does() -> None:
    story = round_of("takes", "refuses", "holds", delays_s=(50.0,))

    async with at_work(story.worker):
        at_first = story.worker.state()
        story.put("a")
        await story.rest()
        story.put("b")
        await story.later(10)
        story.put("c", "d")
        await story.channel.until_tried(3)
        story.put("e", urgency="high")
        story.t += 7
        state = story.worker.state()

    assert at_first == ChannelState(
        name="fake",
        up=True,
        waiting_high=0,
        waiting_normal=0,
        under_way=0,
        oldest_s=None,
        last_success_s_ago=None,
        last_error="",
        failing=False,
        fuse="closed",
        next_try_s=None,
    )
    assert state == ChannelState(
        name="fake",
        up=True,
        waiting_high=1,
        waiting_normal=2,
        under_way=1,
        oldest_s=17.0,
        last_success_s_ago=17.0,
        last_error="come back later",
        failing=True,
        fuse="closed",
        next_try_s=33.0,
    )


async def test_what_was_done_is_counted() -> None:
    story = round_of("takes", "rejects", "loses", "takes", delays_s=(5.0,))

    async with at_work(story.worker):
        story.put(*"abc")
        await story.rest()
        await story.later(10)

    counts = story.worker.counts
    assert counts.outcomes == {"accepted": 2, "dead": 1}
    assert (counts.attempts, counts.ambiguous) == (4, 1)


async def test_finishing_waits_for_what_is_under_way_and_due_but_for_no_later_try() -> None:
    story = round_of("refuses", "holds", "takes", delays_s=(5.0,))

    async with at_work(story.worker):
        story.put(*"abc")
        await story.channel.until_tried(2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(story.worker.finish, PATIENCE_S)
            await anyio.wait_all_tasks_blocked()
            story.channel.released.set()

    assert story.dispatcher.ends() == [("b", "accepted"), ("c", "accepted")]


async def test_finishing_ends_with_the_grace() -> None:
    story = round_of("hangs")

    async with at_work(story.worker):
        story.put("a")
        await story.channel.until_tried(1)
        with anyio.fail_after(PATIENCE_S / 2):
            await story.worker.finish(0.02)

    assert story.dispatcher.reports == []


async def test_finishing_ends_with_the_worker() -> None:
    story = round_of("hangs")

    with anyio.fail_after(PATIENCE_S / 2):
        async with anyio.create_task_group() as tasks, at_work(story.worker):
            story.put("a")
            await story.channel.until_tried(1)
            tasks.start_soon(story.worker.finish, 2 * PATIENCE_S)
            await anyio.wait_all_tasks_blocked()

    assert story.dispatcher.reports == []


async def test_there_is_nothing_to_finish_for_a_worker_that_does_not_run() -> None:
    story = round_of("takes")
    story.put("a")

    with anyio.fail_after(PATIENCE_S / 2):
        await story.worker.finish(PATIENCE_S)

    assert story.tried() == []


async def test_a_worker_that_is_cancelled_ends_at_once_and_reports_nothing() -> None:
    story = round_of("hangs", deadline_s=60.0)

    with anyio.fail_after(PATIENCE_S):
        async with at_work(story.worker):
            story.put("a", "b")
            await story.channel.until_tried(1)

    assert story.dispatcher.reports == []
    assert story.channel.under_way == []
    assert story.worker.counts.ambiguous == 0


async def test_a_machine_that_was_suspended_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetyd.notify.delivery.channel_worker.SLEEP_S", 0.01)
    story = round_of("refuses", "takes", delays_s=(600.0,))

    async with at_work(story.worker):
        story.put("a")
        await story.rest()
        story.t += 3600
        await story.channel.until_tried(2)

    assert len(story.tried()) == 2


STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(["high", "normal"]), st.sampled_from("xyz")),
    st.tuples(st.just("later"), st.sampled_from([0.5, 3.0, 40.0]), st.none()),
    st.tuples(st.just("drop"), st.integers(0, 20), st.none()),
    st.tuples(st.just("mend"), st.none(), st.none()),
)
WORDS: list[Word] = ["takes", "refuses", "loses", "rejects", "locked"]


@examples(2)
@given(st.lists(STEPS, max_size=40), st.lists(st.sampled_from(WORDS), max_size=30))
def test_whatever_happens_each_message_has_one_end(steps, words) -> None:
    story = round_of(
        *words,
        "takes",
        concurrency=2,
        rates=(Rate(3, 10.0),),
        recipient_rates=(Rate(1, 5.0),),
        delays_s=(1.0, 4.0),
    )
    put: list[str] = []
    dropped: set[str] = set()

    async def play() -> None:
        async with at_work(story.worker):
            for step, what, to in steps:
                match step:
                    case "put":
                        put.append(str(len(put)))
                        story.put(put[-1], urgency=what, to=to)
                    case "later":
                        await story.later(what)
                    case "drop":
                        dropped.add(str(what))
                        story.worker.drop(str(what))
                    case "mend":
                        story.worker.recover()
            for _ in range(100):
                story.worker.recover()
                await story.later(10)

    anyio.run(play)

    ends = [delivery for delivery, _ in story.dispatcher.ends()]
    assert len(set(ends)) == len(ends)
    assert set(put) - dropped <= set(ends) <= set(put)
    assert not story.worker._known
    times = story.channel.times
    assert all(later - earlier >= 10.0 for earlier, later in zip(times, times[3:], strict=False))
    assert [up for up, _ in story.dispatcher.moves] == list(
        itertools.islice(itertools.cycle((False, True)), len(story.dispatcher.moves))
    )
