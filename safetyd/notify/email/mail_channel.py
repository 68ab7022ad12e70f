"""Mail: building messages, and the channel that sends them."""

import re
from collections.abc import Iterator
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from typing import Final

import msgspec

from safetyd.cards.request_card import RequestCard
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
from safetyd.notify.message import Notice
from safetyd.notify.sanitize import one_line
from safetyd.notify.shortening import clip, of_lines, versions

MAX_BYTES: Final = 100_000  # some mail programs cut longer mails
SUBJECT_CHARS: Final = 150
DIGEST_LINES: Final = 80  # lines of the text of a digest

_REPLY_CHARS: Final = 100
_SMTP: Final = policy.SMTP.clone(cte_type="7bit")  # some servers do not accept 8-bit content
_is_address = re.compile(r"[!#-'*+\-./0-9=?A-Z^-~]+@[A-Za-z0-9.\[\]:-]+").fullmatch


def mail(notice: Notice, sender: str, host: str) -> EmailMessage:
    """Return a message of at most 100 kB, ready to be sent.

    `host` is the name of this machine. Every copy of a message has the same id, and all messages
    about one request are in one thread.
    """
    message, short = EmailMessage(), of_lines(notice, "mail.txt", DIGEST_LINES)
    for version in versions(short, MAX_BYTES // 2):
        message = _message(version, sender, host)
        if len(message.as_bytes()) <= MAX_BYTES:
            break
    return message


class Mail(Channel):
    """The channel. `host` is the name of this machine, as mail servers may see it."""

    name = "email"
    limits = Limits(deadline_s=30.0, concurrency=2, rates=(Rate(20, MINUTE_S), Rate(200, HOUR_S)))

    def __init__(self, config: EmailConfig, password: str, host: str) -> None:
        # Importing the library takes a tenth of a second, so open the channel in a thread.
        from safetyd.notify.email.smtp import Submission  # noqa: PLC0415

        self._config = config
        self._host = host
        self._submission = Submission(config, password, host)

    async def send(self, notice: Notice) -> Receipt:
        sender = _bare(self._config.from_)
        if sender is None:
            raise Misconfigured("notifications.email.from is not a mail address")
        recipient = _bare(notice.address)
        if recipient is None:
            raise Undeliverable(f"the mail address of {notice.recipient} is not valid")
        content = mail(notice, self._config.from_, self._host).as_bytes()
        reply = await self._submission.take(sender, recipient, content)
        return Receipt("accepted", one_line(reply, _REPLY_CHARS))


def _message(notice: Notice, sender: str, host: str) -> EmailMessage:
    message = EmailMessage(policy=_SMTP)
    for name, value in _headers(notice, host):
        message[name] = value
    message["From"] = sender if "<" in sender else Address("safetyd", addr_spec=sender)
    message["To"] = notice.address
    message.set_content(notice.rendered("mail.txt"))
    message.add_alternative(notice.rendered("mail.html"), subtype="html")
    return message


def _headers(notice: Notice, host: str) -> Iterator[tuple[str, str]]:
    yield "Subject", _subject(notice)
    yield "Date", format_datetime(notice.at)
    yield "Message-ID", f"<{notice.delivery}@{host}>"
    if notice.thread:
        # No message has this id. It makes all messages about a request siblings in one thread.
        yield "In-Reply-To", f"<{notice.thread}@{host}>"
        yield "References", f"<{notice.thread}@{host}>"
    if notice.urgency == "high":
        yield "Importance", "high"
        yield "X-Priority", "1"
    yield "Auto-Submitted", "auto-generated"
    yield "X-Auto-Response-Suppress", "All"
    yield "List-Id", f"safetyd <safetyd.{host}>"


def _subject(notice: Notice) -> str:
    """Return the subject; a reminder is a reply to the first message."""
    card = notice.single
    if isinstance(card, RequestCard) and card.kind == "reminder" and not notice.minimal:
        first = msgspec.structs.replace(notice, card=msgspec.structs.replace(card, kind="request"))
        return f"Re: {_subject(first)}"
    return f"[safetyd] {clip(notice.subject, SUBJECT_CHARS)}"


def _bare(address: str) -> str | None:
    """Return an address without a display name, or None if it is not valid."""
    _, bare = parseaddr(address)
    return bare if _is_address(bare) else None
