"""Events of notifications: messages that are due, and the result of each delivery.

    waiting --Due--> open --Told--> accepted or delivered
                      |
                      +--NotTold--> dead, cancelled, expired, or quiet (it waits again)
                      |
                      +--NotTold--> parked --Unparked--> open

The core knows only the names of recipients and channels, not their addresses and secrets.
"""

from datetime import datetime
from typing import Final, Literal

import msgspec

from safetyd.core.events.event import Event
from safetyd.core.messages.proposal import Urgency

SHOWN: Final = 100  # maximum items that a message lists; only items of busy agents can be added
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
    """One item of a message: a request or a note, by its id."""

    kind: ItemKind
    ref: str
    step: int = 0  # The number of the escalation step.


class SheetRule(msgspec.Struct, frozen=True, gc=False):
    """A rule that set the status of a report, and what to do about it."""

    colour: str
    says: str
    todo: str


class SheetSection(msgspec.Struct, frozen=True, gc=False):
    title: str
    lines: tuple[tuple[str, str], ...]  # Names and values.


class NoteSheet(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A report in parts, for channels that can format it. Other channels use the note's text."""

    colour: str
    rules: tuple[SheetRule, ...] = ()
    sections: tuple[SheetSection, ...] = ()
    more: str = ""  # How to see the full report.


class Note(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A notification that is not a request: an alert, a session summary or a test."""

    id: str
    kind: ItemKind
    urgency: Urgency
    title: str
    text: str
    at: datetime
    agent: str | None = None
    count: int = 1  # How often it happened.
    sheet: NoteSheet | None = None


class Due(Event, kw_only=True, omit_defaults=True, tag="due"):
    """One message to one recipient on one channel is due.

    The message lists `items`, those of agents with keys first. It only counts `more` further items.
    Other items wait for the next message.
    """

    delivery: str
    recipient: str
    channel: str
    urgency: Urgency
    items: tuple[Item, ...]
    more: int = 0
    left: int = 0  # How many items wait for the next message.
    digest: bool = False  # True: the message was held until the end of quiet hours.
    # How many items since the last message were below the minimum urgency.
    held_back: int = 0
    expires: datetime | None = None
    # The next urgent message on this channel is sent after this time, because of a limit.
    limited_until: datetime | None = None


class Told(Event, kw_only=True, omit_defaults=True, tag="told"):
    """A channel accepted a message. Only some channels confirm the delivery."""

    delivery: str
    channel: str
    state: Literal["accepted", "delivered"]
    provider_id: str = ""
    attempts: int = 1
    took_s: float = 0.0


class NotTold(Event, kw_only=True, omit_defaults=True, tag="not_told"):
    """A message failed, or waits for an operator (`parked`) or the end of quiet hours (`quiet`)."""

    delivery: str
    channel: str
    state: Literal["dead", "undelivered", "parked", "cancelled", "expired", "quiet"]
    error: str = ""
    attempts: int = 0
    by: str = ""  # The operator who dropped the message.


class Unparked(Event, kw_only=True, tag="unparked"):
    """Parked messages are sent again."""

    deliveries: tuple[str, ...]
    by: str


class ChannelMoved(Event, kw_only=True, omit_defaults=True, tag="channel_moved"):
    """A channel went down or is up again."""

    channel: str
    up: bool
    why: str = ""


class Climbed(Event, kw_only=True, tag="climbed"):
    """Escalation steps of requests are due: a reminder, a message to the backup, or a last call."""

    steps: tuple[Item, ...]


class Round(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The pending requests of which one recipient is reminded."""

    recipient: str
    request_ids: tuple[str, ...]


class RoundDue(Event, kw_only=True, tag="round_due"):
    """Recipients are reminded of everything that they have received and nobody has answered."""

    rounds: tuple[Round, ...]


class LinkOpened(Event, kw_only=True, tag="link_opened"):
    """A link in a message was opened for the first time."""

    delivery: str
    recipient: str
    request_ids: tuple[str, ...]  # The requests on the page.


class Announced(Event, kw_only=True, omit_defaults=True, tag="announced"):
    """A notification that no other event causes, such as a test message."""

    note: Note
    recipients: tuple[str, ...] = ()  # The recipients; empty means all.
    channels: tuple[str, ...] = ()  # The channels; empty means all.


class LinkRevoked(Event, kw_only=True, omit_defaults=True, tag="link_revoked"):
    """A link was revoked because of wrong codes."""

    delivery: str
    request_id: str
    recipient: str
    why: str
