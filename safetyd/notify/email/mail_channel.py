"""E-mail: what is sent, and the channel that sends it. A mail can be made without any server."""

import re
from collections.abc import Iterator
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from typing import TYPE_CHECKING, Final

import msgspec

from safetyd.notify.channel import (
    HOUR_S,
    MINUTE_S,
    Channel,
    Limits,
    Misconfigured,
    Rate,
    Receipt,
    Undeliverable,
)
from safetyd.notify.email.channel import EmailConfig
from safetyd.notify.email.mail_content import discreet, subject
from safetyd.notify.email.mail_html import page
from safetyd.notify.email.mail_text import text
from safetyd.notify.message import Notice, Topic
from safetyd.notify.sanitize import SPARED, one_line

if TYPE_CHECKING:
    from safetyd.notify.email.smtp import Submission

MAX_BYTES: Final = 100_000

_BRIEF: Final = 160  # characters of an agent's words, where several topics share a message
_BRIEF_LINES: Final = 6
_SHORTER: Final = (500, 100, 10)  # what is tried if a message is too large
_REPLY_CHARS: Final = 100
_SMTP: Final = policy.SMTP.clone(cte_type="7bit")  # not every server takes more
_is_address = re.compile(r"[!#-'*+\-./0-9=?A-Z^-~]+@[A-Za-z0-9.\[\]:-]+").fullmatch


def mail(notice: Notice, sender: str, host: str) -> EmailMessage:
    """Return a message of at most 100 kB, ready to be sent.

    `host` is the name of this machine. Every copy of a message has the same id, and all messages
    about one request are in one thread.
    """
    for shown in _ever_shorter(discreet(notice)):
        message = _message(shown, sender, host)
        if len(message.as_bytes()) <= MAX_BYTES:
            break
    return message


class Mail(Channel):
    """The channel. `host` is the name of this machine, as mail servers may see it."""

    name = "email"
    limits = Limits(deadline_s=30.0, concurrency=2, rates=(Rate(20, MINUTE_S), Rate(200, HOUR_S)))

    def __init__(self, config: EmailConfig, password: str, host: str) -> None:
        self._config = config
        self._password = password
        self._host = host
        self._submission: Submission | None = None

    async def send(self, notice: Notice) -> Receipt:
        sender = _bare(self._config.from_)
        if sender is None:
            raise Misconfigured("notifications.email.from is not a mail address")
        recipient = _bare(notice.address)
        if recipient is None:
            raise Undeliverable(f"the address of {notice.recipient} is not one that mail can go to")
        content = mail(notice, self._config.from_, self._host).as_bytes()
        reply = await self._open().take(sender, recipient, content)
        return Receipt("accepted", one_line(reply, _REPLY_CHARS))

    def _open(self) -> "Submission":
        if self._submission is None:
            # Not before it is needed, because the library takes a tenth of a second.
            from safetyd.notify.email.smtp import Submission  # noqa: PLC0415

            host, port = self._config.server
            self._submission = Submission(
                host,
                port,
                self._config.security,
                login=(self._config.login_name, self._password),
                own_name=self._host,
                ca_file=self._config.ca_file,
            )
        return self._submission


def open_mail(config: EmailConfig, password: str, host: str) -> Mail:
    """Return the channel with its library loaded, which is best done in a thread."""
    channel = Mail(config, password, host)
    channel._open()  # noqa: SLF001 - beside its class
    return channel


def _message(notice: Notice, sender: str, host: str) -> EmailMessage:
    message = EmailMessage(policy=_SMTP)
    for name, value in _headers(notice, host):
        message[name] = value
    message["From"] = sender if "<" in sender else Address("safetyd", addr_spec=sender)
    message["To"] = notice.address
    message.set_content(text(notice))
    message.add_alternative(page(notice), subtype="html")
    return message


def _headers(notice: Notice, host: str) -> Iterator[tuple[str, str]]:
    yield "Subject", subject(notice)
    yield "Date", format_datetime(notice.at)
    yield "Message-ID", f"<{notice.delivery}@{host}>"
    if notice.thread:
        # A root that was never sent: whichever message comes first, the others stand beside it.
        yield "In-Reply-To", f"<{notice.thread}@{host}>"
        yield "References", f"<{notice.thread}@{host}>"
    if notice.urgency == "high":
        yield "Importance", "high"
        yield "X-Priority", "1"
    yield "Auto-Submitted", "auto-generated"
    yield "X-Auto-Response-Suppress", "All"
    yield "List-Id", f"safetyd <safetyd.{host}>"


def _ever_shorter(notice: Notice) -> Iterator[Notice]:
    several = notice.single is None
    brief = tuple(map(_brief, notice.topics)) if several else notice.topics
    yield msgspec.structs.replace(notice, topics=brief)
    yield from (_shortened(notice, limit, limit) for limit in _SHORTER)


def _shortened(notice: Notice, limit: int, lines: int) -> Notice:
    topics = tuple(_short(topic, limit, lines) for topic in notice.topics)
    return msgspec.structs.replace(notice, topics=topics)


def _brief(topic: Topic) -> Topic:
    """Return one of several topics; a report is told as it is."""
    short = _short(topic, _BRIEF, _BRIEF_LINES)
    if topic.sheet is None:
        return short
    return msgspec.structs.replace(short, text=topic.text, cut=topic.cut, sheet=topic.sheet)


def _short(topic: Topic, limit: int, lines: int) -> Topic:
    words = "\n".join(topic.text.split("\n")[:lines])[:limit]
    if len(topic.text) - len(words) < SPARED:
        words = topic.text
    return msgspec.structs.replace(
        topic,
        title=one_line(topic.title, limit),
        target=one_line(topic.target, limit),
        text=words,
        cut=topic.cut + len(topic.text) - len(words),
        why=one_line(topic.why, limit),
        rules=tuple(one_line(rule, limit) for rule in topic.rules),
        parts=tuple(one_line(part, limit) for part in topic.parts),
        sheet=None,
    )


def _bare(address: str) -> str | None:
    """Return an address without a name, None if it cannot be one."""
    _, bare = parseaddr(address)
    return bare if _is_address(bare) else None
