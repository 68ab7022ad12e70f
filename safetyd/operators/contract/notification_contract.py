"""Notifications: the outbox, channels, previews, tests and links."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from safetyd.core.events.notification_events import DeliveryState, ItemKind
from safetyd.core.messages.proposal import Urgency
from safetyd.core.recipients import ChannelKind
from safetyd.operators.contract.question import Command, Question
from safetyd.operators.replies import Done

BreakerState = Literal["closed", "open", "half_open", "parked"]


class ChannelState(msgspec.Struct, frozen=True, kw_only=True):
    """How a channel does, for people who ask."""

    name: str
    up: bool
    waiting_high: int
    waiting_normal: int
    under_way: int
    oldest_s: float | None
    last_success_s_ago: float | None
    last_error: str
    failing: bool  # the last try did not succeed
    fuse: BreakerState  # its name is spoken
    next_try_s: float | None  # None: nothing waits, or it waits for something else than time
    refused: int = 0  # answers of people who may not give them


Names = tuple[str, ...]


class LaneRow(msgspec.Struct, frozen=True, kw_only=True):
    recipient: str
    channel: str


class TestBegun(Done, frozen=True, kw_only=True):
    """What became of it says `outbox`, with the note as `ref`."""

    note: str
    lanes: tuple[LaneRow, ...]


class TestCommand(Command[TestBegun], frozen=True, kw_only=True, tag="notify_test"):
    """Send a test message at once, past batches and quiet hours.

    It goes to all channels and recipients, or to those that are named.
    """

    channels: Names = ()
    recipients: Names = ()


class Retried(Done, frozen=True, kw_only=True):
    retried: int


class RetryCommand(Command[Retried], frozen=True, kw_only=True, tag="notify_retry"):
    """Retry one message at once, or all that wait for a channel."""

    id: str = ""
    channel: str = ""


class Dropped(Done, frozen=True, kw_only=True):
    id: str


class DropCommand(Command[Dropped], frozen=True, kw_only=True, tag="notify_drop"):
    """Drop a message that waits; its request stays open."""

    id: str


class ShownCommand(Command[Done], frozen=True, kw_only=True, tag="notify_shown"):
    """Record that a desktop shows a message. Without that it is published again."""

    delivery: str


class Linked(Done, frozen=True, kw_only=True):
    link: str


class LinkCommand(Command[Linked], frozen=True, kw_only=True, tag="notify_link"):
    """Return the address of the page of a message.

    It is the page of the one thing that the message is about, or of the list.
    """

    delivery: str


class DeliveryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One message. `refs` are the first requests and notes that it tells of, of `items`."""

    id: str
    recipient: str
    channel: str
    urgency: Urgency
    state: DeliveryState
    kinds: tuple[ItemKind, ...]
    refs: tuple[str, ...]
    items: int
    digest: bool
    at: datetime
    expires: datetime | None
    told_at: datetime | None
    took_s: float | None  # from when it was due until a provider took it
    attempts: int
    provider_id: str
    error: str
    opened_at: datetime | None  # when the link of a test led back


class LaneWaiting(LaneRow, frozen=True, kw_only=True):
    """What is collected for the next message of a lane."""

    items: int
    due: datetime


class OutboxAnswer(Done, frozen=True, kw_only=True):
    """Messages newest first; `waiting` are things that are none yet."""

    deliveries: tuple[DeliveryRow, ...]
    waiting: tuple[LaneWaiting, ...]
    unnotified: int  # requests of which somebody should know and nobody does


class OutboxQuestion(Question[OutboxAnswer], frozen=True, kw_only=True, tag="outbox"):
    """List messages, newest first, and what waits to become one.

    At most `limit`.
    """

    paths = ("/outbox",)
    state: DeliveryState | None = None  # only messages in this state
    ref: str = ""  # only what tells of this request or note
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class ChannelRow(ChannelState, frozen=True, kw_only=True):
    """How a channel does. It is parked when only an operator can mend it."""

    kind: ChannelKind | Literal[""]  # nothing: it is not configured any more


class RecipientRow(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told of which agents; `quiet` is by the clock of `timezone`."""

    name: str
    channels: tuple[str, ...]
    timezone: str
    quiet: str
    quiet_until: datetime | None  # if it is quiet now
    agents: tuple[str, ...]  # globs
    backup: str


class ChannelsAnswer(Done, frozen=True, kw_only=True):
    channels: tuple[ChannelRow, ...]
    recipients: tuple[RecipientRow, ...]


class ChannelsQuestion(Question[ChannelsAnswer], frozen=True, tag="channels"):
    """Show the state of every channel, and its recipients."""

    paths = ("/channels",)


class PreviewRow(LaneRow, frozen=True, kw_only=True):
    """What a lane would be sent, when, and how people would be reminded."""

    text: str
    size: str  # in the channel's own measure
    html: str  # of a mail
    when: str
    ladder: tuple[str, ...]


class PreviewAnswer(Done, frozen=True, kw_only=True):
    """As many lanes as there is room for, in the order of recipients."""

    previews: tuple[PreviewRow, ...]


class PreviewQuestion(Question[PreviewAnswer], frozen=True, kw_only=True, tag="preview"):
    """Show what would be sent; nothing is sent.

    It is of a request, or of a sample.
    """

    paths = ("/preview",)
    channel: str = ""
    urgency: Urgency = "normal"
    request: str = ""  # empty: a sample
    batch: Annotated[int, Meta(ge=1, le=1000)] = 1
    digest: bool = False


class Paired(Done, frozen=True, kw_only=True):
    recipient: str
    link: str


class PairCommand(Command[Paired], frozen=True, kw_only=True, tag="pair"):
    """Create a link by which one browser answers without codes."""

    recipient: str = ""  # empty: the first


class RotateCommand(Command[Done], frozen=True, kw_only=True, tag="rotate_links"):
    """Sign links with a new key.

    With `revoke_now` earlier links stop working.
    """

    revoke_now: bool = False
