"""ntfy: push messages to phones through a relay server, with buttons that answer.

Anyone who reads the topic can press its buttons. So Deny is always offered, as on the page, but
Approve only if the message shows the code (`include_code`) and everything that an approval covers.
A button posts the form that the page would post. The app cannot show the response, so the message
is updated with the result. Servers before 2.16 cannot update a message and send another one.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final, Literal
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

from safetyd.cards.note_cards import SingleCard, asks
from safetyd.cards.request_card import RequestCard
from safetyd.core.events.event import Event
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
from safetyd.notify.ended_messages import EndedMessage, EndedMessages
from safetyd.notify.http_post import post
from safetyd.notify.message import Notice
from safetyd.notify.message_buttons import all_of
from safetyd.notify.shortening import clip, fitted, in_bytes

TITLE_CHARS: Final = 80
MAX_BYTES: Final = 4095  # the server turns a longer message into an attachment
TIMEOUT_S: Final = 9.0
# The public server allows 12 messages a minute on average, with bursts.
LIMITS: Final = Limits(deadline_s=10.0, concurrency=2, rates=(Rate(30, 150.0),))
SILENT: Final = 1
PRIORITIES: Final[dict[Urgency, int]] = {"low": 2, "normal": 3, "high": 5}

Answer = Literal["approve", "deny", "test"]
Form = Callable[[SingleCard, Answer], str]

_FORMS: Final[dict[Answer, tuple[str, bool]]] = {  # what the form says, and if it needs the code
    "approve": ("approved", True),
    "deny": ("denied", False),
    "test": ("tested", False),
}
_sequence_in = re.compile(r'"sequence_id"\s*:\s*"([A-Za-z0-9_-]{1,64})"').search
_id_in = re.compile(r'"id"\s*:\s*"([A-Za-z0-9_-]{1,64})"').search


class Button(msgspec.Struct, frozen=True, omit_defaults=True):
    """A button that opens a page (`view`), or sends a form without opening it (`http`)."""

    action: Literal["view", "http"]
    label: str
    url: str
    method: Literal["POST", ""] = ""
    body: str = ""
    clear: bool = False  # dismiss the notification once the form is accepted


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

    limits = LIMITS

    def __init__(self, name: str, config: "NtfyConfig", context: ChannelContext) -> None:
        self.name = name
        self._server, self._topic = server_and_topic(config.url)
        self._token = context.secret(config.token_file).strip()
        self._signer = context.signer
        self._ended = EndedMessages(name, context, self._show)

    async def send(self, notice: Notice) -> Receipt:
        return await self._publish(publication(notice, self._topic, self._form))

    async def run(self) -> None:
        await self._ended.run()

    def observe(self, events: Sequence[Event]) -> None:
        self._ended.observe(events)

    def _form(self, card: SingleCard, answer: Answer) -> str:
        """Return the form that a button posts."""
        token_id = self._signer.check(card.link.rpartition("/")[2])
        said, needs_code = _FORMS[answer]
        if token_id is None:
            return ""
        digest = card.digest if isinstance(card, RequestCard) else ""
        fields = {"v": answer, "n": self._signer.button(token_id, said, digest)}
        return urlencode(fields | ({"c": card.code} if needs_code else {}))

    async def _show(self, message: EndedMessage) -> None:
        """Update a message once all its requests have ended."""
        # A server that can update messages returned the message's own id, see `_publish`.
        updates = message.provider_id == message.notice.delivery
        if not message.pending and (updates or message.answered):
            await self._publish(ended_publication(message, self._topic))

    async def _publish(self, content: Publication) -> Receipt:
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        said = await post(
            self._server,
            msgspec.json.encode(content),
            headers,
            timeout_s=TIMEOUT_S,
            secrets=(self._token, self._topic),
        )
        found = _sequence_in(said) or _id_in(said)
        return Receipt("accepted", found[1] if found else "")


def server_and_topic(url: str) -> tuple[str, str]:
    """Return the two parts of an address; raise `Misconfigured` if it names no topic."""
    parts = urlsplit(url)
    path, _, topic = parts.path.rstrip("/").rpartition("/")
    if not topic:
        raise Misconfigured(f"the ntfy URL at {parts.hostname} has no topic after the host")
    return urlunsplit((parts.scheme, parts.netloc, f"{path}/", "", "")), topic


def publication(notice: Notice, topic: str, form: Form) -> Publication:
    """Return the publication of a message. `form` returns what a button posts."""
    opened, title = _opened(notice), clip(notice.subject, TITLE_CHARS)
    text, cards = fitted(notice, "ntfy.txt", MAX_BYTES, in_bytes)
    return Publication(
        topic=topic,
        title=title,
        message=text or title,
        priority=PRIORITIES[notice.urgency],
        tags=("safetyd", notice.urgency),
        sequence_id=notice.delivery,
        click=opened,
        actions=tuple(_buttons(notice, cards, opened, form)) if opened else (),
    )


def ended_publication(message: EndedMessage, topic: str) -> Publication:
    """Return the silent update of a message whose requests have ended."""
    title, *others = (clip(end, TITLE_CHARS) for end in message.ends)
    text, _ = fitted(message.notice, "ntfy.txt", MAX_BYTES, in_bytes)
    return Publication(
        topic=topic,
        title=title,
        message="\n".join(others) or text or title,
        priority=SILENT,
        tags=("safetyd",),
        sequence_id=message.notice.delivery,
    )


def _opened(notice: Notice) -> str:
    """Return the page that a tap opens, or an empty text if a phone cannot reach it."""
    if notice.here_only:
        return ""
    return notice.single.link if notice.single else notice.list_link


def _buttons(
    notice: Notice, cards: Sequence[SingleCard], opened: str, form: Form
) -> Iterator[Button]:
    """Yield the buttons of a message: at most three, the limit of the server."""
    card = cards[0] if notice.single else None
    if card and card.kind == "test":
        yield _answering("It works", card, "test", form)
    elif card and asks(card):
        if card.code:  # otherwise it does not show the whole action, or a terminal is needed
            yield _answering(f"Approve{all_of(card)}", card, "approve", form)
        yield _answering(f"Deny{all_of(card)}", card, "deny", form)
    yield Button("view", "Review", opened)


def _answering(label: str, card: SingleCard, answer: Answer, form: Form) -> Button:
    body = form(card, answer)
    return Button("http", label, card.link, method="POST", body=body, clear=True)


class NtfyConfig(ChannelTable, frozen=True, kw_only=True):
    url: str = ""  # server and topic
    token_file: str = ""
    include_code: bool = False  # everyone who reads the topic could approve

    secret_files: ClassVar[tuple[str, ...]] = ("token_file",)

    @property
    def codes(self) -> bool:
        return self.include_code

    @property
    def app_url(self) -> str:
        return self.url

    def problems(self) -> Problems:
        yield from url_problems("url", self.url)

    async def open(self, name: str, context: ChannelContext) -> Channel:
        return Ntfy(name, self, context)

    def limits(self) -> Limits:
        return LIMITS

    def preview(self, notice: Notice) -> Preview:
        message = publication(notice, "topic", lambda *_: "")
        buttons = " ".join(f"[{button.label}]" for button in message.actions)
        text = f"{message.title}\n\n{message.message}\n\n{buttons}".rstrip()
        size = f"{len(message.message.encode())} bytes"
        return Preview(subject=message.title, text=text, size=size)


CHANNEL = NtfyConfig
