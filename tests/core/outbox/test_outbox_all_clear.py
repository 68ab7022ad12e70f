"""What is over: it is told no more, and who was told of it hears that."""

import msgspec
import pytest

from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import AnomalyFound, BudgetMarked, Resumed, Stopped
from safetyd.core.events.notification_events import Due, NotTold
from safetyd.core.outbox import deliveries
from safetyd.core.recipients import Recipient, TellingConfig
from tests.core.outbox.outbox_story import (
    ALL,
    BOTH,
    HOUR,
    MINUTE,
    OutboxStory,
    alice,
    announced,
    channels,
    config,
    moved,
    refs,
)
from tests.story import at, resume, stop, tick

FILE = "file:/srv/EMERGENCY_STOP"


def titles(story: OutboxStory, dues: list[Due]) -> list[str]:
    notes = [story.outbox.note(ref) for due in dues for ref in refs(due)]
    return [note.title for note in notes if note is not None]


def texts(story: OutboxStory, dues: list[Due]) -> list[str]:
    notes = [story.outbox.note(ref) for due in dues for ref in refs(due)]
    return [note.text for note in notes if note is not None]


def resumed(t: float, *sources: str, by: str = "bob", reason: str = "", epoch: int = 9) -> Resumed:
    return Resumed(at=at(t), t=float(t), sources=sources, by=by, reason=reason, epoch=epoch)


def critical(t: float, rule: str = "loop") -> list[Event]:
    """Return a finding and the stop that it causes."""
    found = AnomalyFound(
        at=at(t), t=float(t), rule=rule, severity="critical", message="odd", agent="code"
    )
    return [found, stop(t, "anomaly", epoch=int(t) + 1)]


def failed(t: float, due: Due, state: str = "dead") -> NotTold:
    fields = {"delivery": due.delivery, "channel": due.channel, "state": state}
    return NotTold(at=at(t), t=float(t), **fields)  # type: ignore[arg-type]


def marked(t: float, mark: str, scope: str = "chain") -> BudgetMarked:
    amounts = {"spent": 9.0, "reserved": 0.0, "limit": 10.0, "estimate": 2.0}
    fields = {"mark": mark, "scope": scope, "id": "x1", **amounts}
    return BudgetMarked(at=at(t), t=float(t), **fields)  # type: ignore[arg-type]


def would_tell(story: OutboxStory, due: Due) -> int:
    delivery = story.outbox.find(due.delivery)
    assert delivery is not None
    return len(story.outbox.pending(delivery))


def test_a_stop_and_the_file_that_it_writes_are_one_message() -> None:
    story = OutboxStory()

    dues = story.dues(stop(0), stop(0.2, FILE, epoch=2))

    assert titles(story, dues) == ["STOPPED by alice: drill"]


def test_who_was_told_of_a_stop_hears_that_it_is_over_on_the_same_channels() -> None:
    story = OutboxStory(config(ALL))
    story.tells(1, *story.dues(stop(0), stop(0.2, FILE, epoch=2)))

    assert story.dues(resumed(10, "operator", reason="all well")) == []
    assert story.dues(resumed(11, FILE, by="file", reason="it was removed")) == []
    dues = story.ticks(71)

    assert set(titles(story, dues)) == {"RESUMED by bob: all well"}
    assert set(texts(story, dues)) == {"Agents may act again, as far as the rules permit it."}
    assert sorted(channels(dues)) == sorted(ALL)
    assert {due.urgency for due in dues} == {"normal"}


def test_a_resume_is_told_at_night_like_a_stop_and_names_the_agent_that_stays_stopped() -> None:
    story = OutboxStory()
    story.tells(1, *story.dues(stop(0), stop(0.2, agent="ops", epoch=2)))
    all_others = msgspec.structs.replace(resumed(10, "operator"), urgent=True)
    (told,) = story.dues(all_others)
    ops = msgspec.structs.replace(resumed(80, "operator"), agent="ops", urgent=True)
    (told_later,) = story.dues(ops)

    assert (told.urgency, told_later.urgency) == ("high", "high")
    assert texts(story, [told])[0].startswith("Agents except ops may act again")
    assert titles(story, [told_later]) == ["RESUMED ops by bob"]


def test_a_stop_by_a_file_alone_is_ended_by_the_file() -> None:
    story = OutboxStory()
    story.tells(1, *story.dues(stop(0, FILE)))
    story.happens(resumed(10, FILE, by="file", reason="it was removed"))

    assert titles(story, story.ticks(70)) == ["RESUMED by file: it was removed"]


def test_a_stop_after_a_resume_is_told_again_and_the_all_clear_is_not() -> None:
    story = OutboxStory()
    story.tells(1, *story.dues(stop(0)))
    story.happens(resume(10))

    again = story.dues(stop(20, epoch=3))

    assert titles(story, again) == ["STOPPED by alice: drill"]
    assert story.ticks(HOUR) == []


def test_a_stop_is_not_over_while_another_holds() -> None:
    story = OutboxStory()
    story.tells(1, *story.dues(stop(0)))
    fire = Stopped(at=at(2), t=2.0, source=FILE, by="file", reason="fire", epoch=2)
    story.tells(3, *story.dues(fire))

    story.happens(resumed(10, "operator", "environment"))
    assert story.ticks(5 * MINUTE) == []
    story.happens(resumed(HOUR, FILE, by="file"))

    assert titles(story, story.ticks(HOUR + 60)) == ["RESUMED by bob"]


def test_a_stop_that_is_newer_than_a_resume_holds() -> None:
    story = OutboxStory()
    story.tells(1, *story.dues(stop(0, epoch=5)))

    story.happens(resumed(10, "operator", epoch=4))

    assert story.ticks(HOUR) == []


def test_a_stop_that_took_the_place_of_another_ends_both() -> None:
    story = OutboxStory()
    story.tells(1, *story.dues(stop(0)))
    fire = Stopped(at=at(2), t=2.0, source="operator", by="bob", reason="fire", epoch=2)
    story.tells(3, *story.dues(fire))
    story.happens(resumed(10, "operator"))

    assert len(story.ticks(70)) == 1
    assert titles(story, story.dues(stop(80, epoch=10))) == ["STOPPED by alice: drill"]


def test_that_one_agent_is_resumed_does_not_say_that_it_may_act_while_all_are_stopped() -> None:
    story = OutboxStory()
    story.tells(1, *story.dues(stop(0, agent="code"), stop(1, epoch=2)))
    story.happens(resume(10, agent="code", epoch=3))

    assert texts(story, story.ticks(70)) == ["code may not act yet: all agents are stopped."]


def test_a_stop_that_nobody_was_told_of_is_not_told_once_it_is_over() -> None:
    story = OutboxStory()
    story.happens(moved(0, "mail"))
    (due,) = story.dues(stop(1))

    story.happens(resume(2))

    assert would_tell(story, due) == 0
    assert story.ticks(HOUR) == []


def test_a_stop_that_still_waits_for_somebody_is_not_told_once_it_is_over() -> None:
    people = tuple(Recipient(name=f"r{n}", channels=("mail",)) for n in range(70))
    story = OutboxStory(config(recipients=people))
    assert len(story.dues(stop(0))) == 64
    assert len(story.waiting()) == 6

    story.happens(resume(1))

    assert story.ticks(2) == []
    assert set(titles(story, story.ticks(61))) == {"RESUMED by alice"}


def test_of_a_stop_that_is_just_being_told_the_end_is_told_as_well() -> None:
    story = OutboxStory()
    story.happens(stop(0), resume(0.5))

    assert titles(story, story.ticks(61)) == ["RESUMED by alice"]


def test_a_stop_of_long_ago_has_an_end_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "MAX_PAST", 1)
    story = OutboxStory()
    story.tells(1, *story.dues(stop(0)))
    story.tells(2, *story.dues(announced(2)))
    story.happens(resume(3))

    assert titles(story, story.ticks(63)) == ["RESUMED by alice"]


def test_with_nobody_to_tell_stops_come_and_go() -> None:
    story = OutboxStory(TellingConfig())

    assert story.dues(stop(0), resume(1), resume(2), moved(3, "mail", up=True)) == []


def test_who_can_be_told_only_since_the_stop_hears_nothing_of_its_end() -> None:
    story = OutboxStory(TellingConfig())
    story.happens(stop(0))
    told = story.restored(config())

    told.happens(resume(1))

    assert told.ticks(HOUR) == []


def test_a_critical_finding_after_a_resume_is_told_again() -> None:
    story = OutboxStory()
    story.tells(1, *story.dues(*critical(0)))
    assert story.dues(*critical(2)) == []
    story.happens(resumed(10, "anomaly"))
    assert titles(story, story.tells_at(70)) == ["RESUMED by bob"]

    assert titles(story, story.dues(*critical(80))) == ["CRITICAL: odd"]


def test_two_critical_findings_are_over_together() -> None:
    story = OutboxStory()
    story.tells(1, *story.dues(*critical(0), *critical(1, "flood")))
    story.happens(resumed(10, "anomaly"))

    assert len(story.ticks(70)) == 1
    assert len(story.dues(*critical(80))) == len(story.dues(*critical(81, "flood"))) == 1


@pytest.mark.req("S2.34", "K4")
def test_a_stop_passes_the_limit_of_urgent_messages_and_goes_by_itself() -> None:
    story = OutboxStory(config(BOTH))
    for n in range(6):
        story.happens(announced(n, f"note_{n}", "alert", urgency="high"))

    dues = [*story.dues(stop(6)), *story.dues(*critical(7))]

    assert channels(dues) == ["mail", "phone"] * 2
    assert titles(story, dues) == ["STOPPED by alice: drill"] * 2 + ["CRITICAL: odd"] * 2
    assert [each[2] for each in story.waiting()] == [3, 3]
    assert story.replayed().state() == story.state()


def test_a_message_whose_note_is_over_before_it_goes_out_leaves_no_trace_in_its_queue() -> None:
    story = OutboxStory()
    (due,) = story.outbox.observe(stop(0))
    story.outbox.observe(resume(0))
    assert isinstance(due, Due)

    story.outbox.observe(due)

    assert would_tell(story, due) == 0


def test_a_test_that_is_forgotten_before_it_goes_out_holds_up_nothing() -> None:
    story = OutboxStory()
    test = announced(0)
    (due,) = story.outbox.observe(test)
    story.outbox._queues.drop(test.note.id)
    story.outbox.observe(due)
    story.asks(0)

    assert len(story.ticks(60)) == 1


def test_urgent_messages_far_apart_are_not_too_many() -> None:
    story = OutboxStory()
    for n in range(6):
        t = n * 21 * MINUTE
        dues = story.asked(t, f"p{n}", "a", urgency="high", inferred=True)
        assert len(dues) == 1
        story.tells(t, *dues)


def test_who_was_told_of_an_outage_hears_on_the_others_that_it_is_over() -> None:
    patient = alice(BOTH, patience_s=())
    story = OutboxStory(config(BOTH, recipients=(patient,)))
    down = story.dues(moved(0, "mail"))
    story.tells(1, *down)
    before = story.outbox.down

    story.happens(moved(30, "mail", up=True))
    up = story.ticks(90)

    assert (before, story.outbox.down) == (("mail",), ())
    assert titles(story, down) == ["CHANNEL DOWN: mail takes no messages"]
    assert titles(story, up) == ["CHANNEL UP: mail takes messages again"]
    assert (channels(up), up[0].urgency) == (["phone"], "normal")


def test_an_outage_soon_after_another_is_told_and_that_it_was_over_is_not() -> None:
    story = OutboxStory(config(BOTH))
    story.tells(1, *story.dues(moved(0, "mail")))
    story.happens(moved(30, "mail", up=True))

    again = story.dues(moved(40, "mail"))

    assert titles(story, again) == ["CHANNEL DOWN: mail takes no messages"]
    assert story.ticks(HOUR) == []


def test_an_outage_that_nobody_was_told_of_is_not_told_once_it_is_over() -> None:
    story = OutboxStory(config(BOTH))
    story.happens(moved(0, "phone"))
    (due,) = story.dues(moved(1, "mail"))

    story.happens(moved(2, "mail", up=True))

    assert would_tell(story, due) == 0
    assert story.ticks(HOUR) == []


def test_of_one_channel_alone_nobody_hears_that_it_was_down_or_is_up() -> None:
    story = OutboxStory()

    assert story.dues(moved(0, "mail"), moved(1, "mail", up=True), tick(HOUR)) == []


@pytest.mark.parametrize("state", ["dead", "undelivered", "parked"])
def test_an_alarm_about_a_channel_that_fails_itself_is_no_alarm(state: str) -> None:
    story = OutboxStory(config(BOTH))
    (about_mail,) = story.dues(moved(0, "mail"))
    (about_phone,) = story.dues(moved(1, "phone"))

    assert story.dues(failed(2, about_mail, state), failed(3, about_phone, state)) == []


def test_what_is_given_up_in_an_outage_that_is_known_is_no_news() -> None:
    story = OutboxStory(config(BOTH))
    story.asks(0)
    mail, phone = story.ticks(60)
    story.tells(61, phone)
    story.tells(62, *story.dues(moved(62, "mail")))

    assert story.dues(failed(HOUR, mail)) == []


def test_a_message_that_nobody_knows_any_more_is_lost_as_well() -> None:
    story = OutboxStory(config(BOTH))
    (due,) = story.dues(announced(0, channels=("mail",)))
    fields = {"delivery": "dlv_unknown", "channel": due.channel, "state": "dead"}

    dues = story.dues(NotTold(at=at(1), t=1.0, **fields))  # type: ignore[arg-type]

    assert titles(story, dues) == ["NOT TOLD: mail did not deliver a message"]


def test_a_message_lost_soon_after_an_outage_is_told() -> None:
    story = OutboxStory(config(BOTH))
    first, second = (story.dues(announced(n, f"note_{n}", channels=("mail",)))[0] for n in range(2))
    assert len(story.dues(failed(2, first))) == 1
    story.happens(moved(3, "mail", up=True))

    assert len(story.dues(failed(4, second))) == 1


@pytest.mark.parametrize("marks", [("warning", "exceeded"), ("exceeded", "warning")])
def test_a_budget_that_warns_and_is_exceeded_at_once_is_told_once(marks: tuple[str, str]) -> None:
    story = OutboxStory()
    story.happens(*(marked(0, mark) for mark in marks))

    (title,) = titles(story, story.ticks(60))

    assert title.startswith("EXCEEDED")


def test_a_session_that_is_exceeded_is_told_by_its_request_and_not_by_a_warning() -> None:
    story = OutboxStory()
    story.happens(marked(0, "warning", "session"), marked(1, "exceeded", "session"))

    assert story.ticks(60) == []


def test_a_budget_that_warned_and_is_exceeded_later_is_told_twice() -> None:
    story = OutboxStory()
    story.happens(marked(0, "warning"))
    warning = story.tells_at(60)
    story.happens(marked(61, "exceeded"))
    exceeded = story.ticks(121)

    assert [len(warning), len(exceeded)] == [1, 1]
    assert titles(story, exceeded)[0].startswith("EXCEEDED")
