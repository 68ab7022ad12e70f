"""Mail servers on the loopback: an honest one, and others that do what real ones do on bad days.

Each runs in a thread of its own, so that synchronous tests and whole journeys can use it too.
"""

import asyncio
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Literal, NamedTuple

import trustme
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

PATIENCE_S = 60.0
HANG = "hang"  # instead of an answer

Security = Literal["starttls", "tls", "none"]


class Login(NamedTuple):
    username: str
    password: str


class Received(NamedTuple):
    """One message as it arrived."""

    sender: str
    recipients: tuple[str, ...]
    message: EmailMessage
    encrypted: bool
    size: int

    @property
    def text(self) -> str:
        return self._part("plain")

    @property
    def page(self) -> str:
        return self._part("html")

    def _part(self, kind: str) -> str:
        part = self.message.get_body((kind,))
        assert part is not None
        content = part.get_content()
        assert isinstance(content, str)
        return content.replace("\r\n", "\n")


class MailServer:
    """What a server is asked to do, and what it has received."""

    def __init__(self, directory: Path, script: Mapping[str, str], login: Login | None) -> None:
        authority = trustme.CA()
        self.ca_file = directory / "ca.pem"
        authority.cert_pem.write_to_path(self.ca_file)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("localhost", "127.0.0.1").configure_cert(self.context)
        self.script = dict(script)  # by command: an answer, or HANG; a test may change it
        self.login = login
        self.port = 0
        self.connections = 0
        self.logins: list[str] = []  # by name
        self.received: list[Received] = []

    def wait(self, count: int = 1) -> list[Received]:
        """Return what arrived, as soon as it is so many messages."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.received) < count:
            assert time.monotonic() < deadline, f"{len(self.received)} of {count} mails came"
            time.sleep(0.01)
        return list(self.received)

    # The hooks of aiosmtpd, named as it wants them.

    async def handle_MAIL(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        return await self._said("MAIL") or self._taken(envelope, address)

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        envelope.rcpt_tos.append(address)
        return await self._said("RCPT") or "250 2.1.5 Ok"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        content = envelope.content
        assert isinstance(content, bytes)
        message = message_from_bytes(content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        assert server.transport is not None
        encrypted = server.transport.get_extra_info("sslcontext") is not None
        sender, recipients = envelope.mail_from or "", tuple(map(str, envelope.rcpt_tos))
        self.received.append(Received(sender, recipients, message, encrypted, len(content)))
        return await self._said("DATA") or "250 2.0.0 Ok: queued as 4bX1"

    async def handle_QUIT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        return await self._said("QUIT") or "221 Bye"

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: object
    ) -> AuthResult:
        assert isinstance(given, LoginPassword)
        self.logins.append(given.login.decode())
        if "AUTH" in self.script:
            answer = self.script["AUTH"].replace("PASSWORD", given.password.decode())
            return AuthResult(success=False, handled=False, message=answer)
        known = self.login
        right = known == Login(given.login.decode(), given.password.decode())
        return AuthResult(success=right, handled=False)

    def _taken(self, envelope: Envelope, address: str) -> str:
        envelope.mail_from = address
        return "250 2.1.0 Ok"

    async def _said(self, command: str) -> str:
        answer = self.script.get(command, "")
        if answer == HANG:
            await asyncio.Event().wait()
        return answer


@contextmanager
def mail_server(
    security: Security = "starttls",
    *,
    script: Mapping[str, str] | None = None,
    login: Login | None = None,
) -> Iterator[MailServer]:
    """Run a server that takes mail, after a login if one is given.

    `script` says otherwise, by command (MAIL, RCPT, DATA, QUIT, AUTH): "451 later", or HANG. The
    answer to DATA is the one to the whole content. With security "none" it offers no STARTTLS.
    """
    with tempfile.TemporaryDirectory() as directory:
        server = MailServer(Path(directory), script or {}, login)

        def protocol() -> SMTP:
            server.connections += 1
            made = SMTP(
                server,
                hostname="localhost",
                tls_context=server.context if security == "starttls" else None,
                require_starttls=security == "starttls",
                authenticator=server.authenticate,
                auth_require_tls=security == "starttls",
                loop=asyncio.get_running_loop(),
            )
            # Not as an argument: without STARTTLS that warns, and here a warning is an error.
            made._auth_required = login is not None
            return made

        with _running(protocol, server.context if security == "tls" else None) as server.port:
            yield server


class Dripping(asyncio.Protocol):
    """Greets one letter at a time and never gets to the end."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._drip()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._next.cancel()

    def _drip(self) -> None:
        self.transport.write(b"2")
        self._next = asyncio.get_running_loop().call_later(0.01, self._drip)


class Silent(asyncio.Protocol):
    """Takes a connection and says nothing."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport


class Talking(asyncio.Protocol):
    """Says one thing to everybody who connects, and hangs up."""

    def __init__(self, words: bytes) -> None:
        self._words = words

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self._words)
        transport.close()


@contextmanager
def odd_server(protocol: Callable[[], Any]) -> Iterator[int]:
    """Run a server that is hardly one, such as `Silent`, and yield its port."""
    with _running(protocol, None) as port:
        yield port


@contextmanager
def _running(protocol: Callable[[], Any], context: ssl.SSLContext | None) -> Iterator[int]:
    thread = _Thread(protocol, context)
    thread.start()
    try:
        assert thread.ready.wait(PATIENCE_S)
        yield thread.port
    finally:
        thread.end()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()


class _Thread(threading.Thread):
    def __init__(self, protocol: Callable[[], Any], context: ssl.SSLContext | None) -> None:
        super().__init__(daemon=True)
        self.ready = threading.Event()
        self.port = 0
        self._protocol = protocol
        self._context = context
        self._made: list[Any] = []

    def run(self) -> None:
        asyncio.run(self._serve())

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = await self._loop.create_server(self._connected, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        await self._over.wait()
        server.close()
        for each in self._made:
            if each.transport is not None:
                each.transport.abort()
        await asyncio.sleep(0)

    def _connected(self) -> Any:
        made = self._protocol()
        self._made.append(made)
        return made
