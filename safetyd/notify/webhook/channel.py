"""Webhooks: one POST of JSON for each message, signed as in Standard Webhooks.

Links and approval codes are left out unless the operator enables them.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final, Literal

import msgspec

from safetyd.cards.note_cards import Line, SingleCard
from safetyd.cards.request_card import EXACT, TEXT, RequestCard
from safetyd.core.events.notification_events import ItemKind
from safetyd.core.messages.proposal import Urgency
from safetyd.core.recipients import ChannelKind
from safetyd.notify.channel import (
    Channel,
    ChannelContext,
    ChannelTable,
    Limits,
    Misconfigured,
    Preview,
    Problems,
    Rate,
    Receipt,
    needed,
    url_problems,
)
from safetyd.notify.http_post import post
from safetyd.notify.message import Notice
from safetyd.notify.shortening import versions

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

# A message has the type of the first kind in this table that one of its topics has.
_TYPES: Final[dict[ItemKind, EventType]] = {
    "request": "permission.requested",
    "last_call": "permission.reminded",
    "reminder": "permission.reminded",
    "expired": "permission.expired",
    "alert": "alert",
    "summary": "summary",
    "test": "test",
}
# Fields of a card that become separate fields of a topic, and their names there.
_NAMED: Final = {
    "target": "target",
    "session": "session",
    "folder": "folder",
    "why": "rationale",
}


class PostedField(msgspec.Struct, frozen=True):
    title: str
    text: str


class PostedTopic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One topic of a message; fields without a value are left out."""

    kind: ItemKind
    id: str
    urgency: Urgency
    title: str = ""
    action: str = ""
    target: str = ""
    text: str = ""  # the exact action, or the text of an alert or summary
    description: str = ""  # the agent's description, if it gave no exact text
    cut: int = 0
    left_out: str = ""  # the names of omitted parts
    agent: str = ""
    session: str = ""
    folder: str = ""  # the folder in which the action runs
    why: str = ""
    rules: tuple[str, ...] = ()
    risk: str = ""
    reversibility: str = ""
    cost: str = ""
    asked: datetime | None = None
    until: datetime | None = None
    silence: str = ""
    digest: str = ""
    requests: tuple[str, ...] = ()  # the ids of similar requests that the topic is about
    count: int = 1
    commands: tuple[str, ...] = ()
    link: str = ""
    code: str = ""
    fields: tuple[PostedField, ...] = ()  # further details for the decision


class PostedLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """Further requests or notes, for which the message has no room."""

    title: str
    ids: tuple[str, ...]
    link: str = ""


class Data(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    delivery: str
    recipient: str
    urgency: Urgency
    topics: tuple[PostedTopic, ...]
    also: tuple[PostedLine, ...] = ()
    more: int = 0  # further items that the next message contains
    held_back: int = 0
    digest: bool = False
    again: bool = False
    list_link: str = ""


class Body(msgspec.Struct, frozen=True, kw_only=True):
    type: EventType
    timestamp: datetime
    data: Data


class Webhook(Channel):
    """Delivers to one URL. A 2xx response means that the message arrived."""

    name = "webhook"
    limits = LIMITS

    def __init__(self, config: "WebhookConfig", keys: Sequence[bytes]) -> None:
        self._config = config
        self._keys = tuple(keys)
        # The path of the URL is often the only secret that protects it.
        self._secrets = (config.url.partition("://")[2].partition("/")[2],)

    async def send(self, notice: Notice) -> Receipt:
        body = document(notice, links=self._config.include_links)
        headers = {"Content-Type": "application/json", **signed(notice, body, self._keys)}
        await post(self._config.url, body, headers, timeout_s=TIMEOUT_S, secrets=self._secrets)
        return Receipt("delivered")


def signing_keys(text: str) -> tuple[bytes, ...]:
    """Return the keys in a file, one per line; raise `Misconfigured` if one is invalid."""
    lines = [line.strip() for line in text.splitlines()]
    keys = tuple(_key(line, number) for number, line in enumerate(lines, 1) if line)
    if not keys:
        raise Misconfigured("the file with the webhook's secrets contains none")
    return keys


def signed(notice: Notice, body: bytes, keys: Sequence[bytes]) -> dict[str, str]:
    """Return the headers with the id, the time and a signature by every key.

    The time is that of the attempt, because receivers reject messages older than a few minutes.
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
    """Return a message as JSON of at most 20 kB."""
    type_ = _type(notice)
    body = b""
    for version in versions(notice, MAX_BYTES):
        data = _data(version, links=links)
        body = msgspec.json.encode(Body(type=type_, timestamp=notice.at, data=data))
        if len(body) <= MAX_BYTES:
            break
    return body


def _key(line: str, number: int) -> bytes:
    if not line.startswith(PREFIX):
        return line.encode()
    try:
        key = base64.b64decode(_padded(line.removeprefix(PREFIX)), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise Misconfigured(f"line {number} of the webhook's secrets: not base64 after {PREFIX}")
    return key


def _data(notice: Notice, *, links: bool) -> Data:
    return Data(
        delivery=notice.delivery,
        recipient=notice.recipient,
        urgency=notice.urgency,
        topics=tuple(_posted(card, notice, links=links) for card in notice.cards),
        also=tuple(_also(line, notice, links=links) for line in notice.lines),
        more=notice.more,
        held_back=notice.held_back,
        digest=notice.quiet,
        again=notice.again,
        list_link=notice.list_link if links else "",
    )


def _also(line: Line, notice: Notice, *, links: bool) -> PostedLine:
    title = "" if notice.minimal else line.title
    return PostedLine(title, line.refs, line.link if links else "")


def _type(notice: Notice) -> EventType:
    kinds = {card.kind for card in notice.cards}
    return next((name for kind, name in _TYPES.items() if kind in kinds), "alert")


def _posted(card: SingleCard, notice: Notice, *, links: bool) -> PostedTopic:
    link, code = (card.link, card.code) if links else ("", "")
    if notice.minimal:
        until = card.deadline if isinstance(card, RequestCard) else None
        left_out = ", ".join(card.left_out) if isinstance(card, RequestCard) else ""
        return PostedTopic(
            kind=card.kind,
            id=card.id,
            urgency=card.urgency,
            until=until,
            left_out=left_out,
            link=link,
            code=code,
        )
    if isinstance(card, RequestCard):
        return _posted_request(card, link, code)
    return PostedTopic(
        kind=card.kind,
        id=card.id,
        urgency=card.urgency,
        title=card.title,
        text=card.text,
        cut=card.cut,
        agent=card.agent,
        count=card.count,
        link=link,
    )


def _posted_request(card: RequestCard, link: str, code: str) -> PostedTopic:
    fields = {field.name: field for field in card.fields}
    what, rules = fields.pop(TEXT, None), fields.pop("rules", None)
    named = {name: fields.pop(of).text for name, of in _NAMED.items() if of in fields}
    exact = what is not None and what.title == EXACT
    return PostedTopic(
        kind=card.kind,
        id=card.id,
        urgency=card.urgency,
        title=card.title,
        action=card.type,
        text=what.text if what and exact else "",
        description=what.text if what and not exact else "",
        cut=what.cut if what else 0,
        left_out=", ".join(card.left_out),
        agent=card.agent,
        rules=rules.lines if rules else (),
        risk=card.risk,
        reversibility=card.reversibility.replace("_", " "),
        cost=card.cost if "cost" in fields else "",
        asked=card.asked,
        until=card.deadline,
        silence=card.silence,
        digest=card.digest,
        requests=card.refs if card.size > 1 else (),
        count=card.count,
        commands=card.commands,
        link=link,
        code=code,
        fields=tuple(PostedField(field.title, field.text) for field in fields.values()),
        **named,
    )


def _padded(encoded: str) -> str:
    bare = encoded.rstrip("=")
    return bare + "=" * (-len(bare) % 4)


class WebhookConfig(ChannelTable, frozen=True, kw_only=True):
    url: str = ""
    secret_file: str = ""  # a file with one key per line; every key signs, so keys can be rotated
    include_links: bool = False

    kind: ClassVar[ChannelKind] = "webhook"
    rank: ClassVar[int] = 40
    group: ClassVar[bool] = True
    secret_files: ClassVar[tuple[str, ...]] = ("secret_file",)

    def problems(self) -> Problems:
        yield from url_problems("url", self.url)
        yield from needed(secret_file=self.secret_file)

    async def open(self, name: str, context: ChannelContext) -> Channel:  # noqa: ARG002
        return Webhook(self, signing_keys(context.secret(self.secret_file)))

    def limits(self) -> Limits:
        return LIMITS

    def preview(self, notice: Notice) -> Preview:
        body = document(notice, links=self.include_links)
        text = msgspec.json.format(body, indent=2).decode()
        return Preview(text=text, size=f"{len(body)} bytes")


CHANNEL = WebhookConfig
