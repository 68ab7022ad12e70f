"""Submit mail to a server.

Each message uses a new connection. Mail and password are sent only over encrypted connections,
except to this machine itself.
"""

import base64
import contextlib
import ssl
from typing import Final

import anyio
import anyio.to_thread
from aiosmtplib import (
    SMTP,
    SMTPDataError,
    SMTPException,
    SMTPRecipientRefused,
    SMTPResponseException,
)

from safetyd.host import is_this_machine
from safetyd.notify.channel import Misconfigured, Unavailable, Undeliverable
from safetyd.notify.email.channel import EmailConfig
from safetyd.notify.sanitize import one_line

# The sum of these timeouts is less than the deadline of an attempt, so that the error says which
# step was too slow.
CONNECT_S: Final = 10.0  # including encryption and login
ENVELOPE_S: Final = 5.0
CONTENT_S: Final = 13.0
GOODBYE_S: Final = 1.0

_LOGIN_NEEDED: Final = frozenset({530, 534, 535, 538})
_PERMANENT: Final = 500
_WORDS: Final = 200  # characters of a server's reply

Problem = Unavailable | Undeliverable | Misconfigured


class Submission:
    """Submits mail to a server. `own_name` is the name of this machine."""

    def __init__(self, config: EmailConfig, password: str, own_name: str) -> None:
        self._config = config
        self._host, self._port = config.server
        self._password = password
        self._own_name = own_name
        self._context: ssl.SSLContext | None = None

    async def take(self, sender: str, recipient: str, content: bytes) -> str:
        """Submit a message and return the server's reply, or raise a channel's error."""
        client = await self._client()
        try:
            return await self._hand_over(client, sender, recipient, content)
        except (SMTPException, OSError) as exc:
            raise self._problem(exc) from None
        finally:
            client.close()

    async def _hand_over(self, client: SMTP, sender: str, recipient: str, content: bytes) -> str:
        with anyio.fail_after(CONNECT_S):
            await client.connect()
        with anyio.fail_after(ENVELOPE_S):
            await client.mail(sender)
            await client.rcpt(recipient)
        try:
            with anyio.fail_after(CONTENT_S):
                reply = await client.data(content)
        except (TimeoutError, ConnectionError):
            why = f"{self._where} did not confirm that it accepted the message"
            raise Unavailable(why, ambiguous=True) from None
        await _say_goodbye(client)
        return reply.message

    async def _client(self) -> SMTP:
        if self._config.security == "none" and not is_this_machine(self._host):
            raise Misconfigured(f'{self._where} is another machine, so security must not be "none"')
        return SMTP(
            hostname=self._host,
            port=self._port,
            username=self._config.login_name or None,
            password=self._password if self._config.login_name else None,
            local_hostname=self._own_name,
            timeout=CONTENT_S,
            use_tls=self._config.security == "tls",
            start_tls=self._config.security == "starttls",
            tls_context=await self._tls(),
        )

    async def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            try:
                self._context = await anyio.to_thread.run_sync(trusting, self._config.ca_file)
            except OSError as exc:
                why = f"notifications.email.ca_file: {self._config.ca_file}: {exc.strerror}"
                raise Misconfigured(why) from None
        return self._context

    @property
    def _where(self) -> str:
        return f"{self._host}:{self._port}"

    def _problem(self, exc: SMTPException | OSError) -> Problem:
        """Return whichever of a channel's three errors fits. Its text omits the password."""
        fault = _tls_fault(exc)
        if fault is not None:
            return Misconfigured(f"{self._where}: {self._told(fault)}")
        if isinstance(exc, SMTPResponseException):
            return _refusal(exc)(f"{self._where}: {exc.code} {self._told(exc.message)}")
        if isinstance(exc, TimeoutError) and not str(exc):
            return Unavailable(f"{self._where} did not answer in time")
        if isinstance(exc, OSError):
            return Unavailable(f"{self._where}: {self._told(str(exc))}")
        # The server lacks a required feature: STARTTLS, or a login method.
        return Misconfigured(f"{self._where}: {self._told(str(exc))}")

    def _told(self, words: str) -> str:
        """Return the server's reply without secrets, which some servers repeat."""
        for secret in filter(None, _spellings(self._config.login_name, self._password)):
            words = words.replace(secret, "[password]")
        return one_line(words, _WORDS)


async def _say_goodbye(client: SMTP) -> None:
    """Close the session; errors no longer matter because the message was accepted."""
    with (
        anyio.move_on_after(GOODBYE_S, shield=True),
        contextlib.suppress(SMTPException, OSError),
    ):
        await client.quit()


def _refusal(exc: SMTPResponseException) -> type[Problem]:
    if exc.code < _PERMANENT:
        return Unavailable
    if exc.code in _LOGIN_NEEDED or not isinstance(exc, SMTPRecipientRefused | SMTPDataError):
        return Misconfigured  # the server would refuse all other messages, too
    return Undeliverable


def _tls_fault(exc: Exception) -> str | None:
    """Return the TLS error that caused an exception, if any."""
    for error in (exc, exc.__cause__):
        hung_up = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError)
        if isinstance(error, ssl.SSLError) and not hung_up:
            return getattr(error, "verify_message", "") or str(error)
    return None


def trusting(ca_file: str) -> ssl.SSLContext:
    """Return a context that also trusts the authority in a file, if one is named."""
    context = ssl.create_default_context()
    if ca_file:
        context.load_verify_locations(ca_file)
    return context


def _spellings(username: str, password: str) -> tuple[str, ...]:
    """Return a password in plain text and in the encodings of the two login methods."""
    if not password:
        return ()
    sent = (password, f"\0{username}\0{password}")
    return (password, *(base64.b64encode(each.encode()).decode() for each in sent))
