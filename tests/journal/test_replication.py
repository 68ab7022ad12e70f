"""Streams of a real cluster: how many nodes store them, and how replicas are added."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import nats.errors
import nats.js.api as js_api
import nats.js.errors
import pytest

from safetyd.bus.bus_nodes import bus_nodes
from safetyd.bus.keyring import seed_in
from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.server_config import MAX_JOURNAL_BYTES, MAX_STORE_BYTES
from safetyd.bus.stream_replicas import ReplicaPeer, StreamReplicas, stream_replicas
from safetyd.bus.subjects import STREAM, Subjects
from safetyd.clock import boottime
from safetyd.host import Unusable
from safetyd.journal.checkpoint_bucket import BUCKET, CheckpointBucket
from safetyd.journal.checkpoints import Checkpoints
from safetyd.journal.replication import add_replicas, open_stream
from safetyd.journal.stream import JetStreamJournal
from tests.nats_cluster import NAMES, NatsCluster, running_cluster
from tests.servers import until

BUCKET_STREAM = f"OBJ_{BUCKET}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@asynccontextmanager
async def connected(cluster: NatsCluster) -> AsyncIterator[HardenedClient]:
    client = HardenedClient()
    await client.connect(
        cluster.url.split(","),
        nkeys_seed_str=seed_in(cluster.keys.daemon),
        inbox_prefix="_INBOX.daemon",
        max_reconnect_attempts=-1,
        ping_interval=1,
    )
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
async def daemon(cluster: NatsCluster) -> AsyncIterator[HardenedClient]:
    """A connection to a cluster without streams."""
    async with connected(cluster) as client:
        js = client.jetstream()
        for name in (STREAM, BUCKET_STREAM):
            with suppress(nats.js.errors.NotFoundError):
                await js.delete_stream(name)
        yield client


async def found(client: HardenedClient, wanted: int = 3) -> dict[str, StreamReplicas]:
    nodes = {node.name for node in await bus_nodes(client)}
    return {stream.name: stream for stream in await stream_replicas(client, wanted, nodes)}


async def current(cluster: NatsCluster, *streams: str) -> None:
    for stream in streams:
        await anyio.to_thread.run_sync(cluster.wait_until_current, stream)


async def test_journal_and_checkpoints_of_the_full_size_are_stored_on_every_node(
    cluster: NatsCluster, daemon: HardenedClient, tmp_path: Path
) -> None:
    await JetStreamJournal(daemon, Subjects(), "boot").open(MAX_JOURNAL_BYTES, 3)
    await CheckpointBucket(daemon, 3).fetch(Checkpoints(tmp_path))
    await daemon.jetstream().create_key_value(bucket="SAFETY_KEYS", replicas=3, max_bytes=2**20)
    await daemon.jetstream().add_stream(name="OTHER", subjects=["other"], max_bytes=2**20)
    await current(cluster, STREAM, BUCKET_STREAM, "KV_SAFETY_KEYS")

    streams = await found(daemon)

    assert set(streams) == {STREAM, BUCKET_STREAM, "KV_SAFETY_KEYS"}
    for stream in streams.values():
        assert (stream.replicas, stream.wanted, stream.current) == (3, 3, 3)
        assert {stream.leader, *(peer.name for peer in stream.peers)} == set(NAMES)


async def test_replicas_are_added_in_place_while_batches_are_appended(
    cluster: NatsCluster, daemon: HardenedClient
) -> None:
    journal = JetStreamJournal(daemon, Subjects(), "boot")
    await journal.open(2**20)
    before = (await daemon.jetstream().stream_info(STREAM)).config
    written: list[int] = []
    migrated = anyio.Event()

    async def append() -> None:
        while not migrated.is_set():
            written.append(await journal.append(f"batch {len(written)}".encode()))

    async with anyio.create_task_group() as tasks, connected(cluster) as other:
        tasks.start_soon(append)
        await JetStreamJournal(other, Subjects(), "second").open(2**20, 3)
        await current(cluster, STREAM)
        migrated.set()

    after = (await daemon.jetstream().stream_info(STREAM)).config
    assert after.as_dict() == {**before.as_dict(), "num_replicas": 3}
    assert written == list(range(1, len(written) + 1))
    again = JetStreamJournal(daemon, Subjects(), "third")
    await again.open(2**20, 3)
    lines = [line async for _, line in again.replay(0)]
    assert lines == [f"batch {n}".encode() for n in range(len(written))]


async def test_journal_that_is_replaced_on_several_nodes_is_lost_once_no_election_explains_it(
    cluster: NatsCluster, daemon: HardenedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.journal.stream.DEPOSED_S", 2.0)
    journal = JetStreamJournal(daemon, Subjects(), "boot")
    await journal.open(2**20, 3)
    for _ in range(3):
        await journal.append(b"ours")
    await daemon.jetstream().delete_stream(STREAM)

    async with connected(cluster) as other, anyio.create_task_group() as tasks:
        begun_t = boottime()
        await (fresh := JetStreamJournal(other, Subjects(), "other")).open(2**20, 3)
        await fresh.append(b"theirs")
        tasks.start_soon(journal.append, b"ours")
        await until(lambda: journal.lost)
        tasks.cancel_scope.cancel()

    assert boottime() - begun_t >= 2.0
    assert "ends with batch 1, but batch 3 was written" in journal.lost


async def test_replicas_are_never_removed(cluster: NatsCluster, daemon: HardenedClient) -> None:
    await JetStreamJournal(daemon, Subjects(), "boot").open(2**20, 3)

    await JetStreamJournal(daemon, Subjects(), "boot2").open(2**20, 1)

    assert not await add_replicas(daemon, STREAM, 1)
    assert (await found(daemon))[STREAM].replicas == 3


async def test_too_little_room_and_too_few_nodes_are_named_with_the_fix(
    cluster: NatsCluster, daemon: HardenedClient
) -> None:
    js = daemon.jetstream()
    large = js_api.StreamConfig(
        name="SAFETY_LARGE", subjects=["large"], max_bytes=2 * MAX_STORE_BYTES, num_replicas=3
    )

    with pytest.raises(Unusable, match=r"too little room .* nats-config --cluster"):
        await open_stream(daemon, js, large)
    with pytest.raises(Unusable, match=r"too few nodes .* start 5 nodes"):
        await JetStreamJournal(daemon, Subjects(), "boot").open(2**20, 5)


async def test_single_server_refuses_replicas_and_says_how_to_get_a_cluster(
    client: HardenedClient,
) -> None:
    with pytest.raises(Unusable, match=r"single server; set journal\.replicas = 1"):
        await JetStreamJournal(client, Subjects(), "boot").open(2**20, 3)
    await JetStreamJournal(client, Subjects(), "boot").open(2**20, 1)
    with pytest.raises(Unusable, match=r"single server; set journal\.replicas = 1"):
        await JetStreamJournal(client, Subjects(), "boot").open(2**20, 3)


async def test_node_that_is_down_is_offline_and_later_current_again(
    cluster: NatsCluster, daemon: HardenedClient
) -> None:
    await JetStreamJournal(daemon, Subjects(), "boot").open(2**20, 3)
    await current(cluster, STREAM)
    leader = (await found(daemon))[STREAM].leader
    down = next(name for name in NAMES if name != leader)

    await anyio.to_thread.run_sync(cluster.kill, down)
    async with connected(cluster) as client:
        with anyio.fail_after(60):
            peers: list[ReplicaPeer] = []
            while not peers:
                with suppress(nats.errors.TimeoutError):  # an election may take longer
                    peers = [p for p in (await found(client))[STREAM].peers if p.offline]
    assert [(peer.name, peer.current) for peer in peers] == [(down, False)]

    await anyio.to_thread.run_sync(cluster.start, down)
    await current(cluster, STREAM)
