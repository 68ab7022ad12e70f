"""Agents that ask more than people can read."""

from safetyd.core.events.guard_events import Paused
from tests.core.outbox.outbox_story import MINUTE, OutboxStory, refs
from tests.story import at


def test_an_agent_that_asks_too_much_gets_one_message_in_five_minutes() -> None:
    story = OutboxStory()
    asked = [story.asks(n, f"p{n}") for n in range(10)]
    story.tells_at(60)
    other = story.asks(61, "q", "ops")
    storm = [story.asks(62 + n, f"s{n}") for n in range(3)]

    (others,) = story.ticks(125)
    story.tells(126, others)
    assert story.ticks(359) == []
    (due,) = story.ticks(360)

    assert refs(others) == [other]
    assert refs(due) == storm
    assert asked[0] not in refs(due)


def test_a_storm_of_urgent_requests_is_held_as_well() -> None:
    story = OutboxStory()
    for n in range(10):
        story.asks(n, f"p{n}")
    story.tells_at(60)

    assert story.asked(61, "p10", urgency="high") == []
    assert story.ticks(359) == []
    assert [due.urgency for due in story.ticks(360)] == ["high"]


def test_a_storm_from_the_first_moment_on_waits_for_its_batch() -> None:
    story = OutboxStory()
    asked = [story.asks(n / 10, f"p{n}") for n in range(12)]

    (due,) = story.ticks(62)

    assert refs(due) == asked
    assert story.outbox.unnotified(at(4 * MINUTE)) == 10


def test_a_storm_is_over_in_time() -> None:
    story = OutboxStory()
    for n in range(11):
        story.asks(n, f"p{n}")
    story.tells_at(61)
    story.tells_at(361)
    story.asks(420, "p11")
    story.asks(421, "p12", "ops")

    assert len(story.ticks(481)[0].items) == 2


def test_people_are_asked_of_a_paused_agent_though_it_asked_too_much() -> None:
    story = OutboxStory()
    for n in range(10):
        story.asks(n, f"p{n}")
    story.tells_at(61)
    story.asks(62, "p10")
    pause = Paused(at=at(100), t=100.0, agent="code", source="anomaly", by="safetyd")
    again = Paused(at=at(101), t=101.0, agent="code", source="anomaly", by="safetyd")
    by_hand = Paused(at=at(102), t=102.0, agent="code", source="operator", by="bob")
    story.happens(pause, again, by_hand)

    (due,) = story.ticks(160)

    (request,) = [r for r in story.approvals.pending() if r.asked.type == "unpause"]
    assert refs(due) == [request.id]
    assert due.expires is None


def test_what_is_held_in_a_storm_is_not_held_longer_by_other_messages() -> None:
    story = OutboxStory()
    for n in range(10):
        story.asks(n, f"p{n}")
    story.tells_at(60)
    held = story.asks(61, "p10")
    story.asks(350, "p11")

    (due,) = story.ticks(360)
    story.tells(361, due)

    assert refs(due) == [held]
    assert len(story.ticks(420)) == 1


def test_messages_of_calmer_times_do_not_move_what_a_storm_left() -> None:
    story = OutboxStory()
    for n in range(10):
        story.asks(n, f"p{n}")
    story.tells_at(60)
    held = story.asks(200, "p10")
    urgent = [story.asked(400 + n * 100, f"q{n}", urgency="high") for n in range(3)]

    assert [len(dues) for dues in urgent] == [2, 1, 1]
    assert refs(urgent[0][1]) == [held]
