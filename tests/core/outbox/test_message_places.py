"""Who has a place in a message that has no room for all, and what becomes of the others."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.approvals.request import UNPAUSE, request_id
from safetyd.core.events.guard_events import Paused
from safetyd.core.events.notification_events import Due
from safetyd.core.messages.proposal import Urgency
from safetyd.core.outbox import bundling
from safetyd.core.outbox.delivery_queue import Slot
from safetyd.core.policy import Policy
from tests.core.approvals.queue_story import QueueStory
from tests.core.outbox.outbox_story import (
    AWAKE,
    HOUR,
    MINUTE,
    OutboxStory,
    alice,
    config,
    decided,
    kinds,
    refs,
    requested,
    told,
)
from tests.core.outbox.test_outbox_notes import found, transcribed
from tests.story import at, propose, tick

SHOWN = 20
AWAKE_ALICE = config(recipients=(alice(quiet=AWAKE),))
AWAKE_TWICE = config(recipients=(alice(quiet=AWAKE),), rounds=("09:00", "16:00"))


@pytest.fixture(autouse=True)
def few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a message have fewer places than usual."""
    monkeypatch.setattr(bundling, "SHOWN", SHOWN)


def flood(story: OutboxStory, names: int = 130, t: float = 0, **fields: object) -> list[str]:
    """Ask under names that somebody made up."""
    return [story.asks(t, "p", f"made-up-{n}", keyless=True, **fields) for n in range(names)]


def minutes(story: OutboxStory, count: int, begin: float = MINUTE) -> list[Due]:
    """Let so many batches come and be told."""
    return [due for n in range(count) for due in story.tells_at(begin + n * MINUTE)]


def test_names_without_a_key_take_no_place_from_an_agent_with_one() -> None:
    story = OutboxStory()
    flood(story)
    asked = story.asks(1, "p", "deployer")

    (due,) = story.ticks(MINUTE)

    assert due.items[0] == requested(asked)
    assert (len(due.items), due.more, due.left) == (SHOWN, 0, 111)


def test_what_is_not_shown_is_not_told_until_it_is() -> None:
    story = OutboxStory()
    made_up = flood(story)

    (first,) = minutes(story, 1)
    assert {refs(first).count(ref) + len(story.outbox.told(ref)) for ref in made_up} == {0, 2}
    assert story.outbox.unnotified(at(3 * MINUTE + 1)) == 110

    dues = [first, *minutes(story, 8, begin=2 * MINUTE)]
    assert sorted(ref for due in dues for ref in refs(due)) == sorted(made_up)
    assert [due.left for due in dues] == [110, 90, 70, 50, 30, 10, 0]
    assert story.outbox.unnotified(at(HOUR)) == 0
    assert story.replayed().state() == story.state() == story.restored().state()


def test_nobody_has_a_second_place_before_everybody_has_one() -> None:
    story = OutboxStory()
    eager = [story.asks(n / 10, f"p{n}", "eager") for n in range(5)]
    urgent = story.asks(1, "high", "eager", urgency="high", inferred=True)
    others = [story.asks(2 + n / 100, "p", f"a{n}") for n in range(17)]

    (due,) = story.ticks(MINUTE)

    assert urgent not in refs(due)  # it went out at once
    assert refs(due) == [eager[0], *others, *eager[1:3]]


def test_what_is_about_an_agent_without_a_key_comes_after_all_others() -> None:
    story = OutboxStory(AWAKE_ALICE)
    pause = Paused(at=at(0), t=0.0, agent="made-up", source="anomaly", by="safetyd", reason="odd")
    story.happens(pause, transcribed(0), found(1, "medium", agent="made-up"))
    unpaused = request_id("made-up", UNPAUSE, 1)
    asked = story.asks(2, "p", "deployer")

    (due,) = story.ticks(MINUTE)

    assert refs(due) == [asked, "note_2", unpaused]  # the note is of `code`


def test_the_engine_knows_who_has_a_key() -> None:
    queue = QueueStory(Policy(telling=AWAKE_ALICE))
    for agent in ("a-made-up", "deployer"):
        keyless = agent != "deployer"
        queue.proposes(propose(0, agent, type="read_file", keyless=keyless))
        pause = {"agent": agent, "source": "anomaly", "by": "safetyd"}
        queue.happens(Paused(at=at(1), t=1.0, **pause))  # type: ignore[arg-type]

    (due,) = (event for event in queue.happens(tick(2 * MINUTE)) if isinstance(event, Due))

    agents = [queue.request(ref).agent for ref in refs(due)]
    assert agents == ["deployer", "a-made-up"]


def test_what_was_forgotten_comes_last() -> None:
    story = OutboxStory()
    asked = story.asks(0, "p", "deployer")
    queue = story.outbox._state.lanes["alice/mail"]
    queue.put(requested("req_gone"), Slot("batch", "batch", at(MINUTE)), at(0))

    (due,) = story.ticks(MINUTE)

    assert (refs(due), due.urgency) == ([asked, "req_gone"], "normal")


def test_of_an_agent_with_very_many_the_rest_is_told_by_number() -> None:
    story = OutboxStory(config())
    many = [story.asks(n / 100, f"p{n}", "busy") for n in range(30)]
    few = [story.asks(1, f"p{n}", "calm") for n in range(3)]

    (due,) = story.tells_at(MINUTE)

    assert (len(due.items), due.more, due.left) == (SHOWN, 13, 0)
    assert set(few) <= set(refs(due))
    assert all(story.outbox.told(ref) for ref in many)
    assert story.outbox.unnotified(at(HOUR)) == 0
    assert story.replayed().state() == story.state()


def test_reminders_of_what_is_known_and_summaries_are_told_by_number() -> None:
    story = OutboxStory(AWAKE_TWICE)
    flood(story, 40, lasts=None)
    minutes(story, 3)
    story.happens(*(transcribed(21 * HOUR - MINUTE / 2) for _ in range(3)))

    dues = story.tells_at(21 * HOUR)  # nine o'clock

    assert [(len(due.items), due.more, due.left) for due in dues] == [(SHOWN, 23, 0)]
    assert {*kinds(dues)} == {"reminder", "summary"}


def test_what_was_refused_is_sent_again_one_by_one() -> None:
    story = OutboxStory(AWAKE_ALICE)
    flood(story, 30, lasts=None)
    for due in story.ticks(MINUTE):
        story.fails(2 * MINUTE, due)

    again = story.dues(tick(17 * MINUTE), tick(18 * MINUTE))

    # Perhaps the words of one agent were the reason.
    assert len(again) == SHOWN
    assert {*kinds(again)} == {"reminder"}
    assert {len(due.items) for due in again} == {1}


def test_of_very_many_names_the_first_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundling, "MAX_LOOKED", 25)
    story = OutboxStory()
    made_up = flood(story, 40)
    asked = story.asks(1, "p", "deployer")

    dues = minutes(story, 3)

    assert [due.left for due in dues] == [21, 1, 0]
    assert sorted(ref for due in dues for ref in refs(due)) == sorted([*made_up, asked])


def test_what_an_older_journal_counted_is_told_now() -> None:
    story = OutboxStory()
    asked = [story.asks(n / 100, "p", f"a{n}") for n in range(25)]
    old = Due(
        at=at(MINUTE),
        t=MINUTE,
        delivery="dlv_old",
        recipient="alice",
        channel="mail",
        urgency="normal",
        items=tuple(map(requested, asked[:SHOWN])),
        more=5,
    )
    story.happens(old, told(MINUTE + 1, old))

    (due,) = story.ticks(2 * MINUTE)

    assert refs(due) == asked[SHOWN:]


class Ask(NamedTuple):
    agent: int
    urgency: Urgency
    keyless: bool


asks = st.lists(
    st.builds(Ask, st.integers(0, 6), st.sampled_from(["low", "normal"]), st.booleans()),
    max_size=60,
)


@given(asks)
def test_what_agents_with_keys_see_of_theirs_does_not_depend_on_others(asked: list[Ask]) -> None:
    alone, crowded = OutboxStory(), OutboxStory()
    for number, ask in enumerate(asked):
        name = f"{'made-up' if ask.keyless else 'a'}-{ask.agent}"
        for story in (crowded,) if ask.keyless else (alone, crowded):
            event = decided(
                number / 100,
                number,
                f"p{number}",
                name,
                urgency=ask.urgency,
                keyless=ask.keyless,
            )
            story.happens(event)

    assert keyed(alone) == keyed(crowded)


def keyed(story: OutboxStory) -> list[str]:
    """Return what the next message shows of agents with keys."""
    shown = [story.approvals.find(ref) for due in story.ticks(2 * MINUTE) for ref in refs(due)]
    return [request.id for request in shown if request and not request.asked.keyless]
