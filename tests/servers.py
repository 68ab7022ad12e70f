"""A real nats-server with JetStream, and connections to it."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import anyio
import nats.js.errors
import pytest

from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.subjects import STREAM
from tests.nats_process import NatsProcess

PATIENCE_S = 60.0  # with what never comes
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
