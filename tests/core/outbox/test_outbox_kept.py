"""What is kept, for how long, and what a reload changes."""

import pytest

from safetyd.core.events.notification_events import Due
from safetyd.core.events.request_events import Cancelled, Deferred
from safetyd.core.outbox import deliveries, reminders
from safetyd.core.recipients import Recipient, TellingConfig
from tests.core.outbox.outbox_story import (
    BOTH,
    DAY,
    HOUR,
    MINUTE,
    MORNING,
    NIGHT,
    OutboxStory,
    alice,
    announced,
    channels,
    config,
    kinds,
    refs,
)
from tests.story import at, tick

BOB = Recipient(name="bob", channels=("phone",))


def test_closed_messages_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "MAX_CLOSED", 2)
    story = OutboxStory()
    (under_way,) = story.asked(0, "p0", urgency="high")
    for n in range(1, 5):
        story.tells(n, *story.dues(announced(n, f"note_{n}")))

    kept = [[item.ref for item in delivery.items] for delivery in story.outbox.deliveries()]

    assert kept == [["note_4"], ["note_3"], refs(under_way)]


def test_of_a_closed_message_not_everything_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "MAX_ITEMS", 2)
    story = OutboxStory()
    asked = [story.asks(n, f"p{n}", f"a{n}") for n in range(3)]
    (due,) = story.tells_at(62)

    found = [story.outbox.told(ref) for ref in asked]

    assert [len(each) for each in found] == [1, 1, 0]
    assert story.outbox.find(due.delivery) in found[0]


def large(monkeypatch: pytest.MonkeyPatch) -> tuple[OutboxStory, list[str], Due]:
    """Return a message of more than is kept of one that is over, and what it tells of."""
    monkeypatch.setattr(deliveries, "MAX_ITEMS", 2)
    story = OutboxStory()
    asked = [story.asks(n / 10, f"p{n}", f"a{n % 2}") for n in range(30)]
    (due,) = story.ticks(63)
    return story, asked, due


def test_all_that_a_large_message_tells_of_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    story, _, due = large(monkeypatch)

    story.tells(64, due)

    assert story.outbox.unnotified(at(HOUR)) == 0


def test_all_of_a_large_message_waits_for_the_morning(monkeypatch: pytest.MonkeyPatch) -> None:
    story, asked, due = large(monkeypatch)

    story.fails(64, due, "quiet")

    assert [each[:3] for each in story.waiting()] == [("alice", "mail", len(asked))]
    (again,) = story.ticks(10 * MINUTE)
    assert len(again.items) + again.more == len(asked)


def test_all_of_a_large_message_that_is_given_up_was_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story, asked, due = large(monkeypatch)

    story.fails(64, due)

    assert all(story.outbox.undeliverable(ref) for ref in asked)


def test_an_item_of_two_messages_is_found_by_the_one_that_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deliveries, "MAX_CLOSED", 1)
    story = OutboxStory(config(BOTH))
    story.asks(0)
    mail, phone = story.ticks(60)
    story.tells(61, mail, phone)

    (left,) = story.outbox.told(refs(mail)[0])

    assert left.id == phone.delivery


def test_what_waits_on_a_channel_that_is_gone_is_dropped() -> None:
    story = OutboxStory(config(BOTH))
    story.asks(0, "p1")
    mail, phone = story.ticks(60)
    story.happens(announced(61, "note_x", "alert"))

    reloaded = story.restored(config(recipients=(alice(),)))

    found = reloaded.outbox.find(phone.delivery)
    assert found is not None
    assert (found.state, channels([mail])) == ("cancelled", ["mail"])
    assert [delivery.id for delivery in reloaded.outbox.open()] == [mail.delivery]
    assert [each[:3] for each in reloaded.waiting()] == [("alice", "mail", 1)]


def test_a_note_that_waits_for_nobody_any_more_is_forgotten_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deliveries, "MAX_PAST", 1)
    story = OutboxStory(config(BOTH))
    story.happens(announced(0, "note_1", "alert", channels=("phone",)))
    story.happens(announced(1, "note_2", "alert", channels=("phone",)))

    reloaded = story.restored(config(recipients=(alice(),)))

    assert reloaded.outbox.note("note_1") is None
    assert reloaded.outbox.note("note_2") is not None


def test_a_report_from_a_channel_that_is_gone_changes_nothing_else() -> None:
    story = OutboxStory(config(BOTH))
    story.asks(0)
    mail, phone = story.ticks(60)
    story.tells(61, mail, phone)
    reloaded = story.restored(config(recipients=(alice(),)))

    assert reloaded.tells(62, phone, state="delivered") == []
    found = reloaded.outbox.find(phone.delivery)
    assert found is not None
    assert found.state == "delivered"


def test_who_can_be_told_now_hears_what_nobody_knew() -> None:
    story = OutboxStory(TellingConfig())
    unknown = story.asks(0, "p1")

    reloaded = story.restored(config(BOTH))

    (mail, phone) = reloaded.ticks(MINUTE)
    assert refs(mail) == refs(phone) == [unknown]
    assert reloaded.outbox.unnotified(at(HOUR)) == 1


def test_who_can_be_told_now_hears_nothing_that_others_know_or_will_know() -> None:
    story = OutboxStory(config(min_urgency="normal"))
    story.asks(0, "calm", urgency="low")
    story.asks(0, "told")
    story.tells_at(60)
    put_off = story.asks(61, "put_off")
    story.happens(Deferred(at=at(62), t=62.0, request_id=put_off, by="bob", until=at(DAY)))
    under_way = story.asks(63, "under_way")
    story.ticks(123)
    waits = story.asks(124, "waits")

    reloaded = story.restored(
        config(BOTH, recipients=(alice(), BOB), min_urgency="normal", batch_interval_s=30.0)
    )
    dues = reloaded.ticks(200)

    assert dues == []
    assert [each[:3] for each in reloaded.waiting()] == [("alice", "mail", 1)]
    assert under_way != waits


def test_what_lost_its_only_channel_is_told_on_a_new_one() -> None:
    story = OutboxStory()
    ref = story.asks(0)

    reloaded = story.restored(config({"phone": "sms"}))

    (due,) = reloaded.ticks(1)
    assert (due.channel, refs(due)) == ("phone", [ref])


def test_an_end_that_is_told_twice_ends_nothing_else() -> None:
    story = OutboxStory()
    ref = story.asks(0)
    story.happens(Cancelled(at=at(1), t=1.0, request_id="req_unknown", by="bob", via="cli"))
    assert len(story.ticks(60)) == 1

    story.happens(Cancelled(at=at(61), t=61.0, request_id=ref, by="bob", via="cli"))

    assert len(list(story.outbox.deliveries())) == 1


def test_what_the_queue_does_not_take_for_an_end_is_none() -> None:
    story = OutboxStory()
    ref = story.asks(0)

    story.outbox.observe(Cancelled(at=at(1), t=1.0, request_id=ref, by="bob", via="cli"))

    assert len(story.ticks(60)) == 1


def test_there_is_an_end_to_what_is_told_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reminders, "MAX_LATE", 2)
    story = OutboxStory()
    for n in range(4):
        story.asks(NIGHT + n, f"p{n}", f"a{n}", wait=True, lasts=HOUR)
    story.happens(tick(NIGHT + 2 * HOUR))

    (due,) = story.ticks(MORNING + MINUTE)

    assert kinds([due]) == ["expired"] * 2


def test_what_expired_so_long_ago_that_nobody_remembers_is_not_shown() -> None:
    story = OutboxStory()
    story.asks(NIGHT, wait=True, lasts=HOUR)
    story.happens(tick(NIGHT + HOUR))
    for n in range(1_000):
        ref = story.asks(NIGHT + 2 * HOUR, f"p{n}", f"a{n}")
        story.answers(NIGHT + 2 * HOUR, ref, "denied")

    (due,) = story.ticks(MORNING + MINUTE)

    delivery = story.outbox.find(due.delivery)
    assert delivery is not None
    assert (kinds([due]), due.urgency, story.outbox.pending(delivery)) == (["expired"], "low", ())
