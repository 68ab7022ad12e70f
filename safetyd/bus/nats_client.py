"""A hardened NATS client.

nats-py 2.16 silently stops receiving on some inputs that any peer can send: bytes that are not
UTF-8 in a subject, reply or header, a vertical tab in a protocol line, or a PONG after its flush
timed out. It also leaves a socket open after each attempt to reconnect that the server did not
answer. This client parses strictly, passes bytes to handlers directly, and never queues anything
for a later connection. It overrides private methods, so nats-py is pinned exactly.
`tests/bus/test_nats_client.py` sends it these inputs.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from safetyd.core.messages.notice_header import HEADER, VALUE


@contextmanager
def _absent(name: str) -> Iterator[None]:
    """Make imports of a library fail during the block, unless it is already loaded."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # an import then fails
    try:
        yield
    finally:
        del sys.modules[name]


# nats-py would import aiohttp for WebSockets, which are not used here. That takes a third of the
# run time of a command.
with _absent("aiohttp"):
    import nats.errors
    from nats.aio.client import Client
    from nats.aio.subscription import Subscription
    from nats.protocol.parser import PING, Parser

NatsError = nats.errors.Error
NoRespondersError = nats.errors.NoRespondersError

Handler = Callable[[bytes, bytes, bytes], None]  # subject, reply, payload

_MARK: Final = f"\r\n{HEADER}: {VALUE}\r\n".encode()
_HEADERS: Final = b"NATS/1.0%b\r\n" % _MARK

# If more than this is unsent, the server is not reading. New data would arrive too late.
MAX_UNSENT_BYTES: Final = 16 * 1024 * 1024
MAX_LINE_BYTES: Final = 4096


class StrictParser(Parser):
    """Splits protocol lines on spaces only, as the server does."""

    async def parse(self, data: bytes = b"") -> None:
        buffer = self.buf  # kept here, because a reset replaces `self.buf`
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
    """Return subject, sid, reply, header size and size from the line of a message.

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
    """A nats-py client that keeps receiving whatever its peers send.

    `failed` is called with exceptions of handlers. `pace` gets the size of each message and returns
    how many seconds to pause before the next is read.
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

    async def handle(self, subject: str, handler: Handler, queue: str = "") -> Subscription:
        """Subscribe. `handler` is called from the read loop, so it must not block."""
        subscription = await self.subscribe(subject, queue=queue, cb=_unused)
        self.handlers[subscription._id] = handler  # noqa: SLF001
        return subscription

    async def leave(self, subscription: Subscription) -> None:
        """Unsubscribe. Messages that the server has already sent are still handled."""
        await subscription.unsubscribe()

    async def listen(self, subject: str, listener: Handler) -> None:
        """Call `listener` for notices of the daemon on a subject. Other messages are ignored."""
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
        """Write complete protocol commands. Return False if they were dropped."""
        writer = self._writer()
        if writer is None or writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            return False
        writer.write(data)
        return True

    async def rest(self, seconds: float) -> None:
        """Sleep, unless the connection is lost. Nothing is read in the meantime."""
        if self._writer() is not None:
            await asyncio.sleep(seconds)

    def hang_up(self) -> None:
        """Drop the connection and all unsent data, and reconnect."""
        writer = self._writer()
        if writer is not None:
            writer.transport.abort()

    def _writer(self) -> asyncio.StreamWriter | None:
        if not self.is_connected or self._transport is None:
            return None
        writer: asyncio.StreamWriter | None = getattr(self._transport, "_io_writer", None)
        return None if writer is None or writer.transport.is_closing() else writer

    async def _process_connect_init(self) -> None:
        try:
            await super()._process_connect_init()
        except BaseException:
            # The next attempt opens another socket, and nobody would close this one.
            if self._transport is not None:
                self._transport.close()  # type: ignore[no-untyped-call]
            raise

    async def _process_op_err(self, e: Exception) -> None:
        # Drop data that a frozen server has not read: it must not be handled later.
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
    raise AssertionError("messages of this subscription are handled by the parser")


def pub(subject: bytes, payload: bytes) -> bytes:
    """Build a PUB command."""
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)


def notice(subject: bytes, payload: bytes) -> bytes:
    """Build an HPUB command with the header that marks notices of the daemon."""
    size = len(_HEADERS)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, size, size + len(payload), _HEADERS, payload)
