"""The messages of telling people: what is asked of the notifier, and what leaves it."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from safetyd.core.messages.proposal import Urgency
from safetyd.notify.chat.webhook import Body
from safetyd.notify.desktop.desktop_content import Action
from safetyd.notify.links.link_issuer import PairCommand, Paired, RotateCommand
from safetyd.notify.outbox_control import (
    ChannelsAnswer,
    DropCommand,
    Dropped,
    LinkCommand,
    Linked,
    OutboxAnswer,
    OutboxQuestion,
    Retried,
    RetryCommand,
    ShownCommand,
    TestBegun,
    TestCommand,
)
from safetyd.notify.preview import PreviewAnswer, PreviewQuestion
from safetyd.operators.replies import Done


class ControlNotifyTest(TestCommand, kw_only=True, tag_field="command", tag="notify_test"):
    """Send a test at once, past batches and quiet hours, on all lanes or those that are named."""


class ControlNotifyRetry(RetryCommand, kw_only=True, tag_field="command", tag="notify_retry"):
    """Try one message again without delay, or all that wait for a channel."""


class ControlNotifyDrop(DropCommand, kw_only=True, tag_field="command", tag="notify_drop"):
    """Give up a message that waits. The request that it tells of stays open."""


class ControlNotifyShown(ShownCommand, kw_only=True, tag_field="command", tag="notify_shown"):
    """Say that a desktop shows a message. Without that it is published again."""


class ControlNotifyLink(LinkCommand, kw_only=True, tag_field="command", tag="notify_link"):
    """Ask where the page of a message is: of the one thing that it tells of, or of the list."""


class ControlPair(PairCommand, kw_only=True, tag_field="command", tag="pair"):
    """Ask for a link by which a browser answers for somebody without codes."""


class ControlRotateLinks(RotateCommand, kw_only=True, tag_field="command", tag="rotate_links"):
    """Sign links with a new key. With `revoke_now` those that were sent die."""


class QueryOutbox(OutboxQuestion, kw_only=True, tag_field="command", tag="outbox"):
    """Ask what was sent, what could not be, and what waits; at most `limit` messages."""


class QueryChannels(Struct, tag_field="command", tag="channels"):
    """Ask how every channel is, and who is told on which."""


class QueryPreview(PreviewQuestion, kw_only=True, tag_field="command", tag="preview"):
    """Ask what would be sent, of a request or a sample; nothing is."""


class DesktopMessage(Struct):
    """What a desktop shows, and the buttons under it.

    Without a `request_id` nothing is to be answered. `digest` is of what an approval is for.
    """

    delivery: str
    request_id: str
    digest: str
    summary: str
    body: str
    actions: tuple[Action, ...]
    urgency: Urgency
    recipient: str


class DesktopTold(Struct):
    """A message for helpers on people's desktops, who answer `notify_shown`; no SafetyEvent."""

    event_type: Literal["DESKTOP_NOTICE"]
    notice: DesktopMessage


class WebhookPosted(Body, frozen=True, kw_only=True):
    """What is posted to a webhook, whose headers sign it.

    Its type is that of the first kind in it: requests, reminders, what expired, alerts, summaries.
    """


TELLING: Final[Mapping[str, type[Struct]]] = {
    "control_notify_test": ControlNotifyTest,
    "control_notify_test_reply": TestBegun,
    "control_notify_retry": ControlNotifyRetry,
    "control_notify_retry_reply": Retried,
    "control_notify_drop": ControlNotifyDrop,
    "control_notify_drop_reply": Dropped,
    "control_notify_shown": ControlNotifyShown,
    "control_notify_shown_reply": Done,
    "control_notify_link": ControlNotifyLink,
    "control_notify_link_reply": Linked,
    "control_pair": ControlPair,
    "control_pair_reply": Paired,
    "control_rotate_links": ControlRotateLinks,
    "control_rotate_links_reply": Done,
    "query_outbox": QueryOutbox,
    "query_outbox_reply": OutboxAnswer,
    "query_channels": QueryChannels,
    "query_channels_reply": ChannelsAnswer,
    "query_preview": QueryPreview,
    "query_preview_reply": PreviewAnswer,
    "desktop_notice": DesktopTold,
    "webhook": WebhookPosted,
}
