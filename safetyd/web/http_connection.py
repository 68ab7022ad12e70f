"""Connections of HTTP clients and hooks. Each is counted for its sender while it is open."""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, cast

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.http_exceptions import LineTooLong

from safetyd.agents.sender_accounts import Account, OverLimit, SenderAccounts, of_user
from safetyd.web.throttle import network_of

KEPT_S: Final = 15.0
MAX_IGNORED_BYTES: Final = 256 * 1024  # of a refused body that is read to its end
READ_BYTES: Final = 16 * 1024  # at a time, so that large bodies do not delay small ones
MAX_HEAD_BYTES: Final = 64 * 1024  # of a request that has not begun
PEER: Final = struct.Struct("3i")  # pid, uid and gid of the process at the other end
BUSY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
)


class HttpConnection(web.RequestHandler):
    """A connection, which never repeats a malformed request: it may contain a token.

    It is closed if no request begins in time, or to make room for another one of its sender.
    """

    __slots__ = ("_accounts", "_deadline", "_head_bytes", "_requests", "account", "peer")

    account: Account | None  # None before it is made, and if there was no room

    def __init__(self, server: web.Server, accounts: SenderAccounts) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type] # annotated Logger, and None is taken
            keepalive_timeout=KEPT_S,
            read_bufsize=READ_BYTES // 2,  # twice as much is buffered at most
            auto_decompress=False,  # a small compressed body could expand to a very large one
        )
        self._accounts = accounts
        self._deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._requests = 0  # that have begun
        self.account = None
        self.peer = ""  # the account of the local user or address

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        transport.max_size = READ_BYTES  # type: ignore[attr-defined] # of asyncio's transports
        try:
            self.peer = _peer(transport)
            self.account = self._accounts.connect(self.peer, self)
        except OverLimit as exc:
            text = f"{exc}\n".encode()
            cast("asyncio.Transport", transport).write(BUSY % (len(text), text))
            self.drop()
            return
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self.account.limits.head_s, self.drop)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._requests != self._request_count:
            self._requests, self._head_bytes = self._request_count, 0
            self._begun()
        elif self._waiter is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.drop()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._begun()
        if self.account is not None:
            self._accounts.disconnect(self.account, self)
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the connection now."""
        self.force_close()

    @contextmanager
    def protected(self, name: str = "") -> Iterator[None]:
        """Do not close the connection to make room meanwhile. It belongs to this account now."""
        if self.account is None:
            yield
            return
        if name:
            self.account = self._accounts.move(self.account, self, name)
        with self._accounts.protected(self.account, self):
            yield

    def keep_open(self) -> None:
        """Never close the connection to make room: it belongs to an open page."""
        if self.account is not None:
            self.account.idle.pop(self, None)

    def cut_off(self) -> None:
        """Close the connection after the answer, without reading the rest of the body."""
        self._lingering_time = 0.0

    def _begun(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        crammed = isinstance(exc, LineTooLong)
        if isinstance(exc, HttpProcessingError):
            exc, message = None, "this is not HTTP\n"
        response = super().handle_error(request, status, exc, message)
        if crammed:  # browsers also send cookies of other ports, which can make a header too long
            response.headers["Clear-Site-Data"] = '"cookies"'
        return response


def connections(
    server: web.Server | None, accounts: SenderAccounts
) -> Callable[[], HttpConnection]:
    """Return the function that makes the connections of a server."""
    return partial(HttpConnection, cast("web.Server", server), accounts)


def connection_of(request: web.Request) -> HttpConnection | None:
    """Return the connection of a request, or None if it is closed."""
    return request.protocol if isinstance(request.protocol, HttpConnection) else None


def cut_off(request: web.Request) -> None:
    """Do not read the rest of a long body after the answer, which the client may then not see."""
    connection = connection_of(request)
    if connection is not None and (request.content_length or 0) > MAX_IGNORED_BYTES:
        connection.cut_off()


def peer_account(request: web.Request) -> str:
    """Return the account of the local user or address that sent a request."""
    connection = connection_of(request)
    return "" if connection is None else connection.peer


def uid_of(request: web.Request) -> int | None:
    """Return the user of the process at the other end of a Unix socket."""
    return None if request.transport is None else _uid(request.transport)


def _peer(transport: asyncio.BaseTransport) -> str:
    """Return the account of a connection whose sender is not known yet."""
    opened = transport.get_extra_info("socket")
    if opened.family == socket.AF_UNIX:
        return of_user(_uid(transport)).account
    address = transport.get_extra_info("peername")
    return f"address:{network_of(address[0]) if address else 'unknown'}"


def _uid(transport: asyncio.BaseTransport) -> int | None:
    opened = transport.get_extra_info("socket")
    try:
        peer = opened.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
    except OSError:
        return None
    return int(PEER.unpack(peer)[1])
