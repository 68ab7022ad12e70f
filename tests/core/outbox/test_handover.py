"""People who go on duty are notified once, with everything that is pending."""

import pytest

from safetyd.core.events.notification_events import Due
from safetyd.core.rota import RotaPolicy
from tests.core.outbox.outbox_story import DAY, HOUR, MORNING, OutboxStory, kinds
from tests.core.outbox.test_audience import BORIS, CAROL, ROTA, URGENT_ONLY, asked, on_call
from tests.core.outbox.test_pace import person, sent
from tests.story import tick

EVENING, AT_TWO = 6 * HOUR, 14 * HOUR


def handed(story: OutboxStory, t: float) -> list[Due]:
    """Let the shift change, and return what its next person gets soon."""
    return [*story.tells_at(t), *sent(story, t + 1, t + 120, 5)]


@pytest.mark.req("S3.38")
def test_whoever_goes_on_duty_gets_one_message_with_the_urgent_requests() -> None:
    story = on_call()
    asked(story, 13 * HOUR, urgency="high")

    (due,) = [due for due in handed(story, AT_TWO) if due.recipient == "boris"]

    assert kinds([due]) in (["request", "alert"], ["alert", "request"])
    note = next(story.outbox.note(item.ref) for item in due.items if item.kind == "alert")
    assert note is not None
    assert note.title == "boris is on call until Mon 10:00"


def test_without_urgent_requests_nobody_is_woken_by_a_handover() -> None:
    story = on_call()
    assert handed(story, AT_TWO) == []

    assert [due.recipient for due in sent(story, MORNING, MORNING + 60, 5)] == ["boris"]


def test_by_day_a_handover_is_sent_soon_with_normal_requests() -> None:
    awake = person("ana", "phone", "mail", uses=URGENT_ONLY)
    story = on_call(awake, BORIS, CAROL)
    story.asks(0, "p1", lasts=5 * DAY)
    sent(story, 1, HOUR, 60)

    found = [due for due in handed(story, EVENING) if due.recipient == "ana"]

    assert sum("alert" in kinds([due]) for due in found) == 1


def test_a_handover_that_was_not_sent_ends_with_the_shift() -> None:
    story = on_call()
    handed(story, AT_TWO)
    story.happens(tick(22 * HOUR))  # the shift of boris ends at 10:00, before anything was sent

    assert all("alert" not in kinds([due]) for due in sent(story, 22 * HOUR, 23 * HOUR, 60))


def test_handovers_can_be_switched_off() -> None:
    story = on_call(rota=RotaPolicy(shifts=ROTA.shifts, handover=False))
    asked(story, 13 * HOUR, urgency="high")

    assert "alert" not in kinds(handed(story, AT_TWO))


def test_the_first_duty_is_no_handover_and_a_restart_repeats_none() -> None:
    story = on_call()
    caused = story.happens(tick(EVENING))
    assert len(caused) == 1

    assert story.restored().happens(tick(EVENING + 1)) == []
    assert story.replayed().state() == story.state() == story.restored().state()


def test_people_who_are_no_recipients_are_left_out() -> None:
    story = on_call(CAROL)
    story.asks(0, urgency="high", lasts=5 * DAY)

    assert all(due.recipient == "carol" for due in handed(story, AT_TWO))
