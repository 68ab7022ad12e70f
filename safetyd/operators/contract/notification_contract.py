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
    """The state of a channel."""

    name: str
    up: bool
    waiting_high: int
    waiting_normal: int
    under_way: int
    oldest_s: float | None
    last_success_s_ago: float | None
    last_error: str
    failing: bool  # True if the last attempt failed.
    fuse: BreakerState  # The state of the channel's circuit breaker.
    next_try_s: float | None  # Null if the queue is empty, or no time is set for the next attempt.
    refused: int = 0  # Refused answers from people who are not recipients.
    reads: str = ""  # The mailbox that replies are read from, or why they cannot be read.


Names = tuple[str, ...]


class LaneRow(msgspec.Struct, frozen=True, kw_only=True):
    recipient: str
    channel: str


class TestBegun(Done, frozen=True, kw_only=True):
    """A test was started. To get its result, query `outbox` with the note as `ref`."""

    note: str
    lanes: tuple[LaneRow, ...]


class TestCommand(Command[TestBegun], frozen=True, kw_only=True, tag="notify_test"):
    """Send a test notification immediately, ignoring batching and quiet hours.

    It is sent to all channels and recipients, or to the named ones.
    """

    channels: Names = ()
    recipients: Names = ()


class Retried(Done, frozen=True, kw_only=True):
    retried: int


class RetryCommand(Command[Retried], frozen=True, kw_only=True, tag="notify_retry"):
    """Retry one notification immediately, or all that are queued for a channel."""

    id: str = ""
    channel: str = ""


class Dropped(Done, frozen=True, kw_only=True):
    id: str


class DropCommand(Command[Dropped], frozen=True, kw_only=True, tag="notify_drop"):
    """Drop a queued notification; its request stays pending."""

    id: str


class ShownCommand(Command[Done], frozen=True, kw_only=True, tag="notify_shown"):
    """Record that a desktop shows a notification, so that it is not published again."""

    delivery: str


class Linked(Done, frozen=True, kw_only=True):
    link: str


class LinkCommand(Command[Linked], frozen=True, kw_only=True, tag="notify_link"):
    """Return the URL of the page of a notification.

    The URL opens the only topic of the notification or, if it has several, a list of them.
    """

    delivery: str


class DeliveryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One notification. `refs` are the first of its `items`: requests and notes."""

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
    took_s: float | None  # Seconds from when it was due until the provider accepted it.
    attempts: int
    provider_id: str
    error: str
    opened_at: datetime | None  # When the link of a test was opened.


class LaneWaiting(LaneRow, frozen=True, kw_only=True):
    """Items collected for the next notification of a recipient on a channel."""

    items: int
    due: datetime


class OutboxAnswer(Done, frozen=True, kw_only=True):
    """Notifications newest first; `waiting` are items that are still being collected."""

    deliveries: tuple[DeliveryRow, ...]
    waiting: tuple[LaneWaiting, ...]
    unnotified: int  # Pending requests without a delivered notification.


class OutboxQuestion(Question[OutboxAnswer], frozen=True, kw_only=True, tag="outbox"):
    """List notifications, newest first, and items that are still being collected.

    The answer has at most `limit` notifications.
    """

    paths = ("/outbox",)
    state: DeliveryState | None = None  # Only notifications in this state.
    ref: str = ""  # Only notifications about this request or note.
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class ChannelRow(ChannelState, frozen=True, kw_only=True):
    """The state of a channel. A misconfigured channel is parked until an operator fixes it."""

    kind: ChannelKind | Literal[""]  # Empty if it is no longer configured.


class RecipientRow(msgspec.Struct, frozen=True, kw_only=True):
    """A recipient, and the agents they are notified about. `quiet` is in their `timezone`."""

    name: str
    channels: tuple[str, ...]
    timezone: str
    quiet: str
    quiet_until: datetime | None  # Null outside quiet hours.
    agents: tuple[str, ...]  # Patterns of agent names.
    backup: str


class ChannelsAnswer(Done, frozen=True, kw_only=True):
    channels: tuple[ChannelRow, ...]
    recipients: tuple[RecipientRow, ...]


class ChannelsQuestion(Question[ChannelsAnswer], frozen=True, tag="channels"):
    """Show the state of every channel, and all recipients."""

    paths = ("/channels",)


class PreviewRow(LaneRow, frozen=True, kw_only=True):
    """The message that a recipient would receive on a channel, its time, and its reminders."""

    text: str
    size: str  # The length of the message, in the channel's own unit.
    html: str  # Only for mail.
    when: str
    ladder: tuple[str, ...]


class PreviewAnswer(Done, frozen=True, kw_only=True):
    """As many previews as fit, in the order of recipients."""

    previews: tuple[PreviewRow, ...]


class PreviewQuestion(Question[PreviewAnswer], frozen=True, kw_only=True, tag="preview"):
    """Preview a notification without sending it.

    The preview shows a request, or a sample if none is named.
    """

    paths = ("/preview",)
    channel: str = ""
    urgency: Urgency = "normal"
    request: str = ""  # Empty: a sample.
    batch: Annotated[int, Meta(ge=1, le=1000)] = 1
    digest: bool = False


class Paired(Done, frozen=True, kw_only=True):
    recipient: str
    link: str


class PairCommand(Command[Paired], frozen=True, kw_only=True, tag="pair"):
    """Create a link that pairs one browser, so that it can answer without codes."""

    recipient: str = ""  # If empty, the first recipient.


class RotateCommand(Command[Done], frozen=True, kw_only=True, tag="rotate_links"):
    """Sign links with a new key.

    With `revoke_now` earlier links stop working.
    """

    revoke_now: bool = False
