"""Alerts, summaries of sessions and tests."""

from datetime import timedelta

import msgspec
import pytest

from safetyd.core.events.decision_events import Transcribed
from safetyd.core.events.guard_events import AnomalyFound, SafeModeEntered
from safetyd.core.events.notification_events import Due, Note
from safetyd.core.messages.transcript import Entry, Transcript, Usage
from safetyd.core.messages.verdict import ALLOW, BLOCK, Verdict
from safetyd.core.outbox import alerts, deliveries
from safetyd.core.recipients import Recipient
from tests.core.outbox.outbox_story import (
    ALL,
    BOTH,
    HOUR,
    MAIL,
    MINUTE,
    MORNING,
    NIGHT,
    OutboxStory,
    alice,
    announced,
    channels,
    config,
    decided,
    kinds,
    refs,
)
from tests.story import at, stop, tick


def found(
    t: float, severity: str = "high", rule: str = "loop", agent: str = "code"
) -> AnomalyFound:
    fields = {"rule": rule, "severity": severity, "message": "odd", "agent": agent}
    return AnomalyFound(at=at(t), t=float(t), **fields)  # type: ignore[arg-type]


def transcribed(
    t: float, pending: int = 0, description: str = "tests", **fields: object
) -> Transcribed:
    transcript = Transcript(
        session_id="s1",
        agent="code",
        started_at=at(t) - timedelta(minutes=5),
        ended_at=at(t),
        why="ended",
        provider=None,
        model=None,
        token_usage=Usage(),
        actions=(Entry(type="run", description=description, status="done"),),
        left_out=0,
        pending_permissions=pending,
        scheduled_next=None,
        budget_remaining_percent=None,
    )
    return Transcribed(at=at(t), t=float(t), transcript=transcript)


def note_of(story: OutboxStory, due: Due) -> Note:
    note = story.outbox.note(refs(due)[0])
    assert note is not None
    return note


@pytest.mark.req("K4")
def test_a_stop_is_told_everywhere_at_once() -> None:
    story = OutboxStory(config(ALL))

    dues = story.dues(stop(0))

    assert sorted(channels(dues)) == sorted(ALL)
    assert {due.urgency for due in dues} == {"high"}
    assert dues[0].expires == at(7 * 24 * HOUR)


def test_an_operator_says_how_long_medium_findings_wait_for_others() -> None:
    story = OutboxStory(config({"room": "chat"}, alert_batch_s=30.0))

    assert story.dues(found(0, "medium"), tick(29)) == []
    assert channels(story.dues(tick(30))) == ["room"]


def test_a_severe_finding_comes_by_mail_and_later_by_telephone() -> None:
    story = OutboxStory(config(ALL))

    first = story.dues(found(0))
    story.tells(1, *first)
    assert story.ticks(15 * MINUTE - 1) == []
    second = story.ticks(15 * MINUTE)

    assert (channels(first), channels(second)) == (["mail"], ["phone"])
    assert refs(first[0]) == refs(second[0])


def test_who_has_none_of_the_channels_hears_on_the_first() -> None:
    story = OutboxStory(config({"screen": "desktop"}))

    assert channels(story.dues(found(0))) == ["screen"]


def test_slight_findings_are_collected_for_the_chat() -> None:
    story = OutboxStory(config(ALL))
    story.happens(found(0, "medium"), found(60, "medium", agent="ops"))

    assert story.ticks(599) == []
    dues = story.ticks(600)

    assert sorted(channels(dues)) == ["hook", "room"]
    assert len(dues[0].items) == 2


def test_a_prohibited_proposal_is_told_and_what_is_allowed_is_not() -> None:
    story = OutboxStory()
    why = Verdict("classify", BLOCK, "classify.prohibited", "never", cause="prohibited")
    asked = decided(0, 1)
    blocked = msgspec.structs.replace(asked, decision=BLOCK, asks=None, verdicts=(why,))
    allowed = msgspec.structs.replace(asked, decision=ALLOW, asks=None, verdicts=())
    story.happens(allowed, blocked)

    (due,) = story.ticks(60)

    assert note_of(story, due).title == "PROHIBITED: code proposed push"


def test_an_alert_that_waits_is_counted() -> None:
    story = OutboxStory()
    quietly = [SafeModeEntered(at=at(n), t=float(n), by="bob", agent="code") for n in range(3)]
    story.happens(*quietly)

    (due,) = story.ticks(60)

    assert (len(due.items), note_of(story, due).count) == (1, 3)


def test_an_urgent_alert_that_was_told_is_not_told_again_for_an_hour() -> None:
    story = OutboxStory()
    story.tells(0, *story.dues(found(0)))

    assert story.dues(found(HOUR - 1)) == []
    assert len(story.dues(found(HOUR))) == 1


def test_any_other_alert_that_was_told_is_not_told_again_for_four_hours() -> None:
    story = OutboxStory(config(ALL))
    story.happens(found(0, "medium"))
    story.tells_at(10 * MINUTE)

    assert story.happens(found(4 * HOUR - 1, "medium"), tick(4 * HOUR + MINUTE))[1:] == []
    assert len(story.dues(found(4 * HOUR + 2 * MINUTE, "medium"), tick(5 * HOUR))) == 2


@pytest.mark.req("S3.36")
def test_alerts_below_the_least_urgency_are_counted() -> None:
    story = OutboxStory(config(ALL, min_urgency="normal"))
    story.happens(found(0, "medium"))
    story.asks(1)

    held = {due.channel: due.held_back for due in story.ticks(61)}

    assert held == {"mail": 0, "phone": 0, "screen": 0, "hook": 1, "room": 1}


def test_who_wants_no_alarm_at_night_gets_it_in_the_morning() -> None:
    story = OutboxStory(config(quiet_bypass="none"))

    assert story.dues(found(NIGHT)) == []
    (digest,) = story.ticks(MORNING + MINUTE)

    assert (digest.digest, digest.urgency) == (True, "normal")
    assert [due.urgency for due in story.dues(found(MORNING + HOUR))] == ["high"]


@pytest.mark.req("S3.42")
def test_a_summary_comes_with_the_next_batch() -> None:
    story = OutboxStory(config(ALL))
    story.happens(transcribed(0))

    dues = story.ticks(60)

    assert channels(dues) == ["mail", "hook", "room"]
    assert kinds(dues) == ["summary"] * 3
    note = note_of(story, dues[0])
    assert note.title == "Session s1 of code completed (5m)"
    assert "- tests" in note.text


@pytest.mark.req("S3.42")
@pytest.mark.parametrize(
    ("wanted", "pending", "count"),
    [("each", 0, 1), ("review", 0, 0), ("review", 2, 1), ("off", 2, 0)],
)
def test_summaries_are_told_as_they_are_wanted(wanted: str, pending: int, count: int) -> None:
    story = OutboxStory(config(summaries=wanted))
    story.happens(transcribed(0, pending))

    assert len(story.ticks(60)) == count


def test_a_summary_goes_to_nobody_without_a_channel_for_it() -> None:
    story = OutboxStory(config({"phone": "sms"}))
    (event,) = story.happens(transcribed(0))

    assert story.ticks(60) == []
    assert story.outbox.note(f"note_{event.seq}") is None


def test_more_than_six_summaries_in_an_hour_become_one_an_hour() -> None:
    story = OutboxStory()
    for n in range(6):
        story.happens(transcribed(n * 100))
        story.tells_at(n * 100 + 60)
    for n in range(6, 9):
        story.happens(transcribed(n * 100))

    assert story.ticks(600 + HOUR - 1) == []
    (due,) = story.ticks(600 + HOUR)

    assert len(due.items) == 3


def test_after_an_hour_a_summary_is_told_by_itself_again() -> None:
    story = OutboxStory()
    for n in range(6):
        story.happens(transcribed(n))
    story.tells_at(61)
    story.happens(transcribed(HOUR))

    assert len(story.ticks(HOUR + 60)) == 1


def test_of_long_words_a_summary_has_the_beginning() -> None:
    story = OutboxStory()
    story.happens(transcribed(0, description="x" * 9000))
    (due,) = story.ticks(60)

    assert len(note_of(story, due).text) < 300
    assert "xxx..." in note_of(story, due).text


def test_a_test_passes_batches_nights_and_what_is_under_way() -> None:
    bob = Recipient(name="bob", channels=("mail",))
    story = OutboxStory(config(BOTH, recipients=(alice(BOTH), bob), min_urgency="high"))

    dues = story.dues(announced(NIGHT), announced(NIGHT, "note_b"))

    assert len(dues) == 6
    assert [due.urgency for due in dues] == ["normal"] * 6
    assert len({due.delivery for due in dues}) == 6
    story.tells(NIGHT + 1, *dues)
    assert list(story.outbox.open()) == []


def test_a_test_is_for_the_channels_and_people_that_are_named() -> None:
    bob = Recipient(name="bob", channels=("mail",))
    story = OutboxStory(config(BOTH, recipients=(alice(BOTH), bob)))

    one = story.dues(announced(0, recipients=("alice",), channels=("phone",)))
    none = story.dues(announced(0, recipients=("nobody",)))

    assert [(due.recipient, due.channel) for due in one] == [("alice", "phone")]
    assert none == []


def test_what_else_is_announced_is_told_as_an_alert() -> None:
    story = OutboxStory()

    urgent = story.dues(announced(0, "note_1", "alert", urgency="high"))
    story.happens(announced(0, "note_2", "alert", urgency="low"))

    assert [due.urgency for due in urgent] == ["high"]
    assert [due.urgency for due in story.ticks(60)] == ["low"]


def test_more_than_64_messages_go_out_in_more_than_one_step() -> None:
    people = tuple(Recipient(name=f"r{n}", channels=("mail",)) for n in range(70))
    story = OutboxStory(config(recipients=people))

    assert len(story.dues(announced(0))) == 64
    assert len(story.ticks(1)) == 6


def test_notes_that_were_told_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "MAX_PAST", 2)
    story = OutboxStory()
    for n in range(4):
        story.tells(n, *story.dues(announced(n, f"note_{n}")))

    known = [n for n in range(4) if story.outbox.note(f"note_{n}")]

    assert known == [2, 3]


def test_a_note_is_kept_while_any_channel_still_has_to_tell_it() -> None:
    story = OutboxStory(config(BOTH))
    mail, phone = story.dues(announced(0))
    story.tells(1, mail)
    delivery = story.outbox.find(phone.delivery)
    assert delivery is not None

    assert story.outbox.pending(delivery) == phone.items


def test_there_is_an_end_to_notes_that_nobody_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "MAX_NOTES", 3)
    story = OutboxStory()
    for n in range(5):
        story.happens(announced(n, f"note_{n}", "alert"))

    (due,) = story.ticks(60)

    assert refs(due) == ["note_2", "note_3", "note_4"]


def test_of_a_message_whose_note_is_gone_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "MAX_NOTES", 1)
    story = OutboxStory()
    (due,) = story.dues(announced(0, "note_0"))
    story.happens(announced(1, "note_1"))
    delivery = story.outbox.find(due.delivery)
    assert delivery is not None

    assert story.outbox.pending(delivery) == ()


def test_there_is_an_end_to_alerts_that_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "MAX_ALERTS", 2)
    story = OutboxStory(config(MAIL))
    for n in range(3):
        story.tells(n, *story.dues(found(n, rule=f"r{n}", agent=f"a{n}")))

    assert len(story.dues(found(10, rule="r0", agent="a0"))) == 1
    assert story.dues(found(11, rule="r2", agent="a2")) == []
