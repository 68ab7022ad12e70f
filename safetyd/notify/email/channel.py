"""Settings of e-mail."""

from typing import ClassVar, Final, Literal

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

    kind: ClassVar[ChannelKind] = "email"
    rank: ClassVar[int] = 20
    secret_files: ClassVar[tuple[str, ...]] = ("password_file",)
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

    async def open(self, name: str, context: ChannelContext) -> Channel:  # noqa: ARG002
        from safetyd.notify.email.mail_channel import Mail  # noqa: PLC0415 - only if configured

        password = context.secret(self.password_file)
        return await anyio.to_thread.run_sync(Mail, self, password, context.host)

    def limits(self) -> Limits:
        from safetyd.notify.email.mail_channel import Mail  # noqa: PLC0415 - only if configured

        return Mail.limits

    def preview(self, notice: Notice) -> Preview:
        from safetyd.notify.email.mail_channel import mail  # noqa: PLC0415 - only if configured

        message = mail(notice, self.from_ or "safetyd@localhost", "localhost")
        text, page = (part.get_content() for part in message.iter_parts())
        return Preview(
            subject=message["Subject"],
            text=f"Subject: {message['Subject']}\n\n{text}",
            size=f"{len(message.as_bytes())} bytes",
            html=page,
        )


CHANNEL = EmailConfig
