"""Alerts, summaries of sessions and tests."""

from datetime import timedelta

import msgspec
import pytest

from safetyd.core.events.decision_events import Transcribed
from safetyd.core.events.guard_events import AnomalyFound, SafeModeEntered
from safetyd.core.events.notification_events import Due, Note
from safetyd.core.messages.transcript import Entry, Transcript, Usage
from safetyd.core.messages.verdict import ALLOW, BLOCK, Verdict
from safetyd.core.outbox import alerts as noting
from safetyd.core.outbox import deliveries
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


def note_of(post: OutboxStory, due: Due) -> Note:
    note = post.outbox.note(refs(due)[0])
    assert note is not None
    return note


@pytest.mark.req("K4")
def test_a_stop_is_told_everywhere_at_once() -> None:
    post = OutboxStory(config(ALL))

    dues = post.dues(stop(0))

    assert sorted(channels(dues)) == sorted(ALL)
    assert {due.urgency for due in dues} == {"high"}
    assert dues[0].expires == at(7 * 24 * HOUR)


def test_a_severe_finding_comes_by_mail_and_later_by_telephone() -> None:
    post = OutboxStory(config(ALL))

    first = post.dues(found(0))
    post.tells(1, *first)
    assert post.ticks(15 * MINUTE - 1) == []
    second = post.ticks(15 * MINUTE)

    assert (channels(first), channels(second)) == (["mail"], ["phone"])
    assert refs(first[0]) == refs(second[0])


def test_who_has_none_of_the_channels_hears_on_the_first() -> None:
    post = OutboxStory(config({"screen": "desktop"}))

    assert channels(post.dues(found(0))) == ["screen"]


def test_slight_findings_are_collected_for_the_chat() -> None:
    post = OutboxStory(config(ALL))
    post.happens(found(0, "medium"), found(60, "medium", agent="ops"))

    assert post.ticks(599) == []
    dues = post.ticks(600)

    assert sorted(channels(dues)) == ["hook", "room"]
    assert len(dues[0].items) == 2


def test_a_prohibited_proposal_is_told_and_what_is_allowed_is_not() -> None:
    post = OutboxStory()
    why = Verdict("classify", BLOCK, "classify.prohibited", "never", cause="prohibited")
    asked = decided(0, 1)
    blocked = msgspec.structs.replace(asked, decision=BLOCK, asks=None, verdicts=(why,))
    allowed = msgspec.structs.replace(asked, decision=ALLOW, asks=None, verdicts=())
    post.happens(allowed, blocked)

    (due,) = post.ticks(60)

    assert note_of(post, due).title == "PROHIBITED: code proposed push"


def test_what_is_no_alert_is_told_to_nobody() -> None:
    post = OutboxStory()

    assert post.dues(found(0, "low"), tick(HOUR)) == []


def test_an_alert_that_waits_is_counted() -> None:
    post = OutboxStory()
    quietly = [SafeModeEntered(at=at(n), t=float(n), by="bob", agent="code") for n in range(3)]
    post.happens(*quietly)

    (due,) = post.ticks(60)

    assert (len(due.items), note_of(post, due).count) == (1, 3)


def test_an_alert_that_was_told_is_not_told_again_for_ten_minutes() -> None:
    post = OutboxStory()
    post.tells(0, *post.dues(found(0)))

    assert post.dues(found(599)) == []
    assert len(post.dues(found(600))) == 1


@pytest.mark.req("S3.36")
def test_alerts_below_the_least_urgency_are_counted() -> None:
    post = OutboxStory(config(ALL, min_urgency="normal"))
    post.happens(found(0, "medium"))
    post.asks(1)

    held = {due.channel: due.held_back for due in post.ticks(61)}

    assert held == {"mail": 0, "phone": 0, "screen": 0, "hook": 1, "room": 1}


def test_who_wants_no_alarm_at_night_gets_it_in_the_morning() -> None:
    post = OutboxStory(config(quiet_bypass="none"))

    assert post.dues(found(NIGHT)) == []
    (digest,) = post.ticks(MORNING + MINUTE)

    assert (digest.digest, digest.urgency) == (True, "normal")
    assert [due.urgency for due in post.dues(found(MORNING + HOUR))] == ["high"]


@pytest.mark.req("S3.42")
def test_a_summary_comes_with_the_next_batch() -> None:
    post = OutboxStory(config(ALL))
    post.happens(transcribed(0))

    dues = post.ticks(60)

    assert channels(dues) == ["mail", "hook", "room"]
    assert kinds(dues) == ["summary"] * 3
    note = note_of(post, dues[0])
    assert note.title == "Session s1 of code completed (5m)"
    assert "- tests" in note.text


@pytest.mark.req("S3.42")
@pytest.mark.parametrize(
    ("wanted", "pending", "count"),
    [("each", 0, 1), ("review", 0, 0), ("review", 2, 1), ("off", 2, 0)],
)
def test_summaries_are_told_as_they_are_wanted(wanted: str, pending: int, count: int) -> None:
    post = OutboxStory(config(summaries=wanted))
    post.happens(transcribed(0, pending))

    assert len(post.ticks(60)) == count


def test_a_summary_goes_to_nobody_without_a_channel_for_it() -> None:
    post = OutboxStory(config({"phone": "sms"}))
    (event,) = post.happens(transcribed(0))

    assert post.ticks(60) == []
    assert post.outbox.note(f"note_{event.seq}") is None


def test_more_than_six_summaries_in_an_hour_become_one_an_hour() -> None:
    post = OutboxStory()
    for n in range(6):
        post.happens(transcribed(n * 100))
        post.tells_at(n * 100 + 60)
    for n in range(6, 9):
        post.happens(transcribed(n * 100))

    assert post.ticks(600 + HOUR - 1) == []
    (due,) = post.ticks(600 + HOUR)

    assert len(due.items) == 3


def test_after_an_hour_a_summary_is_told_by_itself_again() -> None:
    post = OutboxStory()
    for n in range(6):
        post.happens(transcribed(n))
    post.tells_at(61)
    post.happens(transcribed(HOUR))

    assert len(post.ticks(HOUR + 60)) == 1


def test_of_long_words_a_summary_has_the_beginning() -> None:
    post = OutboxStory()
    post.happens(transcribed(0, description="x" * 9000))
    (due,) = post.ticks(60)

    assert len(note_of(post, due).text) < 300
    assert "xxx..." in note_of(post, due).text


def test_a_test_passes_batches_nights_and_what_is_under_way() -> None:
    bob = Recipient(name="bob", channels=("mail",))
    post = OutboxStory(config(BOTH, recipients=(alice(BOTH), bob), min_urgency="high"))

    dues = post.dues(announced(NIGHT), announced(NIGHT, "note_b"))

    assert len(dues) == 6
    assert [due.urgency for due in dues] == ["normal"] * 6
    assert len({due.delivery for due in dues}) == 6
    post.tells(NIGHT + 1, *dues)
    assert list(post.outbox.open()) == []


def test_a_test_is_for_the_channels_and_people_that_are_named() -> None:
    bob = Recipient(name="bob", channels=("mail",))
    post = OutboxStory(config(BOTH, recipients=(alice(BOTH), bob)))

    one = post.dues(announced(0, recipients=("alice",), channels=("phone",)))
    none = post.dues(announced(0, recipients=("nobody",)))

    assert [(due.recipient, due.channel) for due in one] == [("alice", "phone")]
    assert none == []


def test_what_else_is_announced_is_told_as_an_alert() -> None:
    post = OutboxStory()

    urgent = post.dues(announced(0, "note_1", "alert", urgency="high"))
    post.happens(announced(0, "note_2", "alert", urgency="low"))

    assert [due.urgency for due in urgent] == ["high"]
    assert [due.urgency for due in post.ticks(60)] == ["low"]


def test_more_than_64_messages_go_out_in_more_than_one_step() -> None:
    people = tuple(Recipient(name=f"r{n}", channels=("mail",)) for n in range(70))
    post = OutboxStory(config(recipients=people))

    assert len(post.dues(announced(0))) == 64
    assert len(post.ticks(1)) == 6


def test_notes_that_were_told_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "MAX_PAST", 2)
    post = OutboxStory()
    for n in range(4):
        post.tells(n, *post.dues(announced(n, f"note_{n}")))

    known = [n for n in range(4) if post.outbox.note(f"note_{n}")]

    assert known == [2, 3]


def test_a_note_is_kept_while_any_channel_still_has_to_tell_it() -> None:
    post = OutboxStory(config(BOTH))
    mail, phone = post.dues(announced(0))
    post.tells(1, mail)
    delivery = post.outbox.find(phone.delivery)
    assert delivery is not None

    assert post.outbox.pending(delivery) == phone.items


def test_there_is_an_end_to_notes_that_nobody_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "MAX_NOTES", 3)
    post = OutboxStory()
    for n in range(5):
        post.happens(announced(n, f"note_{n}", "alert"))

    (due,) = post.ticks(60)

    assert refs(due) == ["note_2", "note_3", "note_4"]


def test_of_a_message_whose_note_is_gone_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "MAX_NOTES", 1)
    post = OutboxStory()
    (due,) = post.dues(announced(0, "note_0"))
    post.happens(announced(1, "note_1"))
    delivery = post.outbox.find(due.delivery)
    assert delivery is not None

    assert post.outbox.pending(delivery) == ()


def test_there_is_an_end_to_alerts_that_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noting, "MAX_ALERTS", 2)
    post = OutboxStory(config(MAIL))
    for n in range(3):
        post.tells(n, *post.dues(found(n, rule=f"r{n}")))

    assert len(post.dues(found(10, rule="r0"))) == 1
    assert post.dues(found(11, rule="r2")) == []
