"""Webhooks: one POST of JSON a message, signed as Standard Webhooks has it.

Links and codes that approve stay out of it unless the operator wants them in.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from safetyd.core.events.notification_events import ItemKind
from safetyd.core.messages.proposal import Urgency
from safetyd.notify.channel import Channel, Limits, Misconfigured, Rate, Receipt
from safetyd.notify.chat.http_post import post
from safetyd.notify.chat.plain_text import EXCERPTS, without_last
from safetyd.notify.message import Notice, Topic, as_entry
from safetyd.notify.webhook.channel import WebhookConfig

MAX_BYTES: Final = 20_000
TIMEOUT_S: Final = 14.0
LIMITS: Final = Limits(deadline_s=15.0, concurrency=4, rates=(Rate(10, 1.0),))
PREFIX: Final = "whsec_"

EventType = Literal[
    "permission.requested",
    "permission.reminded",
    "permission.expired",
    "alert",
    "summary",
    "test",
]

# What a message with topics of several kinds is called: the first of these that is in it.
_TYPES: Final[dict[ItemKind, EventType]] = {
    "request": "permission.requested",
    "last_call": "permission.reminded",
    "reminder": "permission.reminded",
    "expired": "permission.expired",
    "alert": "alert",
    "summary": "summary",
    "test": "test",
}
_AGENTS_WORDS: Final = ("target", "text", "description", "cut", "session", "folder", "why", "rules")
_OPAQUE: Final = frozenset({"kind", "ref", "urgency", "until", "link", "code"})


class PostedTopic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is told of one topic; a field without a value is left out."""

    kind: ItemKind
    id: str
    urgency: Urgency
    title: str = ""
    action: str = ""
    target: str = ""
    text: str = ""  # exactly what would be done, or what is to be known
    description: str = ""  # in its place: what the agent, which gave no exact text, says of it
    cut: int = 0
    left_out: str = ""  # of one of several requests: what else it has, by name
    agent: str = ""
    session: str = ""
    folder: str = ""  # where it runs
    why: str = ""
    rules: tuple[str, ...] = ()
    risk: str = ""
    reversibility: str = ""
    cost: str = ""
    asked: datetime | None = None
    until: datetime | None = None
    silence: str = ""
    digest: str = ""
    count: int = 1
    commands: tuple[str, ...] = ()
    link: str = ""
    code: str = ""


class Data(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    delivery: str
    recipient: str
    urgency: Urgency
    topics: tuple[PostedTopic, ...]
    more: int = 0
    held_back: int = 0
    digest: bool = False
    again: bool = False
    list_link: str = ""


class Body(msgspec.Struct, frozen=True, kw_only=True):
    type: EventType
    timestamp: datetime
    data: Data


class Webhook(Channel):
    """Delivers to one address. An answer of 2xx means that the message arrived."""

    name = "webhook"
    limits = LIMITS

    def __init__(self, config: WebhookConfig, keys: Sequence[bytes]) -> None:
        self._config = config
        self._keys = tuple(keys)
        # What follows the host is often all that keeps others from posting.
        self._secrets = (config.url.partition("://")[2].partition("/")[2],)

    async def send(self, notice: Notice) -> Receipt:
        body = document(notice, links=self._config.include_links)
        headers = {"Content-Type": "application/json", **signed(notice, body, self._keys)}
        await post(self._config.url, body, headers, timeout_s=TIMEOUT_S, secrets=self._secrets)
        return Receipt("delivered")


def signing_keys(text: str) -> tuple[bytes, ...]:
    """Return the keys in a file of secrets, a line each; raise `Misconfigured` if one is none."""
    lines = [line.strip() for line in text.splitlines()]
    keys = tuple(_key(line, number) for number, line in enumerate(lines, 1) if line)
    if not keys:
        raise Misconfigured("the file of the webhook's secrets has none")
    return keys


def signed(notice: Notice, body: bytes, keys: Sequence[bytes]) -> dict[str, str]:
    """Return the headers by which a receiver knows a message, signed with every key.

    The time is that of the try: a receiver takes nothing that is older than a few minutes.
    """
    stamp = str(int(notice.at.timestamp()))
    content = b".".join((notice.delivery.encode(), stamp.encode(), body))
    digests = (hmac.new(key, content, hashlib.sha256).digest() for key in keys)
    return {
        "webhook-id": notice.delivery,
        "webhook-timestamp": stamp,
        "webhook-signature": " ".join(f"v1,{base64.b64encode(each).decode()}" for each in digests),
    }


def document(notice: Notice, *, links: bool) -> bytes:
    """Return a message as JSON of at most 20 kB; the words of agents give way first."""
    type_ = _type(notice)
    bodies = (
        Body(type=type_, timestamp=notice.at, data=_data(shown, chars, links=links))
        for shown, chars in _versions(notice)
    )
    encoded = map(msgspec.json.encode, bodies)
    return next(body for body in encoded if len(body) <= MAX_BYTES)


def _key(line: str, number: int) -> bytes:
    if not line.startswith(PREFIX):
        return line.encode()
    try:
        key = base64.b64decode(_padded(line.removeprefix(PREFIX)), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise Misconfigured(f"line {number} of the webhook's secrets is no base64 after {PREFIX}")
    return key


def _versions(notice: Notice) -> Iterator[tuple[Notice, int]]:
    """Yield what to show, and how many characters of each text, most first."""
    yield from ((notice, chars) for chars in EXCERPTS)
    yield from ((without_last(notice, number), 0) for number in range(1, len(notice.topics) + 1))


def _data(notice: Notice, chars: int, *, links: bool) -> Data:
    return Data(
        delivery=notice.delivery,
        recipient=notice.recipient,
        urgency=notice.urgency,
        topics=tuple(_posted(each, chars, notice, links=links) for each in notice.topics),
        more=notice.more,
        held_back=notice.held_back,
        digest=notice.digest,
        again=notice.again,
        list_link=notice.list_link if links else "",
    )


def _type(notice: Notice) -> EventType:
    kinds = {topic.kind for topic in notice.topics}
    return next((name for kind, name in _TYPES.items() if kind in kinds), "alert")


def _posted(topic: Topic, chars: int, notice: Notice, *, links: bool) -> PostedTopic:
    privacy = notice.privacy
    if notice.single is None:
        topic = as_entry(topic, chars, privacy)
    fields = msgspec.structs.asdict(topic)
    text, why = topic.text[:chars], topic.why[:chars]
    fields |= {"why": why, "cut": topic.cut + len(topic.text) - len(text)}
    exact = fields.pop("exact")
    fields |= {"text": text if exact else "", "description": "" if exact else text}
    dropped = {*(_AGENTS_WORDS if privacy != "full" else ()), *(() if links else ("link", "code"))}
    if privacy == "minimal":
        dropped |= fields.keys() - _OPAQUE
    told = {"ref", *PostedTopic.__struct_fields__} - dropped
    kept = {name: value for name, value in fields.items() if name in told}
    return PostedTopic(id=kept.pop("ref"), **kept)


def _padded(encoded: str) -> str:
    bare = encoded.rstrip("=")
    return bare + "=" * (-len(bare) % 4)
