"""A week without mail: what comes after it is a few messages, and not a flood."""

from typing import Final

import pytest

from safetyd.core.events.notification_events import SHOWN, Due
from tests.core.outbox.outbox_story import DAY, MINUTE, OutboxStory, config
from tests.story import at
from tests.tracing import untraced

pytestmark = pytest.mark.large

MANY: Final = 10_000
AGENTS: Final = 500
WEEK: Final = 7 * DAY
STEP: Final = 10 * MINUTE


def asked_in_a_week(story: OutboxStory) -> list[Due]:
    """Let requests come all week long; return the messages that were due."""
    dues = list[Due]()
    steps = int(WEEK / STEP)
    asked = 0
    for step in range(steps):
        t = step * STEP
        while asked < MANY * (step + 1) / steps:
            dues += story.asked(t, f"p{asked}", f"a{asked % AGENTS}", lasts=30 * DAY)
            asked += 1
        dues += story.ticks(t + MINUTE)
    return dues


def told_for_a_day(story: OutboxStory, open_: list[Due]) -> list[Due]:
    """Let every message arrive within a second; return those that were due."""
    after = list[Due]()
    for second in range(int(DAY)):
        t = WEEK + second
        open_ = [*story.tells(t, *open_), *story.ticks(t)]
        after += open_
    return after


@pytest.mark.req("S3.37")
def test_after_a_week_without_mail_thousands_of_requests_come_in_a_few_messages() -> None:
    story = OutboxStory(config())

    with untraced():
        during = asked_in_a_week(story)
        after = told_for_a_day(story, during)

    assert len(during) == 1  # which was tried all the time
    assert story.approvals.pending_count() == MANY
    first = after[0]
    each = MANY // AGENTS
    assert (len(first.items), first.more) == (SHOWN, SHOWN * (each - 1))  # one of each agent
    assert first.left == MANY - len(during[0].items) - SHOWN * each
    print(f"{len(after)} messages in the day after, with all reminders of {MANY} open requests")
    assert len(after) < 60
    assert story.outbox.unnotified(at(WEEK + DAY)) == 0
