"""A wall clock that is put back or forward neither silences nor floods anybody."""

from typing import Literal

import pytest

from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import Due
from safetyd.core.messages.proposal import Urgency
from tests.core.outbox.outbox_story import (
    AWAKE,
    DAY,
    HOUR,
    MINUTE,
    OutboxStory,
    alice,
    config,
    decided,
    kinds,
    told,
)
from tests.core.outbox.test_outbox_notes import transcribed
from tests.story import at, stop, tick

INTERVAL = 60.0
STEPS = [1.0, -1.0, HOUR, -HOUR, DAY, -DAY]
# Of a batch that is asked for at 0, goes out at 60 and is told a second later.
MOMENTS = [0.5, 30.5, 59.5, 60.5, 61.5, 90.5, 119.5, 120.5, 125.5]

# When it is known: before anything happens by the new time, a while after, or never.
Known = Literal["before", "after", "never"]


class Stepping:
    """An outbox whose seconds pass one by one, by a clock that is not always right."""

    def __init__(self, *, urgent: bool = False) -> None:
        self.story = OutboxStory(config(recipients=(alice(quiet=AWAKE),)))
        self.urgent = urgent
        self.ahead = 0.0
        self.asked: dict[str, float] = {}
        self.told: dict[str, float] = {}
        self.sent: list[float] = []
        self.under_way: list[Due] = []

    def at(self, t: float, event: Event) -> None:
        """Let something happen at a steady second, whatever the wall clock shows then."""
        event.at, event.t = at(t + self.ahead), t
        for due in self.story.dues(event):
            self.under_way.append(due)
            self.sent.append(t)
            for item in due.items:
                self.told.setdefault(item.ref, t)  # a last call comes later

    def ask(self, t: float) -> None:
        name = f"a{len(self.asked)}"
        urgency: Urgency = "high" if self.urgent else "normal"
        wall = t + self.ahead
        event = decided(wall, self.story.seq + 1, "p", name, urgency=urgency, lasts=30 * DAY)
        assert event.asks is not None
        self.asked[event.asks.request_id] = t
        self.at(t, event)

    def second(self, t: float) -> None:
        for due in self.under_way:
            self.at(t, told(t, due))
        self.under_way = []
        self.at(t, tick(t))

    def step(self, t: float, seconds: float, known: Known) -> None:
        self.ahead += seconds
        stepped = ClockStepped(at=at(0), t=0.0, seconds=seconds)
        if known == "before":
            self.at(t, stepped)
        self.ask(t)
        self.second(t)
        if known == "after":
            self.at(t, stepped)

    def live(self, moment: float, seconds: float, known: Known) -> None:
        """Ask now and then, and let the clock step at a moment."""
        asks = {0, 119, 200} if self.urgent else {0, 65, 119, 126, 130, 200, 300}
        for second in range(420):
            if second in asks:
                self.ask(float(second))
            self.second(float(second))
            if second < moment < second + 1:
                self.step(moment, seconds, known)

    @property
    def waits(self) -> list[float]:
        return [self.told[ref] - asked for ref, asked in self.asked.items()]

    @property
    def gaps(self) -> list[float]:
        return [later - sooner for sooner, later in zip(self.sent, self.sent[1:], strict=False)]


@pytest.mark.parametrize("known", ["before", "after", "never"])
@pytest.mark.parametrize("seconds", STEPS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_nobody_waits_longer_for_a_message_because_the_clock_stepped(
    moment: float, seconds: float, known: Known
) -> None:
    life = Stepping()

    life.live(moment, seconds, known)

    assert set(life.asked) <= set(life.told)
    assert max(life.waits) <= INTERVAL + 2.0
    assert known != "before" or min(life.gaps) >= INTERVAL - 1.0
    assert life.story.replayed().state() == life.story.state()


@pytest.mark.parametrize("known", ["before", "after", "never"])
@pytest.mark.parametrize("seconds", STEPS)
def test_what_is_urgent_is_told_at_once_although_the_clock_stepped(
    seconds: float, known: Known
) -> None:
    life = Stepping(urgent=True)

    life.live(60.5, seconds, known)

    assert max(life.waits) <= INTERVAL


@pytest.mark.parametrize("seconds", STEPS)
def test_reminders_come_as_long_after_the_request_as_ever(seconds: float) -> None:
    story = OutboxStory(config(recipients=(alice(quiet=AWAKE),)))
    story.tells(0, *story.asked(0, urgency="high", lasts=30 * DAY))
    story.happens(ClockStepped(at=at(10 + seconds), t=10.0, seconds=seconds))

    minutes = [
        minute
        for minute in range(1, 300)
        if "reminder" in kinds(story.tells_at(minute * MINUTE + seconds))
    ]

    assert minutes == [15, 60]
    assert story.replayed().state() == story.state() == story.restored().state()


@pytest.mark.parametrize("seconds", [HOUR, -HOUR, DAY, -DAY])
def test_that_nobody_was_told_is_known_as_soon_as_ever(seconds: float) -> None:
    story = OutboxStory()
    story.asks(0)
    story.happens(ClockStepped(at=at(10 + seconds), t=10.0, seconds=seconds))

    assert story.outbox.unnotified(at(3 * MINUTE + seconds)) == 0
    assert story.outbox.unnotified(at(3 * MINUTE + 1 + seconds)) == 1


def test_an_alert_is_told_again_after_the_clock_was_put_back() -> None:
    story = OutboxStory()
    (first,) = story.dues(stop(0))
    story.tells(1, first)
    story.happens(ClockStepped(at=at(2 - DAY), t=2.0, seconds=-DAY))

    assert len(story.dues(stop(3 - DAY, epoch=2))) == 1


def test_an_agent_that_asks_too_much_is_told_of_after_the_clock_was_put_back() -> None:
    story = OutboxStory(config(batch_interval_s=0.0))
    for n in range(12):
        story.tells(n, *story.asked(n, f"p{n}"))

    (due,) = story.asked(20 - DAY, "last")

    assert len(due.items) >= 1


def test_summaries_of_another_time_are_not_counted() -> None:
    story = OutboxStory(config(batch_mode="leading", batch_interval_s=0.0))
    for n in range(6):
        story.tells(n, *story.dues(transcribed(n)))

    dues = story.dues(transcribed(9 - DAY))

    assert kinds(dues) == ["summary"]
