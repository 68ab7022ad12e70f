"""A hundred thousand requests that wait: nothing that is done often grows with their number."""

import time
from collections.abc import Callable
from typing import Final

import pytest

from tests.core.outbox.outbox_story import BOTH, DAY, OutboxStory, config, decided
from tests.story import tick
from tests.tracing import untraced

pytestmark = pytest.mark.alone

FEW: Final = 1_000
MANY: Final = 100_000
SOON_S: Final = 0.05
LATER: Final = config(BOTH, batch_interval_s=30 * DAY)


def filled(count: int) -> OutboxStory:
    """Return an outbox in which so many requests wait, of many agents."""
    story = OutboxStory(LATER)
    with untraced():
        for n in range(count):
            story.seq += 1
            event = decided(n / count, story.seq, f"p{n}", f"a{n % 1000}", lasts=None)
            story.approvals.observe(event)
            story.outbox.observe(event)
    return story


def fastest(act: Callable[[], object], times: int = 20) -> float:
    """Return how long it takes when nothing else happens on the machine."""
    took = []
    with untraced():
        for _ in range(times):
            begun = time.perf_counter()
            act()
            took.append(time.perf_counter() - begun)
    return min(took)


@pytest.fixture(scope="module")
def many() -> OutboxStory:
    return filled(MANY)


def asks_and_answers(story: OutboxStory) -> Callable[[], object]:
    def act() -> None:
        ref = story.asks(2.0, f"new{story.seq}", "new", lasts=None)
        story.answers(2.0, ref, "denied")

    return act


def test_a_tick_with_nothing_due_costs_the_same_for_many_as_for_few(many: OutboxStory) -> None:
    few = filled(FEW)

    ratio = fastest(lambda: many.happens(tick(3))) / fastest(lambda: few.happens(tick(3)))

    assert ratio < 5


def test_to_ask_and_to_answer_costs_about_the_same_for_many_as_for_few(many: OutboxStory) -> None:
    few = filled(FEW)

    ratio = fastest(asks_and_answers(many)) / fastest(asks_and_answers(few))

    assert ratio < 5


def test_many_requests_of_few_agents_are_a_message_of_which_a_restart_knows() -> None:
    story = filled(20_000)

    dues = story.ticks(30 * DAY + 8 * 3600)

    # Of twenty agents that asked twenty times each; there are a thousand.
    assert [(len(due.items), due.more, due.left) for due in dues] == [(20, 380, 19_600)] * 2
    assert story.restored().outbox.save()() == story.outbox.save()()


def test_to_freeze_what_many_requests_wait_for_takes_a_moment(many: OutboxStory) -> None:
    assert fastest(many.outbox.save, 3) < 10 * SOON_S
