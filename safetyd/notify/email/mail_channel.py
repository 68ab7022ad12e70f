"""Mail: building messages, and the channel that sends them."""

from collections.abc import Callable, Iterator, Sequence
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime, localtime, make_msgid
from typing import Final

from anyio import move_on_after

from safetyd.notify.channel import (
    HOUR_S,
    MINUTE_S,
    Channel,
    ChannelContext,
    Limits,
    Misconfigured,
    Rate,
    Receipt,
    Undeliverable,
)
from safetyd.notify.email.channel import EmailConfig
from safetyd.notify.email.mail_addresses import bare
from safetyd.notify.message import Notice
from safetyd.notify.sanitize import one_line
from safetyd.notify.shortening import of_lines, versions

MAX_BYTES: Final = 100_000  # some mail programs cut longer mails

Mark = Callable[[str, str], str]  # takes a message and a request

_REPLY_CHARS: Final = 100
_SMTP: Final = policy.SMTP.clone(cte_type="7bit")  # some servers do not accept 8-bit content
# Python encodes an id of an earlier mail that is longer than a line, and then nobody finds it.
_UNFOLDED: Final = _SMTP.clone(max_line_length=990)


def mail(
    notice: Notice, sender: str, host: str, reply_to: str = "", mark: Mark | None = None
) -> EmailMessage:
    """Return a message of at most 100 kB, ready to be sent.

    `host` is the name of this machine. Every copy of a message has the same id, and all messages
    about one request are in one thread. With `reply_to`, recipients can answer by reply; the id
    then has a `mark` for each request whose code the message shows.
    """
    message = EmailMessage()
    short = of_lines(notice, lambda version: _text(version, reply_to))
    for version in versions(short, MAX_BYTES // 2):
        message = _message(version, sender, host, reply_to, mark)
        if len(message.as_bytes()) <= MAX_BYTES:
            break
    return message


class Mail(Channel):
    """The channel. It also reads replies, with the password `inbox` of their mailbox."""

    name = "email"
    limits = Limits(deadline_s=30.0, concurrency=2, rates=(Rate(20, MINUTE_S), Rate(200, HOUR_S)))

    def __init__(
        self, config: EmailConfig, password: str, context: ChannelContext, inbox: str = ""
    ) -> None:
        # Importing the library takes a tenth of a second, so open the channel in a thread.
        from safetyd.notify.email.mail_replies import MailReplies  # noqa: PLC0415
        from safetyd.notify.email.smtp import Submission  # noqa: PLC0415

        self._config = config
        self._host = context.host
        self._mark = context.signer.mark
        self._submission = Submission(config, password, context.host)
        self._replies = MailReplies(
            config,
            inbox,
            context,
            send=self._answer,
            refuse=self._count_refused,
            report=self._report,
        )

    async def run(self) -> None:
        if self._config.replies:
            await self._replies.run()

    async def send(self, notice: Notice) -> Receipt:
        sender = self._sender()
        recipient = bare(notice.address)
        if recipient is None:
            raise Undeliverable(f"the mail address of {notice.recipient} is not valid")
        reply_to = self._config.reply_to if self._config.replies else ""
        message = mail(notice, self._config.from_, self._host, reply_to, self._mark)
        reply = await self._submission.take(sender, recipient, message.as_bytes())
        return Receipt("accepted", one_line(reply, _REPLY_CHARS))

    async def _answer(self, recipient: str, message: EmailMessage) -> None:
        """Send an answer to a reply."""
        message["From"] = _from(self._config.from_)
        message["To"] = recipient
        message["Reply-To"] = self._config.reply_to
        message["Date"] = format_datetime(localtime())
        message["Message-ID"] = make_msgid(domain=self._host)
        content = message.as_bytes(policy=_UNFOLDED)
        with move_on_after(self.limits.deadline_s):
            await self._submission.take(self._sender(), recipient, content)

    def _sender(self) -> str:
        sender = bare(self._config.from_)
        if sender is None:
            raise Misconfigured("notifications.email.from is not a mail address")
        return sender

    def _count_refused(self) -> None:
        self.refused += 1

    def _report(self, said: str) -> None:
        self.reads = said


def _text(notice: Notice, reply_to: str) -> str:
    return notice.rendered("mail.txt", replies=bool(_coded(notice, reply_to)))


def _coded(notice: Notice, reply_to: str) -> list[str]:
    """Return the requests and sets that a reply can answer."""
    return [card.id for card in notice.cards if card.code] if reply_to else []


def _message(
    notice: Notice, sender: str, host: str, reply_to: str, mark: Mark | None
) -> EmailMessage:
    coded = _coded(notice, reply_to)
    marks = [mark(notice.delivery, ref) for ref in coded] if mark else []
    message = EmailMessage(policy=_SMTP)
    for name, value in _headers(notice, host, marks):
        message[name] = value
    message["From"] = _from(sender)
    message["To"] = notice.address
    if reply_to:
        message["Reply-To"] = reply_to
    message.set_content(_text(notice, reply_to))
    message.add_alternative(notice.rendered("mail.html", replies=bool(coded)), subtype="html")
    return message


def _from(sender: str) -> str | Address:
    return sender if "<" in sender else Address("safetyd", addr_spec=sender)


def _headers(notice: Notice, host: str, marks: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "Subject", notice.subject
    yield "Date", format_datetime(notice.at)
    yield "Message-ID", f"<{'.'.join((notice.delivery, *marks))}@{host}>"
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
