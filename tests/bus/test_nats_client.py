"""Attacks on the parser, split at every byte, and on a connection to a real server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import nats.errors
import pytest

from safetyd.bus.nats_client import MAX_LINE_BYTES, MAX_UNSENT_BYTES, HardenedClient, notice, pub
from tests.bus.peer import Peer, hpub
from tests.bus.peer import pub as raw_pub
from tests.nats_process import NatsProcess
from tests.servers import connected, down, frozen, until

HEARD_BY_A_HANDLER = 1
HEARD_BY_NATS_PY = 2

NOT_UTF8 = b"\xff\xfe"
HEADERS = {
    "status": b"NATS/1.0 \xff\xff\xff\r\n\r\n",
    "description": b"NATS/1.0 503 \xff\xfe\r\n\r\n",
    "key": b"NATS/1.0\r\n\xff\xfe: x\r\n\r\n",
    "value": b"NATS/1.0\r\nkey: \xff\xfe\r\n\r\n",
    "status without its last line end": b"NATS/1.0 503\r\n",
    "header without its last line end": b"NATS/1.0\r\nkey: value\r\n",
    "nothing after the version": b"NATS/1.0",
    "only a space after the version": b"NATS/1.0 ",
    "no colon": b"NATS/1.0\r\nnonsense\r\n\r\n",
    "vertical tab": b"NATS/1.0\r\nke\x0by: \x0c\r\n\r\n",
}


class Listener(HardenedClient):
    """Records the messages that its parser reads from a stream of bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[Any, ...]] = []
        self.handlers[HEARD_BY_A_HANDLER] = lambda *message: self.heard.append(("handed", *message))

    async def parse(self, *chunks: bytes) -> list[tuple[Any, ...]]:
        """Parse these chunks and return the recorded messages."""
        for chunk in chunks:
            await self._ps.parse(chunk)
        heard, self.heard = self.heard, []
        return heard

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: Any
    ) -> None:
        self.heard.append(("message", sid, subject, reply, data, headers))

    async def _process_ping(self) -> None:
        self.heard.append(("ping",))

    async def _process_pong(self) -> None:
        self.heard.append(("pong",))

    async def _process_info(
        self,
        info: dict[str, Any],
        initial_connection: bool = False,  # noqa: FBT001, FBT002 - the signature of nats-py
    ) -> None:
        self.heard.append(("info", info, initial_connection))

    async def _process_err(self, err_msg: str) -> None:
        self.heard.append(("error", err_msg))
        self._ps.reset()  # as a disconnection does


STREAM = b"".join(
    (
        b'INFO {"server_id":"x"}\r\n',
        b"PING\r\n",
        b"+OK\r\n",
        b"MSG a.b 1 5\r\nhello\r\n",
        b"MSG a.b 1 _R_.x 0\r\n\r\n",
        b"MSG a.b 2 reply 12\r\nMSG x 1 2\r\n.\r\n",
        b"HMSG a.b 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
        b"HMSG a.b 2 _R_.y 12 12\r\nNATS/1.0\r\n\r\n\r\n",
        b"MSG a\x0bb 1 r\x0c\xff 1\r\n\xff\r\n",
        b"PONG\r\n",
    )
)
HEARD = [
    ("info", {"server_id": "x"}, False),
    ("ping",),
    ("handed", b"a.b", b"", b"hello"),
    ("handed", b"a.b", b"_R_.x", b""),
    ("message", 2, b"a.b", b"reply", b"MSG x 1 2\r\n.", None),
    ("handed", b"a.b", b"", b"hi"),
    ("message", 2, b"a.b", b"_R_.y", b"", b"NATS/1.0\r\n\r\n"),
    ("handed", b"a\x0bb", b"r\x0c\xff", b"\xff"),
    ("pong",),
]


async def test_parser_reads_a_whole_stream() -> None:
    assert await Listener().parse(STREAM) == HEARD


async def test_parser_reads_a_stream_split_at_any_byte() -> None:
    for at in range(1, len(STREAM)):
        assert await Listener().parse(STREAM[:at], STREAM[at:]) == HEARD, f"split at {at}"


async def test_parser_reads_a_stream_byte_by_byte() -> None:
    assert await Listener().parse(*(STREAM[i : i + 1] for i in range(len(STREAM)))) == HEARD


@pytest.mark.parametrize("white", [b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\xa0", b"\xff"])
async def test_only_spaces_separate_words(white: bytes) -> None:
    # A parser that splits at other white space would read the sender's 1 as the subscription.
    line = b"MSG a.x%b1 2 4\r\nspam\r\n" % white

    assert await Listener().parse(line) == [("message", 2, b"a.x%b1" % white, b"", b"spam", None)]


@pytest.mark.parametrize(
    "line",
    [
        b"MSG a\r\n",
        b"MSG a x 4\r\n",
        b"MSG a 1 x\r\n",
        b"HMSG a 1 x 4\r\n",
        b"NONSENSE\r\n",
        b"\r\n",
        b"MSG" + b" a" * MAX_LINE_BYTES,
    ],
)
async def test_invalid_line_is_a_protocol_error(line: bytes) -> None:
    with pytest.raises(nats.errors.ProtocolError):
        await Listener().parse(line)


async def test_parser_waits_for_a_message_of_any_size() -> None:
    payload = b"x" * 100_000
    message = b"MSG a 1 100000\r\n" + payload + b"\r\n"

    heard = await Listener().parse(*(message[i : i + 999] for i in range(0, len(message), 999)))

    assert heard == [("handed", b"a", b"", payload)]


async def test_partial_message_of_a_lost_connection_is_discarded() -> None:
    listener = Listener()

    lost = await listener.parse(b"-ERR 'Stale Connection'\r\nMSG a.b 1 5\r\nhel")
    fresh = await listener.parse(b"PING\r\n")

    assert lost == [("error", "'stale connection'")]
    assert fresh == [("ping",)]


async def test_failure_in_a_handler_is_stored_and_reported() -> None:
    reported: list[BaseException] = []
    client = HardenedClient(reported.append)

    client.hand_over(lambda *_: 1 / 0, b"a", b"", b"")  # type: ignore[arg-type]

    assert [type(failure) for failure in reported] == [ZeroDivisionError]
    assert client.failed is reported[0]


class Said(NamedTuple):
    subject: bytes
    reply: bytes
    payload: bytes


class Listeners:
    """A client that receives with a handler and a nats-py subscription, and its server."""

    def __init__(self, client: HardenedClient, bus: NatsProcess) -> None:
        self.client = client
        self.bus = bus
        self.handed: list[Said] = []
        self.received: list[bytes] = []

    async def listen(self) -> None:
        await self.client.handle("handed.>", lambda *said: self.handed.append(Said(*said)))
        await self.client.subscribe("received.>", cb=self._receive)
        await self.client.flush()

    async def hear_next(self) -> None:
        """Return after a valid message reached both."""
        handed, received = Said(b"handed.good", b"", b"good"), b"good"
        with Peer(self.bus.url) as peer:
            peer.publish("handed.good", b"good")
            peer.publish("received.good", b"good")
            peer.settle()
        await until(lambda: handed in self.handed and received in self.received, 1.0)

    async def _receive(self, message: Any) -> None:
        self.received.append(message.data)


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsProcess]:
    bus = NatsProcess(tmp_path_factory.mktemp("bus"))
    yield bus
    bus.stop()


@pytest.fixture
async def listeners(bus: NatsProcess) -> AsyncIterator[Listeners]:
    async with connected(bus.url) as client:
        listeners = Listeners(client, bus)
        await listeners.listen()
        yield listeners


@pytest.mark.parametrize("white", [b"\x0b", b"\x0c", NOT_UTF8])
async def test_no_subject_or_reply_stops_the_client_from_receiving(
    listeners: Listeners, white: bytes
) -> None:
    with Peer(listeners.bus.url) as peer:
        for to in (b"handed", b"received"):
            peer.send(raw_pub(b"%b.x%b1" % (to, white), b"spam"))
            peer.send(raw_pub(b"%b.x" % to, b"spam", reply=b"r%b1" % white))
        peer.settle()

    await listeners.hear_next()
    assert [said.subject for said in listeners.handed[:2]] == [b"handed.x%b1" % white, b"handed.x"]
    assert listeners.handed[1].reply == b"r%b1" % white
    assert listeners.client.stats["reconnects"] == 0


async def test_message_that_nats_py_cannot_decode_is_dropped_and_counted(
    listeners: Listeners,
) -> None:
    with Peer(listeners.bus.url) as peer:
        peer.send(raw_pub(b"received." + NOT_UTF8, b"spam"))
        peer.send(raw_pub(b"received.x", b"spam", reply=NOT_UTF8))
        peer.settle()

    await listeners.hear_next()
    assert listeners.received == [b"good"]
    assert listeners.client.unreadable == 2


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
async def test_no_header_stops_the_client_from_receiving(
    listeners: Listeners, headers: bytes
) -> None:
    with Peer(listeners.bus.url) as peer:
        for to in (b"handed.x", b"received.x"):
            peer.send(hpub(to, headers, b"spam"))
        peer.settle()

    await listeners.hear_next()
    assert listeners.handed[0].payload == b"spam"
    assert listeners.client.stats["reconnects"] == 0


async def test_late_pong_of_a_timed_out_flush_is_harmless(listeners: Listeners) -> None:
    with frozen(listeners.bus):
        for _ in range(3):
            with pytest.raises(nats.errors.TimeoutError):
                await listeners.client.flush(timeout=0.05)  # type: ignore[arg-type]

    await listeners.client.flush()
    await listeners.hear_next()
    assert listeners.client.stats["reconnects"] == 0


async def test_unexpected_pong_is_harmless(listeners: Listeners) -> None:
    await listeners.client._process_pong()

    await listeners.hear_next()


async def test_flush_returns_after_the_server_processed_everything_before_it(
    listeners: Listeners,
) -> None:
    heard: list[bytes] = []
    with Peer(listeners.bus.url) as peer:
        for number in range(100):
            await listeners.client.handle(f"barrier.{number}", lambda *said: heard.append(said[0]))
            await listeners.client.flush()
            peer.publish(f"barrier.{number}")
        peer.settle()
        await listeners.client.flush()

    assert heard == [b"barrier.%d" % number for number in range(100)]


async def test_request_without_responders_fails_immediately(listeners: Listeners) -> None:
    with pytest.raises(nats.errors.NoRespondersError):
        await listeners.client.request("nobody.listens", b"", timeout=5)


async def test_queue_group_delivers_each_message_once(listeners: Listeners) -> None:
    heard: list[bytes] = []
    for _ in range(2):
        await listeners.client.handle(
            "shared", lambda *said: heard.append(said[2]), queue="workers"
        )
    await listeners.client.flush()

    listeners.client.send(pub(b"shared", b"once"))
    await listeners.client.flush()

    assert heard == [b"once"]


async def test_nothing_is_queued_while_disconnected(listeners: Listeners) -> None:
    with down(listeners.bus):
        await until(lambda: not listeners.client.is_connected)
        sent = listeners.client.send(pub(b"handed.stale", b"allow"))
        with pytest.raises(nats.errors.OutboundBufferLimitError):
            await listeners.client.publish("handed.stale", b"allow")

    await until(lambda: listeners.client.is_connected)
    await listeners.client.flush()
    await listeners.hear_next()
    assert not sent
    assert b"handed.stale" not in {said.subject for said in listeners.handed}


async def test_nothing_is_sent_before_the_first_connection() -> None:
    assert not HardenedClient().send(pub(b"a", b""))


async def test_frozen_server_does_not_fill_memory(listeners: Listeners) -> None:
    chunk, taken = pub(b"spam", b"x" * 500_000), 0
    with frozen(listeners.bus):
        while listeners.client.send(chunk):
            taken += len(chunk)
            assert taken < 4 * MAX_UNSENT_BYTES

    await until(lambda: listeners.client.send(pub(b"handed.again", b"")))
    await listeners.hear_next()
    assert taken >= MAX_UNSENT_BYTES


async def test_messages_that_a_frozen_server_did_not_read_are_never_delivered(
    listeners: Listeners,
) -> None:
    with Peer(listeners.bus.url) as peer:
        peer.subscribe("numbered")
        peer.settle()
        with frozen(listeners.bus):
            for number in range(40):
                listeners.client.send(pub(b"numbered", b"%03d" % number + b"x" * 500_000))
            await listeners.client._process_op_err(nats.errors.StaleConnectionError())
        await until(lambda: listeners.client.is_connected)
        await listeners.client.flush()

        arrived = [message.payload[:3] for message in peer.settle()]

    assert b"039" not in arrived
    await listeners.hear_next()


async def test_closed_client_does_not_reconnect(bus: NatsProcess) -> None:
    async with connected(bus.url) as client:
        await client.close()
        await client._process_op_err(nats.errors.StaleConnectionError())
        await asyncio.sleep(0)

        assert client.is_closed
        assert not client.send(b"PING\r\n")


async def test_connection_with_a_pace_pauses_until_it_is_closed(listeners: Listeners) -> None:
    rested = asyncio.Event()

    def pace(_size: int) -> float:
        rested.set()
        return 0.2

    listeners.client.pace = pace
    with Peer(listeners.bus.url) as peer:
        for number in range(1000):
            peer.publish("handed.many", b"%d" % number)
        peer.settle()
    await rested.wait()
    heard = len(listeners.handed)
    listeners.client.hang_up()
    await until(lambda: listeners.client.stats["reconnects"])

    assert heard < 3
    listeners.client.pace = None
    await listeners.hear_next()


async def test_listener_receives_only_marked_notices(listeners: Listeners) -> None:
    heard: list[bytes] = []
    await listeners.client.listen("events", lambda _subject, _reply, payload: heard.append(payload))
    await listeners.client.flush()
    with Peer(listeners.bus.url) as peer:
        peer.publish("events", b"bare")
        peer.send(hpub(b"events", b"NATS/1.0 503\r\n\r\n", b"status"))
        peer.send(hpub(b"events", b"NATS/1.0\r\nX: Safetyd-Notice: 1\r\n\r\n", b"quoted"))
        peer.send(notice(b"events", b"marked"))
        peer.settle()

    await until(lambda: heard)

    assert heard == [b"marked"]
