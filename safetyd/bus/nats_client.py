"""The NATS connection, hardened.

nats-py 2.16 goes deaf without a word on some inputs that any peer can send: bytes that are not
UTF-8 in a subject, reply or header, a vertical tab in a protocol line, a PONG that comes after its
flush was given up. This client reads the protocol strictly, hands messages straight to handlers
that take bytes, and never queues anything for a later connection. It overrides private methods,
which is why nats-py is pinned exactly; `tests/bus/test_client.py` attacks it.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from safetyd.core.messages.notice_header import HEADER, VALUE


@contextmanager
def _absent(name: str) -> Iterator[None]:
    """Let imports find no such library, unless it is loaded already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # Python takes it for "not there"
    try:
        yield
    finally:
        del sys.modules[name]


# For WebSockets, which nothing here uses, nats-py loads what a third of a command's time goes into.
with _absent("aiohttp"):
    import nats.errors
    from nats.aio.client import Client
    from nats.protocol.parser import PING, Parser

NatsError = nats.errors.Error
NoRespondersError = nats.errors.NoRespondersError

Handler = Callable[[bytes, bytes, bytes], None]  # subject, reply, payload

_MARK: Final = f"\r\n{HEADER}: {VALUE}\r\n".encode()
_HEADERS: Final = b"NATS/1.0%b\r\n" % _MARK

# More than this unsent means that the server does not read; what is added then would be stale.
MAX_UNSENT_BYTES: Final = 16 * 1024 * 1024
MAX_LINE_BYTES: Final = 4096


class StrictParser(Parser):
    """Splits protocol lines on spaces alone, as the server does."""

    async def parse(self, data: bytes = b"") -> None:
        buffer = self.buf  # a reset makes another one, for another connection
        if buffer:
            data = bytes(buffer) + data
            buffer.clear()
        start, pace = 0, self.nc.pace
        try:
            while (end := data.find(b"\r\n", start)) >= 0:
                line = data[start:end]
                if not line.startswith((b"MSG ", b"HMSG ")):
                    start = end + 2
                    await Parser(self.nc).parse(line + b"\r\n")
                    continue
                subject, sid, reply, header_size, size = _frame(line.split(b" "))
                body, after = end + 2, end + 4 + size
                if len(data) < after:
                    break
                start = after
                payload = data[body + header_size : body + size]
                handler = self.nc.handlers.get(sid)
                if handler is not None:
                    self.nc.hand_over(handler, subject, reply, payload)
                    if pace is not None and (rest_s := pace(size)):
                        await self.nc.rest(rest_s)
                else:
                    await self.nc._process_msg(  # noqa: SLF001
                        sid, subject, reply, payload, data[body : body + header_size] or None
                    )
        finally:
            buffer += data[start:]
        if end < 0 and len(buffer) > MAX_LINE_BYTES:
            raise nats.errors.ProtocolError("nats: a protocol line without an end")


def _frame(parts: list[bytes]) -> tuple[bytes, int, bytes, int, int]:
    """Return subject, sid, reply, header size and size of a message, from its line.

    The line is `MSG subject sid [reply] size` or `HMSG subject sid [reply] header_size size`.
    """
    try:
        if parts[0] == b"MSG":
            reply = parts[3] if len(parts) == 5 else b""  # noqa: PLR2004
            return parts[1], int(parts[2]), reply, 0, int(parts[-1])
        reply = parts[3] if len(parts) == 6 else b""  # noqa: PLR2004
        return parts[1], int(parts[2]), reply, int(parts[-2]), int(parts[-1])
    except (ValueError, IndexError):
        raise nats.errors.ProtocolError("nats: malformed MSG") from None


class HardenedClient(Client):
    """A nats-py client that no peer can make deaf.

    `failed` is told what a handler raised. `pace` takes the size of what was read and returns how
    long to rest before reading on.
    """

    def __init__(
        self,
        failed: Callable[[BaseException], None] | None = None,
        pace: Callable[[int], float] | None = None,
    ) -> None:
        super().__init__()
        self._ps = StrictParser(self)
        self.handlers: dict[int, Handler] = {}
        self._listeners: dict[int, Handler] = {}
        self.pace = pace
        self.unreadable = 0
        self.failed: BaseException | None = None
        self._told = failed

    async def handle(self, subject: str, handler: Handler, queue: str = "") -> None:
        """Call `handler` with every message, from the read loop itself: it must not wait."""
        subscription = await self.subscribe(subject, queue=queue, cb=_unused)
        self.handlers[subscription._id] = handler  # noqa: SLF001

    async def listen(self, subject: str, listener: Handler) -> None:
        """Call `listener` with what the daemon publishes there, and with no answer sent there."""
        subscription = await self.subscribe(subject, cb=_unused)
        self._listeners[subscription._id] = listener  # noqa: SLF001

    def hand_over(self, handler: Handler, subject: bytes, reply: bytes, payload: bytes) -> None:
        try:
            handler(subject, reply, payload)
        except Exception as exc:  # noqa: BLE001 - raised again where the whole process ends
            self.failed = exc
            if self._told is not None:
                self._told(exc)

    def send(self, data: bytes) -> bool:
        """Write ready-made commands at once; False if they were dropped, for nobody reads them."""
        writer = self._writer()
        if writer is None or writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            return False
        writer.write(data)
        return True

    async def rest(self, seconds: float) -> None:
        """Read nothing for a while; what is left of a lost connection is read at once."""
        if self._writer() is not None:
            await asyncio.sleep(seconds)

    def hang_up(self) -> None:
        """Drop the connection and whatever waits in it; another one is made at once."""
        writer = self._writer()
        if writer is not None:
            writer.transport.abort()

    def _writer(self) -> asyncio.StreamWriter | None:
        if not self.is_connected or self._transport is None:
            return None
        writer: asyncio.StreamWriter | None = getattr(self._transport, "_io_writer", None)
        return None if writer is None or writer.transport.is_closing() else writer

    async def _process_op_err(self, e: Exception) -> None:
        # What a frozen server has not read must not reach anybody later.
        self.hang_up()
        await super()._process_op_err(e)

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None
    ) -> None:
        listener = self._listeners.get(sid)
        if listener is None:
            await super()._process_msg(sid, subject, reply, data, headers)  # type: ignore[arg-type] # None is taken
        elif headers is not None and _MARK in headers:
            self.hand_over(listener, subject, reply, data)

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: Any
    ) -> Any:
        try:
            subject.decode("ascii")
            reply.decode("ascii")
        except UnicodeDecodeError:
            self.unreadable += 1
            return None
        return super()._build_message(sid, subject, reply, data, headers)

    async def _process_headers(self, headers: Any) -> Any:
        try:
            return await super()._process_headers(headers)
        except Exception:  # noqa: BLE001 - whatever a peer's header made the e-mail parser raise
            self.unreadable += 1
            return None

    async def _process_pong(self) -> None:
        while self._pongs and self._pongs[0].done():
            self._pongs.pop(0)
        self._pings_outstanding = 0
        if self._pongs:
            self._pongs.pop(0).set_result(True)
            self._pongs_received += 1

    async def _send_ping(self, future: Any = None) -> None:
        self._pongs.append(future or asyncio.get_running_loop().create_future())
        await self._send_command(PING)
        await self._flush_pending()


async def _unused(_message: Any) -> None:
    raise AssertionError("messages of this subscription are handed over by the parser")


def pub(subject: bytes, payload: bytes) -> bytes:
    """Build a PUB command."""
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)


def notice(subject: bytes, payload: bytes) -> bytes:
    """Build the same for what is published of the daemon's own accord."""
    size = len(_HEADERS)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, size, size + len(payload), _HEADERS, payload)
