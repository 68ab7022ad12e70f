"""Settings of e-mail."""

from collections.abc import Callable
from typing import Annotated, ClassVar, Final, Literal

import anyio.to_thread
import msgspec

from safetyd.core.recipients import ChannelKind
from safetyd.host import is_this_machine
from safetyd.notify.channel import (
    Channel,
    ChannelContext,
    Hints,
    Limits,
    PersonalTable,
    Port,
    Preview,
    Problems,
    needed,
)
from safetyd.notify.message import Notice

_HOSTS: Final = {
    "smtp": "",
    "sendgrid": "smtp.sendgrid.net",
    "ses": "email-smtp.{region}.amazonaws.com",
}


_LOGIN: Final = "check username and password_file; many providers require an app password"
_NO_TLS: Final = (
    'this port does not use TLS from the start: set security = "starttls" or smtp_port = 465'
)
_NO_STARTTLS: Final = (
    'set security = "tls" and smtp_port = 465 if the server uses TLS from the start, '
    'or security = "none" if it is on this machine and has no TLS'
)
_NO_RESULTS: Final = (
    "is empty; set it to the name with which the mailbox's server begins its header "
    "Authentication-Results, or set trust_unsigned = true if the server adds none. Then anyone who "
    "knows a code can approve with a forged sender"
)


class EmailConfig(PersonalTable, frozen=True, kw_only=True):
    from_: str = msgspec.field(name="from", default="")
    provider: Literal["smtp", "sendgrid", "ses"] = "smtp"
    smtp_host: str = ""
    smtp_port: Port = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str = ""
    password_file: str = ""
    ca_file: str = ""  # additional certificate authority
    region: str = "us-east-1"  # for provider "ses"
    replies: bool = False  # read answers from a mailbox
    reply_to: str = ""  # the address of that mailbox
    imap_host: str = ""
    imap_port: Port = 993
    imap_security: Literal["tls", "starttls", "none"] = "tls"
    imap_username: str = ""  # empty: `reply_to`
    imap_password_file: str = ""
    imap_folder: str = "INBOX"
    imap_poll_seconds: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 15.0
    authserv_id: str = ""  # the name under which the mailbox's server reports valid signatures
    trust_unsigned: bool = False  # without `authserv_id`: the sender's address is enough

    kind: ClassVar[ChannelKind] = "email"
    rank: ClassVar[int] = 20
    secret_files: ClassVar[tuple[str, ...]] = ("password_file", "imap_password_file")
    hints: ClassVar[Hints] = (
        ("auth extension", "remove username and password_file: the server offers no login"),
        ("535", _LOGIN),
        ("authentic", _LOGIN),
        ("certificate", "set ca_file if your own authority signed the server's certificate"),
        ("wrong_version", _NO_TLS),
        ("starttls", _NO_STARTTLS),
    )

    @property
    def server(self) -> tuple[str, int]:
        """The host and port of the mail server. `provider` sets the default host."""
        known = _HOSTS[self.provider].format(region=self.region)
        return self.smtp_host or known, self.smtp_port

    @property
    def login_name(self) -> str:
        """The user name for the login; SendGrid uses the same one for all accounts."""
        return self.username or ("apikey" if self.provider == "sendgrid" else "")

    @classmethod
    def wrong_address(cls, address: str) -> str:
        plain = address.isascii() and address.isprintable() and " " not in address
        return "" if "@" in address and plain else f"{address!r} is not a mail address"

    def problems(self) -> Problems:
        yield from needed(from_=self.from_)
        if self.provider == "smtp":
            yield from needed(smtp_host=self.smtp_host)
        if self.smtp_host.count(":") == 1:
            yield "smtp_host", f"is {self.smtp_host!r}; set the port in smtp_port"
        if self.security == "none" and not is_this_machine(self.smtp_host):
            yield "security", 'is "none", which is allowed only for a mail server on this machine'
        if self.login_name and not self.password_file:
            yield "password_file", "is empty; it is required with a username"
        if self.replies:
            yield from self._reply_problems()

    def _reply_problems(self) -> Problems:
        for name in ("reply_to", "imap_host", "imap_password_file"):
            if not getattr(self, name):
                yield name, "is empty; it is required if replies = true"
        if self.reply_to and self.wrong_address(self.reply_to):
            yield "reply_to", self.wrong_address(self.reply_to)
        if self.imap_security == "none" and not is_this_machine(self.imap_host):
            yield "imap_security", 'is "none", which is allowed only for a server on this machine'
        if self.provider == "ses":
            yield "replies", "does not work with SES, which replaces the ids of mails"
        if not self.authserv_id and not self.trust_unsigned:
            yield "authserv_id", _NO_RESULTS

    async def check(self, read: Callable[[str], str]) -> str:
        if not self.replies:
            return ""
        from safetyd.notify.email.imap_folder import ImapFolder  # noqa: PLC0415 - if configured

        folder = ImapFolder(self, read(self.imap_password_file))
        try:
            count = await anyio.to_thread.run_sync(folder.open, abandon_on_cancel=True)
        finally:
            folder.close()
        return f"replies are read from {folder.name}, which has {count:,} mails"

    async def open(self, name: str, context: ChannelContext) -> Channel:  # noqa: ARG002
        from safetyd.notify.email.mail_channel import Mail  # noqa: PLC0415 - only if configured

        password = context.secret(self.password_file)
        inbox = context.secret(self.imap_password_file) if self.replies else ""
        return await anyio.to_thread.run_sync(Mail, self, password, context, inbox)

    def limits(self) -> Limits:
        from safetyd.notify.email.mail_channel import Mail  # noqa: PLC0415 - only if configured

        return Mail.limits

    def preview(self, notice: Notice) -> Preview:
        from safetyd.notify.email.mail_channel import mail  # noqa: PLC0415 - only if configured

        reply_to = self.reply_to if self.replies else ""
        message = mail(notice, self.from_ or "safetyd@localhost", "localhost", reply_to)
        text, page = (part.get_content() for part in message.iter_parts())
        return Preview(
            subject=message["Subject"],
            text=f"Subject: {message['Subject']}\n\n{text}",
            size=f"{len(message.as_bytes())} bytes",
            html=page,
        )


CHANNEL = EmailConfig
