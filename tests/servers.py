"""A real nats-server with JetStream, and connections to it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import anyio
import nats.js.errors
import pytest

from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.subjects import STREAM
from tests.nats_process import NatsProcess
from tests.tcp_links import TcpLinks

PATIENCE_S = 60.0  # with what never comes
DELIVERED = "$JS.ACK."  # in the reply subject of each message that a consumer gets
CONFIG = 'max_payload: 256KB\njetstream {{ store_dir: "{}", sync_interval: always }}\n'


@pytest.fixture(scope="session")
def jetstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsProcess]:
    """One server for all tests; a test that freezes or stops it resumes it."""
    directory = tmp_path_factory.mktemp("jetstream")
    bus = NatsProcess(directory, CONFIG.format(directory))
    yield bus
    bus.stop()


async def until(happens: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Poll until the condition holds."""
    with anyio.fail_after(patience_s):
        while not happens():  # noqa: ASYNC110 - see above
            await anyio.sleep(0.01)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[HardenedClient]:
    client = HardenedClient()
    await client.connect(
        url,
        inbox_prefix="_INBOX.daemon",
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.05,  # type: ignore[arg-type] # annotated int, slept as is
        pending_size=-1,
    )
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
async def client(jetstream: NatsProcess) -> AsyncIterator[HardenedClient]:
    """A connection to a server without a journal."""
    async with connected(jetstream.url) as client:
        await forget_journal(client, jetstream)
        yield client


async def forget_journal(client: HardenedClient, bus: NatsProcess) -> None:
    with suppress(nats.js.errors.NotFoundError):
        await client.jetstream(timeout=PATIENCE_S).delete_stream(STREAM)
    # The server deletes files after its answer, and may fail to create new ones until then.
    removed = bus.directory / "jetstream" / "$G" / "streams" / f".{STREAM}"
    await until(lambda: not removed.exists())


@contextmanager
def frozen(bus: NatsProcess) -> Iterator[None]:
    bus.freeze()
    try:
        yield
    finally:
        bus.thaw()


@contextmanager
def down(bus: NatsProcess) -> Iterator[None]:
    """Kill the server and start it again on its files."""
    bus.stop()
    try:
        yield
    finally:
        bus.start()


class TornLink:
    """An address of a server whose connection can be lost while the server delivers."""

    def __init__(self, bus: NatsProcess) -> None:
        self._links = TcpLinks()
        self.url = f"nats://127.0.0.1:{self._links.add('bus')}"
        self._links.aim("bus", int(bus.url.rpartition(":")[2]))

    def tear_at(self, delivered: int) -> None:
        """Lose the connection, and this message of a consumer with it, counted from now on."""
        self._links.tear("bus", DELIVERED, delivered)

    @property
    def torn(self) -> bool:
        return self._links.torn("bus")

    def close(self) -> None:
        self._links.close()


@pytest.fixture
def torn_link(jetstream: NatsProcess) -> Iterator[TornLink]:
    link = TornLink(jetstream)
    yield link
    link.close()
