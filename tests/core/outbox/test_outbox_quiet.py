"""What waits for the end of quiet hours, and what does not."""

import msgspec
import pytest

from safetyd.core.events.guard_events import Stopped
from safetyd.core.events.notification_events import Due, Item
from safetyd.core.outbox.delivery_queue import MAX_WOKEN, MAX_WOKEN_IN_ALL
from safetyd.core.recipients import Recipient
from tests.core.outbox.outbox_story import (
    AWAKE,
    BOTH,
    DAY,
    HOUR,
    MINUTE,
    MORNING,
    NIGHT,
    OutboxStory,
    alice,
    announced,
    config,
    decided,
    kinds,
    refs,
    requested,
    seconds,
)
from tests.story import at, stop, tick


def morning(post: OutboxStory) -> list[Due]:
    """Return what is due within the first minute after quiet hours."""
    return [due for second in range(61) for due in post.ticks(MORNING + second)]


@pytest.mark.req("S3.38", "S3.63", "K4")
def test_what_comes_at_night_is_one_digest_in_the_morning() -> None:
    post = OutboxStory()
    first, second = post.asks(NIGHT, "p1"), post.asks(NIGHT + 3 * HOUR, "p2", urgency="low")
    assert post.ticks(NIGHT + HOUR) == []
    assert post.ticks(MORNING - 1) == []

    (due,) = morning(post)

    assert (refs(due), due.digest) == ([first, second], True)
    assert MORNING <= seconds(due) <= MORNING + 30


def test_lanes_do_not_all_begin_at_the_same_second() -> None:
    people = tuple(Recipient(name=f"r{n}", channels=("mail",)) for n in range(20))
    post = OutboxStory(config(recipients=people))
    post.asks(NIGHT)

    begun = {seconds(due) for due in morning(post)}

    assert len(begun) > 5
    assert {seconds(due) for due in morning(post.replayed())} <= begun


def test_a_batch_that_would_go_out_at_night_waits() -> None:
    post = OutboxStory()
    post.asks(NIGHT - 30, "p1")

    assert post.ticks(NIGHT + 30) == []
    assert morning(post)[0].digest


def test_the_distance_to_the_last_batch_may_reach_into_the_night() -> None:
    post = OutboxStory(config(batch_mode="leading"))
    post.tells(NIGHT - 20, *post.asked(NIGHT - 20, "p1"))
    post.asks(NIGHT - 10, "p2")

    assert post.ticks(NIGHT + 40) == []
    assert morning(post)[0].digest


def test_when_the_last_hours_are_blocked_the_next_night_is_quiet_as_well() -> None:
    post = OutboxStory()
    post.asks(0, "p1", lasts=None)
    (first,) = post.ticks(60)
    post.asks(61, "p2", lasts=None)

    assert post.tells(NIGHT + HOUR, first) == []
    assert len(morning(post)) == 1


@pytest.mark.req("S3.38")
def test_what_its_agent_calls_urgent_is_told_at_night_three_times() -> None:
    post = OutboxStory()

    told = [post.asked(NIGHT + n, f"p{n}", urgency="high") for n in range(MAX_WOKEN + 1)]

    assert [len(dues) for dues in told] == [1, 1, 1, 0]
    other = post.asked(NIGHT + 10, "q", "ops", urgency="high")
    assert len(other) == 1
    (digest,) = morning(post)
    assert (digest.urgency, digest.digest) == ("normal", True)


def test_the_next_night_counts_anew() -> None:
    post = OutboxStory()
    for n in range(MAX_WOKEN + 1):
        post.tells(NIGHT + n, *post.asked(NIGHT + n, f"p{n}", urgency="high"))

    assert len(post.asked(NIGHT + DAY, "later", urgency="high")) == 1


def test_what_was_told_at_night_is_reminded_of_at_night() -> None:
    post = OutboxStory()
    first = [post.asked(NIGHT + n, f"p{n}", urgency="high", lasts=None) for n in range(4)]
    woken = [due for dues in first for due in dues]
    post.tells(NIGHT + 10, *woken)

    dues = post.ticks(NIGHT + 5 * MINUTE + 10)

    assert [refs(due) for due in dues] == [[ref for due in woken for ref in refs(due)]]
    assert kinds(dues) == ["reminder"] * 3


def test_an_urgency_that_nobody_declared_wakes_nobody() -> None:
    post = OutboxStory()

    assert post.asked(NIGHT, "p1", urgency="high", inferred=True) == []
    assert len(morning(post)) == 1
    assert len(post.asked(MORNING + HOUR, "p2", urgency="high", inferred=True)) == 1


def test_somebody_may_want_to_be_woken_by_nothing_but_a_stop() -> None:
    post = OutboxStory(config(quiet_bypass="none"))

    assert post.asked(NIGHT, "p1", urgency="high") == []
    assert len(post.dues(stop(NIGHT + 1))) == 1


def test_a_stop_is_told_at_night() -> None:
    post = OutboxStory(config(BOTH))

    dues = post.dues(stop(NIGHT))

    assert [(due.channel, due.urgency) for due in dues] == [("mail", "high"), ("phone", "high")]


def test_a_message_that_met_the_night_waits_for_the_morning() -> None:
    post = OutboxStory()
    ref = post.asks(NIGHT - 2 * MINUTE, lasts=None)
    (due,) = post.ticks(NIGHT - MINUTE)
    assert post.fails(NIGHT + MINUTE, due, "quiet") == []

    found = post.outbox.find(due.delivery)
    assert found is not None
    assert found.state == "quiet"
    assert post.outbox.unnotified(at(MORNING)) == 0
    (digest,) = morning(post)
    assert (digest.items, digest.digest) == ((requested(ref),), True)


def test_a_note_that_met_the_night_waits_for_the_morning() -> None:
    post = OutboxStory()
    post.happens(announced(NIGHT - 2 * MINUTE, "note_x", "alert"))
    (due,) = post.ticks(NIGHT - MINUTE)
    post.fails(NIGHT + MINUTE, due, "quiet")

    (digest,) = morning(post)

    assert refs(digest) == ["note_x"]


def test_a_test_does_not_wait_for_the_morning() -> None:
    post = OutboxStory()
    (due,) = post.dues(announced(NIGHT))
    post.fails(NIGHT + 1, due, "quiet")

    assert morning(post) == []


def test_what_an_agent_waited_for_in_vain_at_night_stands_in_the_digest() -> None:
    post = OutboxStory()
    ref = post.asks(NIGHT, "p1", wait=True, lasts=HOUR)
    patient = post.asks(NIGHT, "p2", wait=False, lasts=HOUR)
    post.happens(tick(NIGHT + HOUR))

    (digest,) = morning(post)

    assert digest.items == (Item("expired", ref),)
    assert patient not in refs(digest)
    delivery = post.outbox.find(digest.delivery)
    assert delivery is not None
    assert post.outbox.pending(delivery) == digest.items


def test_what_expired_with_somebody_awake_is_no_news() -> None:
    bob = Recipient(name="bob", channels=("mail",), quiet=AWAKE)
    post = OutboxStory(config(recipients=(alice(), bob)))
    (due,) = [*post.asked(NIGHT, wait=True, lasts=HOUR), *post.ticks(NIGHT + MINUTE)]
    assert due.recipient == "bob"

    post.happens(tick(NIGHT + HOUR))

    assert morning(post) == []


def test_what_expired_by_day_is_no_news() -> None:
    post = OutboxStory(config(batch_interval_s=600.0))
    post.asks(0, "p1")
    (first,) = post.ticks(600)
    post.asks(601, "p2", wait=True, lasts=HOUR)

    post.happens(tick(601 + HOUR))

    assert post.tells(2 * HOUR, first) == []


def test_nobody_says_that_a_request_expired_which_is_pending_or_unknown() -> None:
    post = OutboxStory()
    ref = post.asks(NIGHT, wait=True, lasts=HOUR)
    post.expires(NIGHT + 1, "req_unknown")
    post.answers(NIGHT + 2, ref)
    post.expires(NIGHT + 3, ref)

    assert morning(post) == []


def test_an_answer_that_comes_too_late_takes_nothing_out_of_the_digest() -> None:
    post = OutboxStory()
    ref = post.asks(NIGHT, wait=True, lasts=HOUR)
    post.happens(tick(NIGHT + HOUR))
    post.answers(NIGHT + 2 * HOUR, ref)

    assert kinds(morning(post)) == ["expired"]


def test_what_is_waiting_is_known_with_its_time() -> None:
    post = OutboxStory(config(BOTH))
    post.asks(0, "p1")
    post.asks(1, "p2")
    waiting = post.waiting()
    assert waiting == [("alice", "mail", 2, at(60)), ("alice", "phone", 2, at(60))]

    night = OutboxStory()
    night.asks(NIGHT)
    ((_, _, count, until),) = night.waiting()

    assert count == 1
    assert seconds(morning(night)[0]) == (until - at(0)).total_seconds()


def test_quiet_hours_are_somebodys() -> None:
    post = OutboxStory()

    assert post.outbox.quiet_until("alice", at(NIGHT)) == at(MORNING)
    assert post.outbox.quiet_until("alice", at(0)) is None
    assert post.outbox.quiet_until("nobody", at(NIGHT)) is None


def test_nobody_is_missed_who_sleeps() -> None:
    post = OutboxStory()
    post.asks(NIGHT - 30)

    assert post.outbox.unnotified(at(MORNING + MINUTE)) == 0
    assert post.outbox.unnotified(at(MORNING + 4 * MINUTE)) == 1


def test_a_stop_of_one_agent_is_told_to_whom_it_concerns() -> None:
    bob = Recipient(name="bob", channels=("mail",), agents=("ops",))
    post = OutboxStory(config(recipients=(alice(agents=("code",)), bob)))
    stopped = stop(0, agent="ops")
    assert isinstance(stopped, Stopped)

    assert [due.recipient for due in post.dues(stopped)] == ["bob"]


def woken(post: OutboxStory, agents: list[str], *, keyless: bool = False) -> list[bool]:
    """Let each of these ask at night, ten minutes apart; say who was heard at once."""
    heard = []
    for n, agent in enumerate(agents):
        t = NIGHT + n * 10 * MINUTE
        asked = decided(t, post.seq + 1, f"p{n}", agent, urgency="high")
        dues = post.dues(msgspec.structs.replace(asked, keyless=keyless))
        post.tells(t, *dues)
        heard.append(bool(dues))
    return heard


def test_nobody_is_woken_more_than_ten_times_by_however_many_agents() -> None:
    agents = [f"agent-{n}" for n in range(MAX_WOKEN_IN_ALL + 2)]

    assert woken(OutboxStory(), agents) == [*[True] * MAX_WOKEN_IN_ALL, False, False]


def test_an_agent_that_asks_all_night_leaves_the_others_their_turn() -> None:
    heard = woken(OutboxStory(), [*["code"] * (MAX_WOKEN_IN_ALL + 2), "ops"])

    assert heard[: MAX_WOKEN + 1] == [*[True] * MAX_WOKEN, False]
    assert heard[-1]


def test_agents_without_a_key_wake_somebody_as_one() -> None:
    agents = [f"agent-{n}" for n in range(MAX_WOKEN + 2)]

    assert woken(OutboxStory(), agents, keyless=True) == [*[True] * MAX_WOKEN, False, False]


def test_a_test_is_of_use_for_two_minutes_only() -> None:
    post = OutboxStory()

    (test,) = post.dues(announced(0))
    (alert,) = post.dues(announced(0, "note_b", "alert", urgency="high"))

    assert (test.expires, alert.expires) == (at(2 * MINUTE), at(7 * DAY))


def test_a_request_that_nobody_hears_of_is_missed_in_time() -> None:
    post = OutboxStory(config(recipients=(alice(agents=("ops",)),)))
    post.asks(0, "p1", "code")

    assert post.outbox.unnotified(at(MINUTE)) == 0
    assert post.outbox.unnotified(at(4 * MINUTE)) == 1
