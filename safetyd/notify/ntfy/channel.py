"""ntfy: push messages to phones through a relay server.

A button opens the page of the request. No button answers it, because everyone who reads the
topic could press it.
"""

import re
from typing import ClassVar, Final, Literal
from urllib.parse import urlsplit, urlunsplit

import msgspec

from safetyd.cards.note_cards import asks
from safetyd.core.messages.proposal import Urgency
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
    url_problems,
)
from safetyd.notify.http_post import post
from safetyd.notify.message import Notice
from safetyd.notify.shortening import clip, fitted, in_bytes

TITLE_CHARS: Final = 80
MAX_BYTES: Final = 4095  # the server turns a longer message into an attachment
TIMEOUT_S: Final = 9.0
# The public server allows 12 messages a minute on average, with bursts.
LIMITS: Final = Limits(deadline_s=10.0, concurrency=2, rates=(Rate(30, 150.0),))
PRIORITIES: Final[dict[Urgency, int]] = {"low": 2, "normal": 3, "high": 5}

_id_in = re.compile(r'"id"\s*:\s*"([A-Za-z0-9_-]{1,64})"').search


class Button(msgspec.Struct, frozen=True):
    label: str
    url: str
    action: Literal["view"] = "view"


class Publication(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The JSON body of a publication."""

    topic: str
    title: str
    message: str
    priority: int
    tags: tuple[str, ...]
    sequence_id: str  # on servers that support it, a repeated message replaces the first one
    click: str = ""
    actions: tuple[Button, ...] = ()


class Ntfy(Channel):
    """Publishes to one topic. The server confirms only that it accepted a message."""

    name = "ntfy"
    limits = LIMITS

    def __init__(self, config: "NtfyConfig", token: str = "") -> None:
        self._server, self._topic = server_and_topic(config.url)
        self._token = token.strip()

    async def send(self, notice: Notice) -> Receipt:
        body = msgspec.json.encode(publication(notice, self._topic))
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        said = await post(
            self._server,
            body,
            headers,
            timeout_s=TIMEOUT_S,
            secrets=(self._token, self._topic),
        )
        found = _id_in(said)
        return Receipt("accepted", found[1] if found else "")


def server_and_topic(url: str) -> tuple[str, str]:
    """Return the two parts of an address; raise `Misconfigured` if it names no topic."""
    parts = urlsplit(url)
    path, _, topic = parts.path.rstrip("/").rpartition("/")
    if not topic:
        raise Misconfigured(f"the ntfy URL at {parts.hostname} has no topic after the host")
    return urlunsplit((parts.scheme, parts.netloc, f"{path}/", "", "")), topic


def publication(notice: Notice, topic: str) -> Publication:
    """Return the publication of a message."""
    opened, title = _opened(notice), clip(notice.subject, TITLE_CHARS)
    return Publication(
        topic=topic,
        title=title,
        message=fitted(notice, "ntfy.txt", MAX_BYTES, in_bytes)[0] or title,
        priority=PRIORITIES[notice.urgency],
        tags=("safetyd", notice.urgency),
        sequence_id=notice.delivery,
        click=opened,
        actions=tuple(_buttons(notice, opened)),
    )


def _opened(notice: Notice) -> str:
    """Return the page that a tap opens, or an empty text if a phone cannot reach it."""
    if notice.here_only:
        return ""
    return notice.single.link if notice.single else notice.list_link


def _buttons(notice: Notice, opened: str) -> list[Button]:
    buttons = [Button("Review", opened)] if opened else []
    if buttons and notice.single and asks(notice.single):
        buttons.append(Button("Deny", f"{opened}?i=d"))
    return buttons


class NtfyConfig(ChannelTable, frozen=True, kw_only=True):
    url: str = ""  # server and topic
    token_file: str = ""
    include_code: bool = False  # everyone who reads the topic could approve

    secret_files: ClassVar[tuple[str, ...]] = ("token_file",)

    @property
    def codes(self) -> bool:
        return self.include_code

    def problems(self) -> Problems:
        yield from url_problems("url", self.url)

    async def open(self, name: str, context: ChannelContext) -> Channel:  # noqa: ARG002
        return Ntfy(self, context.secret(self.token_file))

    def limits(self) -> Limits:
        return LIMITS

    def preview(self, notice: Notice) -> Preview:
        message = publication(notice, "topic")
        text = f"{message.title}\n\n{message.message}"
        size = f"{len(message.message.encode())} bytes"
        return Preview(subject=message.title, text=text, size=size)


CHANNEL = NtfyConfig
