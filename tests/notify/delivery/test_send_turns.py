"""Whose turn it is: urgency, places and rates."""

import anyio

from safetyd.notify.channel import Rate
from tests.notify.delivery.fake_channel import at_work, round_of


async def test_urgent_ones_go_first_and_else_the_oldest() -> None:
    story = round_of("holds")

    async with at_work(story.worker):
        story.put("a")
        await story.channel.until_tried(1)
        story.put("b", "c")
        story.put("d", "e", urgency="high")
        story.put("f", urgency="low")
        story.channel.released.set()
        await story.rest()

    assert story.tried() == ["a", "d", "e", "b", "c", "f"]


async def test_one_place_is_kept_for_what_is_urgent() -> None:
    story = round_of("holds", concurrency=3)

    async with at_work(story.worker):
        story.put(*"abcd")
        await story.channel.until_tried(2)
        await anyio.wait_all_tasks_blocked()
        normal = list(story.channel.under_way)
        story.put("e", "f", urgency="high")
        await story.channel.until_tried(3)
        await anyio.wait_all_tasks_blocked()
        both = list(story.channel.under_way)

    assert normal == ["normal", "normal"]
    assert both == ["normal", "normal", "high"]


async def test_no_more_go_than_the_channel_allows() -> None:
    story = round_of("takes", rates=(Rate(3, 60.0), Rate(4, 3600.0)))

    async with at_work(story.worker):
        story.put(*"abcdef")
        counts = []
        for wait_s in (0, 59, 2, 60, 3600 - 121, 2):
            await story.later(wait_s)
            counts.append(len(story.tried()))

    assert counts == [3, 3, 4, 4, 6, 6]


async def test_a_tenth_of_what_the_channel_allows_is_left_to_what_is_urgent() -> None:
    story = round_of("takes", rates=(Rate(20, 60.0),))

    async with at_work(story.worker):
        story.put(*map(str, range(25)))
        await story.rest()
        normal = len(story.tried())
        story.put("x", "y", "z", urgency="high")
        await story.rest()

    assert normal == 18
    assert story.tried()[18:] == ["x", "y"]


async def test_who_had_enough_for_now_holds_up_nobody_else() -> None:
    story = round_of("takes", recipient_rates=(Rate(1, 60.0),))

    async with at_work(story.worker):
        story.put("a1", "a2", "a3", to="alice")
        story.put("b1", to="bob")
        await story.rest()
        at_once = story.tried()
        story.put("a4", to="alice", urgency="high")
        await story.rest()
        await story.later(59)
        urgent = story.tried()[2:]
        await story.later(2)

    assert at_once == ["a1", "b1"]
    assert urgent == ["a4"]
    assert story.tried()[3:] == ["a2"]
