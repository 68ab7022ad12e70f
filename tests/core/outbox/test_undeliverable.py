"""What an agent hears when nobody could be told of its request."""

from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import Due, NotTold
from safetyd.core.policy import Policy
from safetyd.core.recipients import Recipient, TellingConfig
from tests.core.approvals.queue_story import QueueStory
from tests.story import at

TOLD = TellingConfig(
    recipients=(Recipient(name="alice", channels=("email",)),),
    channels={"email": "email"},
    batch_interval_s=0.0,
)


def refused(due: Event) -> NotTold:
    assert isinstance(due, Due)
    return NotTold(
        at=at(1), t=1.0, delivery=due.delivery, channel=due.channel, state="dead", error="no"
    )


def test_who_asks_again_hears_that_nobody_could_be_told_and_the_request_stays_open() -> None:
    queue = QueueStory(Policy(telling=TOLD))
    first = queue.asks(0, "p1")
    told = queue.asks(1, "p1")
    due = next(event for event in queue.journal if isinstance(event, Due))

    queue.happens(refused(due))
    again = queue.asks(2, "p1")

    assert (first.cause, told.cause, again.cause) == ("policy", "policy", "undeliverable")
    assert (again.status, again.request_id) == ("pending", first.request_id)
    assert queue.request(first.request_id).pending
