"""What waits for the end of quiet hours, and what does not."""

import msgspec
import pytest

from safetyd.core.events.guard_events import AnomalyFound, Stopped
from safetyd.core.events.notification_events import Due, Item
from safetyd.core.recipients import Recipient
from safetyd.core.rota import RotaPolicy, WeeklyShift
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


def morning(story: OutboxStory) -> list[Due]:
    """Return what is due within the first minute after quiet hours."""
    return [due for second in range(61) for due in story.ticks(MORNING + second)]


@pytest.mark.req("S3.38", "S3.63", "K4")
def test_what_comes_at_night_is_one_digest_in_the_morning() -> None:
    story = OutboxStory()
    first, second = story.asks(NIGHT, "p1"), story.asks(NIGHT + 3 * HOUR, "p2", urgency="low")
    assert story.ticks(NIGHT + HOUR) == []
    assert story.ticks(MORNING - 1) == []

    (due,) = morning(story)

    assert (refs(due), due.digest) == ([first, second], True)
    assert MORNING <= seconds(due) <= MORNING + 30


def test_queues_do_not_all_begin_at_the_same_second() -> None:
    people = tuple(Recipient(name=f"r{n}", channels=("mail",)) for n in range(20))
    story = OutboxStory(config(recipients=people))
    story.asks(NIGHT)

    begun = {seconds(due) for due in morning(story)}

    assert len(begun) > 5
    assert {seconds(due) for due in morning(story.replayed())} <= begun


def test_a_batch_that_would_go_out_at_night_waits() -> None:
    story = OutboxStory()
    story.asks(NIGHT - 30, "p1")

    assert story.ticks(NIGHT + 30) == []
    assert morning(story)[0].digest


def test_the_distance_to_the_last_batch_may_reach_into_the_night() -> None:
    story = OutboxStory(config(batch_mode="leading"))
    story.tells(NIGHT - 20, *story.asked(NIGHT - 20, "p1"))
    story.asks(NIGHT - 10, "p2")

    assert story.ticks(NIGHT + 40) == []
    assert morning(story)[0].digest


def test_when_the_last_hours_are_blocked_the_next_night_is_quiet_as_well() -> None:
    story = OutboxStory()
    story.asks(0, "p1", lasts=None)
    (first,) = story.ticks(60)
    story.asks(61, "p2", lasts=None)

    assert story.tells(NIGHT + HOUR, first) == []
    assert len(morning(story)) == 1


@pytest.mark.req("S3.38")
def test_what_its_agent_calls_urgent_is_told_at_night_twice() -> None:
    story = OutboxStory()
    agents = ["code", "code", "ops", "web"]

    told = [
        story.asked(NIGHT + n, f"p{n}", agent, urgency="high") for n, agent in enumerate(agents)
    ]

    # One message is left for other agents.
    assert [len(dues) for dues in told] == [1, 0, 1, 0]
    assert [due.limited_until for dues in told for due in dues] == [None, at(MORNING)]
    assert story.dues(tick(NIGHT + 16 * MINUTE), tick(NIGHT + 61 * MINUTE)) == []
    (digest,) = morning(story)
    assert (digest.urgency, digest.digest, len(digest.items)) == ("normal", True, 2)


def test_the_next_night_counts_anew() -> None:
    story = OutboxStory()
    for n in range(3):
        story.tells(NIGHT + n, *story.asked(NIGHT + n, f"p{n}", f"a{n}", urgency="high"))

    assert len(story.asked(NIGHT + DAY, "later", urgency="high")) == 1


def test_nobody_is_woken_twice_by_the_same_request() -> None:
    story = OutboxStory()
    story.tells(NIGHT, *story.asked(NIGHT, urgency="high", lasts=None))

    assert story.dues(tick(NIGHT + 15 * MINUTE), tick(NIGHT + HOUR)) == []
    assert kinds(morning(story)) == ["reminder"]


def test_an_urgency_that_nobody_declared_wakes_nobody() -> None:
    story = OutboxStory()

    assert story.asked(NIGHT, "p1", urgency="high", inferred=True) == []
    assert len(morning(story)) == 1
    assert len(story.asked(MORNING + HOUR, "p2", urgency="high", inferred=True)) == 1


def test_somebody_may_want_to_be_woken_by_nothing_but_a_stop() -> None:
    story = OutboxStory(config(quiet_bypass="none"))

    assert story.asked(NIGHT, "p1", urgency="high") == []
    assert len(story.dues(stop(NIGHT + 1))) == 1


def test_a_message_that_met_the_night_waits_for_the_morning() -> None:
    story = OutboxStory()
    ref = story.asks(NIGHT - 2 * MINUTE, lasts=None)
    (due,) = story.ticks(NIGHT - MINUTE)
    assert story.fails(NIGHT + MINUTE, due, "quiet") == []

    found = story.outbox.find(due.delivery)
    assert found is not None
    assert found.state == "quiet"
    assert story.outbox.unnotified(at(MORNING)) == 0
    (digest,) = morning(story)
    assert (digest.items, digest.digest) == ((requested(ref),), True)


def test_a_note_that_met_the_night_waits_for_the_morning() -> None:
    story = OutboxStory()
    story.happens(announced(NIGHT - 2 * MINUTE, "note_x", "alert"))
    (due,) = story.ticks(NIGHT - MINUTE)
    story.fails(NIGHT + MINUTE, due, "quiet")

    (digest,) = morning(story)

    assert refs(digest) == ["note_x"]


def test_a_test_does_not_wait_for_the_morning() -> None:
    story = OutboxStory()
    (due,) = story.dues(announced(NIGHT))
    story.fails(NIGHT + 1, due, "quiet")

    assert morning(story) == []


def test_what_an_agent_waited_for_in_vain_at_night_stands_in_the_digest() -> None:
    story = OutboxStory()
    ref = story.asks(NIGHT, "p1", wait=True, lasts=HOUR)
    patient = story.asks(NIGHT, "p2", wait=False, lasts=HOUR)
    story.happens(tick(NIGHT + HOUR))

    (digest,) = morning(story)

    assert digest.items == (Item("expired", ref),)
    assert patient not in refs(digest)
    delivery = story.outbox.find(digest.delivery)
    assert delivery is not None
    assert story.outbox.pending(delivery) == digest.items


def test_what_expired_with_somebody_awake_is_no_news() -> None:
    bob = Recipient(name="bob", channels=("mail",), quiet=AWAKE)
    story = OutboxStory(config(recipients=(alice(), bob)))
    (due,) = [*story.asked(NIGHT, wait=True, lasts=HOUR), *story.ticks(NIGHT + MINUTE)]
    assert due.recipient == "bob"

    story.happens(tick(NIGHT + HOUR))

    assert morning(story) == []


def test_what_expired_by_day_is_no_news() -> None:
    story = OutboxStory(config(batch_interval_s=600.0))
    story.asks(0, "p1")
    (first,) = story.ticks(600)
    story.asks(601, "p2", wait=True, lasts=HOUR)

    story.happens(tick(601 + HOUR))

    assert story.tells(2 * HOUR, first) == []


def test_nobody_says_that_a_request_expired_which_is_pending_or_unknown() -> None:
    story = OutboxStory()
    ref = story.asks(NIGHT, wait=True, lasts=HOUR)
    story.expires(NIGHT + 1, "req_unknown")
    story.answers(NIGHT + 2, ref)
    story.expires(NIGHT + 3, ref)

    assert morning(story) == []


def test_an_answer_that_comes_too_late_takes_nothing_out_of_the_digest() -> None:
    story = OutboxStory()
    ref = story.asks(NIGHT, wait=True, lasts=HOUR)
    story.happens(tick(NIGHT + HOUR))
    story.answers(NIGHT + 2 * HOUR, ref)

    assert kinds(morning(story)) == ["expired"]


def test_what_is_waiting_is_known_with_its_time() -> None:
    story = OutboxStory(config(BOTH))
    story.asks(0, "p1")
    story.asks(1, "p2")
    waiting = story.waiting()
    assert waiting == [("alice", "mail", 2, at(60)), ("alice", "phone", 2, at(60))]

    night = OutboxStory()
    night.asks(NIGHT)
    ((_, _, count, until),) = night.waiting()

    assert count == 1
    assert seconds(morning(night)[0]) == (until - at(0)).total_seconds()


def test_quiet_hours_are_somebodys() -> None:
    story = OutboxStory()

    assert story.outbox.quiet_until("alice", at(NIGHT)) == at(MORNING)
    assert story.outbox.quiet_until("alice", at(0)) is None
    assert story.outbox.quiet_until("nobody", at(NIGHT)) is None


def test_nobody_is_missed_who_sleeps() -> None:
    story = OutboxStory()
    story.asks(NIGHT - 30)

    assert story.outbox.unnotified(at(MORNING + MINUTE)) == 0
    assert story.outbox.unnotified(at(MORNING + 4 * MINUTE)) == 1


def test_a_stop_of_one_agent_is_told_to_whom_it_concerns() -> None:
    bob = Recipient(name="bob", channels=("mail",), agents=("ops",))
    story = OutboxStory(config(recipients=(alice(agents=("code",)), bob)))
    stopped = stop(0, agent="ops")
    assert isinstance(stopped, Stopped)

    assert [due.recipient for due in story.dues(stopped)] == ["bob"]


def woken(story: OutboxStory, agents: list[str], *, keyless: bool = False) -> list[bool]:
    """Let each of these ask at night, ten minutes apart; say who was heard at once."""
    heard = []
    for n, agent in enumerate(agents):
        t = NIGHT + n * 10 * MINUTE
        asked = decided(t, story.seq + 1, f"p{n}", agent, urgency="high")
        dues = story.dues(msgspec.structs.replace(asked, keyless=keyless))
        story.tells(t, *dues)
        heard.append(bool(dues))
    return heard


def test_nobody_is_woken_more_than_twice_by_however_many_agents() -> None:
    agents = [f"agent-{n}" for n in range(4)]

    assert woken(OutboxStory(), agents) == [True, True, False, False]


def test_who_is_on_call_is_woken_more_often() -> None:
    rota = RotaPolicy(shifts=(WeeklyShift(who="alice"),))
    agents = [f"agent-{n}" for n in range(6)]

    assert woken(OutboxStory(rota=rota), agents) == [*[True] * 4, False, False]


def test_an_agent_that_asks_all_night_leaves_the_others_their_turn() -> None:
    assert woken(OutboxStory(), ["code", "code", "code", "ops"]) == [True, False, False, True]


def test_an_agent_has_half_of_a_night_and_the_last_message_is_for_one_that_had_none() -> None:
    rota = RotaPolicy(shifts=(WeeklyShift(who="alice"),))
    agents = ["code", "code", "code", "ops", "ops", "web", "new"]

    heard = woken(OutboxStory(rota=rota), agents)

    assert heard == [True, True, False, True, False, True, False]


def test_an_alert_comes_at_night_whatever_agents_have_asked() -> None:
    rota = RotaPolicy(shifts=(WeeklyShift(who="alice"),))
    story = OutboxStory(rota=rota)
    woken(story, [f"agent-{n}" for n in range(6)])

    t = NIGHT + 2 * HOUR
    found = AnomalyFound(at=at(t), t=t, rule="x", severity="high", message="m", agent="agent-0")
    assert [due.urgency for due in story.dues(found)] == ["high"]


def test_agents_without_a_key_wake_somebody_as_one() -> None:
    agents = [f"agent-{n}" for n in range(3)]

    assert woken(OutboxStory(), agents, keyless=True) == [True, False, False]


def test_a_test_is_of_use_for_two_minutes_only() -> None:
    story = OutboxStory()

    (test,) = story.dues(announced(0))
    (alert,) = story.dues(announced(0, "note_b", "alert", urgency="high"))

    assert (test.expires, alert.expires) == (at(2 * MINUTE), at(7 * DAY))


def test_a_request_that_nobody_hears_of_is_missed_in_time() -> None:
    story = OutboxStory(config(recipients=(alice(agents=("ops",)),)))
    story.asks(0, "p1", "code")

    assert story.outbox.unnotified(at(MINUTE)) == 0
    assert story.outbox.unnotified(at(4 * MINUTE)) == 1
