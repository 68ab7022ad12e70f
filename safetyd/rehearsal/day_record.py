"""The record of a rehearsed day: what was journalled, and which messages arrived."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import ItemKind
from safetyd.core.messages.proposal import Urgency
from safetyd.core.recipients import ChannelKind, TellingConfig
from safetyd.core.rota import Rota
from safetyd.rehearsal.story_file import Story
from safetyd.rehearsal.story_times import StoryTimes


class Mention(NamedTuple):
    """One entry of a message: a request, alert or summary."""

    ref: str
    kind: ItemKind


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a channel accepted, as the person sees it."""

    began: datetime  # when the last attempt began
    at: datetime
    recipient: str
    channel: str
    delivery: str
    urgency: Urgency
    subject: str
    text: str
    size: str
    mentions: tuple[Mention, ...]
    entries: tuple[tuple[str, ...], ...]  # the requests or notes of each entry
    more: int  # how many further items it only counts
    digest: bool


class DayRecord:
    """Collects everything that happens on a rehearsed day."""

    def __init__(
        self,
        story: Story,
        times: StoryTimes,
        telling: TellingConfig,
        rota: Rota,
        wake_for: Mapping[str, Sequence[str]],
    ) -> None:
        self.story = story
        self.times = times
        self.telling = telling
        self.rota = rota
        self.wake_for = wake_for  # types of action for which each person may always be woken
        self.events: list[Event] = []
        self.arrivals: list[Arrival] = []
        self.bursts: dict[str, list[tuple[str, str]]] = {}  # agents and ids of proposals, by burst
        self.proposals = 0

    def observe(self, events: Sequence[Event]) -> None:
        self.events += events

    def persons(self, recipient: str, channel: str) -> tuple[str, ...]:
        """Return the people who read what a recipient gets on a channel."""
        readers = tuple(one.name for one in self.story.people if channel in one.reads)
        named = any(one.name == recipient for one in self.story.people)
        return readers if readers and not named else (recipient,)

    def kind_of(self, channel: str) -> ChannelKind:
        return self.telling.channels[channel]
