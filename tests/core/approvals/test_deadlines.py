"""Deadlines of requests: quiet hours of the recipient do not count."""

from datetime import datetime, timedelta

import pytest

from safetyd.core.approvals.request import ApprovalsConfig
from safetyd.core.policy import Policy
from safetyd.core.recipients import QuietHours, Recipient, TellingConfig
from tests.core.approvals.queue_story import QueueStory
from tests.story import at

ALICE = Recipient(name="alice", channels=("email",))
NEVER = QuietHours(start="00:00", end="00:00")


def deadline(
    *recipients: Recipient, config: ApprovalsConfig | None = None, **fields
) -> datetime | None:
    """Return the deadline of a request made at noon."""
    telling = TellingConfig(recipients=recipients, channels={"email": "email"})
    queue = QueueStory(Policy(approvals=config or ApprovalsConfig(), telling=telling))
    asked = queue.asks(0, **fields)
    return queue.request(asked.request_id).deadline


def test_without_recipients_quiet_hours_count() -> None:
    assert deadline() == at(0) + timedelta(days=7)
    assert deadline(Recipient(name="nobody", channels=())) == at(0) + timedelta(days=7)


@pytest.mark.req("S3.38")
def test_a_queued_request_has_seven_days_without_quiet_hours() -> None:
    # 11 h of the first day, 9 times 16 h, and 13 h of the last from 07:00 on.
    assert deadline(ALICE) == at(0) + timedelta(days=10, hours=8)


def test_a_waiting_agent_has_an_hour_including_quiet_hours() -> None:
    night = QuietHours(start="12:30", end="20:00")
    bob = Recipient(name="bob", channels=("email",), quiet=night)

    assert deadline(bob, wait=True) == at(0) + timedelta(hours=1)


def test_what_the_asker_wishes_is_counted_by_day_and_night() -> None:
    assert deadline(ALICE, timeout_s=86_400.0) == at(0) + timedelta(days=1)


def test_what_is_given_no_deadline_gets_the_longest() -> None:
    for fields in ({}, {"wait": True}):
        off = ApprovalsConfig(queued_timeout_minutes=0, timeout_minutes=0)
        assert deadline(ALICE, config=off, **fields) == at(0) + timedelta(days=30)
    assert deadline(ALICE, timeout_s=0.0) == at(0) + timedelta(days=30)


def test_the_quiet_hours_of_the_first_recipient_count() -> None:
    others = Recipient(name="bob", channels=("email",), agents=("web-*",), quiet=NEVER)
    sleepless = Recipient(name="carol", channels=("email",), quiet=NEVER)

    assert deadline(others, ALICE, sleepless) == at(0) + timedelta(days=10, hours=8)
    assert deadline(others, sleepless, ALICE) == at(0) + timedelta(days=7)
    assert deadline(others, ALICE, agent="web-1") == at(0) + timedelta(days=7)


def test_a_deadline_stays_when_quiet_hours_change() -> None:
    queue = QueueStory(Policy(telling=TellingConfig(recipients=(ALICE,))))
    asked = queue.asks(0)
    before = queue.request(asked.request_id).deadline

    queue.engine._reconfigure(Policy())

    assert queue.request(asked.request_id).deadline == before


def test_a_deadline_is_the_same_after_a_replay() -> None:
    queue = QueueStory(Policy(telling=TellingConfig(recipients=(ALICE,))))
    asked = queue.asks(0)

    replayed = queue.replayed().approvals.find(asked.request_id or "")

    assert replayed == queue.request(asked.request_id)
