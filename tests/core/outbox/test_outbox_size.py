"""Very many requests that wait: nothing that is done often grows with their number."""

from collections.abc import Callable
from typing import Final

import pytest

from tests.core.outbox.outbox_story import BOTH, DAY, OutboxStory, config, decided
from tests.cost import ratio
from tests.story import tick
from tests.tracing import untraced

pytestmark = pytest.mark.large

FEW: Final = 1_000
MANY: Final = 20_000
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

    assert ratio(lambda: many.happens(tick(3)), lambda: few.happens(tick(3)), rounds=20) < 5


def test_to_ask_and_to_answer_costs_about_the_same_for_many_as_for_few(many: OutboxStory) -> None:
    few = filled(FEW)

    assert ratio(asks_and_answers(many), asks_and_answers(few), rounds=20) < 5


def test_to_freeze_what_many_requests_wait_for_grows_no_faster_than_they_do(
    many: OutboxStory,
) -> None:
    few = filled(FEW)

    assert ratio(many.outbox.save, few.outbox.save) < 5 * MANY / FEW


def test_many_requests_of_few_agents_are_a_message_of_which_a_restart_knows(
    many: OutboxStory,
) -> None:
    dues = many.ticks(30 * DAY + 8 * 3600)

    # Of a hundred agents that asked twenty times each; there are a thousand.
    assert [(len(due.items), due.more, due.left) for due in dues] == [(100, 1900, 18_000)] * 2
    assert many.restored().outbox.save()() == many.outbox.save()()
