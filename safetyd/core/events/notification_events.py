"""Telling people: who can be told how, what is due to be sent, and what came of it.

    waiting --Due--> open --Told--> accepted or delivered
                      |
                      +--NotTold--> dead, cancelled, expired; quiet: it waits again
                      |
                      +--NotTold--> parked --Unparked--> open

The core knows people and channels by name only; addresses and secrets stay in the shell.
"""

from datetime import datetime
from typing import Final, Literal

import msgspec

from safetyd.core.events.event import Event
from safetyd.core.messages.proposal import Urgency

SHOWN: Final = 20  # things that one message tells of; of more it gives the number
ItemKind = Literal["request", "reminder", "last_call", "expired", "alert", "summary", "test"]

DeliveryState = Literal[
    "open",
    "parked",
    "accepted",
    "delivered",
    "undelivered",
    "dead",
    "cancelled",
    "expired",
    "quiet",
]


class Item(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing that somebody is told of: a request by its id, or a note by its own."""

    kind: ItemKind
    ref: str
    step: int = 0  # of its escalation


class SheetRule(msgspec.Struct, frozen=True, gc=False):
    """A rule that gave a report its colour, and what to do about it."""

    colour: str
    says: str
    todo: str


class SheetSection(msgspec.Struct, frozen=True, gc=False):
    title: str
    lines: tuple[tuple[str, str], ...]  # names and values


class NoteSheet(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A report in parts, for a channel that can lay them out; others have the note's text."""

    colour: str
    rules: tuple[SheetRule, ...] = ()
    sections: tuple[SheetSection, ...] = ()
    more: str = ""  # how to see all of it


class Note(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What is no request: an alert, the summary of a session, a test."""

    id: str
    kind: ItemKind
    urgency: Urgency
    title: str
    text: str
    at: datetime
    agent: str | None = None
    count: int = 1  # how often it was noted
    sheet: NoteSheet | None = None


class Due(Event, kw_only=True, omit_defaults=True, tag="due"):
    """One message to one recipient on one channel is to be sent.

    `items` are what it shows, first of agents with a key; `more` others are told by number only.
    What else was ripe in the same lane is not told, and waits for the next message.
    """

    delivery: str
    recipient: str
    channel: str
    urgency: Urgency
    items: tuple[Item, ...]
    more: int = 0
    left: int = 0  # how much waits for the next message
    digest: bool = False  # of what had to wait for the end of quiet hours
    held_back: int = 0  # things below the least urgency since the last message
    expires: datetime | None = None


class Told(Event, kw_only=True, omit_defaults=True, tag="told"):
    """A channel took a message; only some can say that it arrived."""

    delivery: str
    channel: str
    state: Literal["accepted", "delivered"]
    provider_id: str = ""
    attempts: int = 1
    took_s: float = 0.0


class NotTold(Event, kw_only=True, omit_defaults=True, tag="not_told"):
    """A message was given up, or waits for an operator (`parked`) or the morning (`quiet`)."""

    delivery: str
    channel: str
    state: Literal["dead", "undelivered", "parked", "cancelled", "expired", "quiet"]
    error: str = ""
    attempts: int = 0
    by: str = ""  # the operator who dropped it


class Unparked(Event, kw_only=True, tag="unparked"):
    """Messages are tried again that an error of their channel had stopped."""

    deliveries: tuple[str, ...]
    by: str


class ChannelMoved(Event, kw_only=True, omit_defaults=True, tag="channel_moved"):
    """A channel takes nothing any more, or takes messages again."""

    channel: str
    up: bool
    why: str = ""


class Climbed(Event, kw_only=True, tag="climbed"):
    """Steps of requests' ladders came due: a reminder, the backup, a last call."""

    steps: tuple[Item, ...]


class Announced(Event, kw_only=True, omit_defaults=True, tag="announced"):
    """Somebody wants people told of something that no other event says: a test, for one."""

    note: Note
    recipients: tuple[str, ...] = ()  # none named: all
    channels: tuple[str, ...] = ()  # none named: all


class LinkRevoked(Event, kw_only=True, omit_defaults=True, tag="link_revoked"):
    """A link is dead because somebody tried codes on it."""

    delivery: str
    request_id: str
    recipient: str
    why: str
