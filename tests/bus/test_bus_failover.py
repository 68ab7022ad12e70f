"""What the connections of a daemon do when a node of the bus fails."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import nats.errors
import nats.js.errors
import pytest

from safetyd.bus.bus_nodes import bus_nodes
from safetyd.bus.connections import Connections
from safetyd.bus.external_server import external_problems
from safetyd.bus.keyring import seed_in
from safetyd.bus.subjects import Subjects
from tests.nats_cluster import NAMES, PATIENCE_S, NatsCluster, running_cluster
from tests.servers import until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
async def links(cluster: NatsCluster, tmp_path: Path) -> AsyncIterator[Connections]:
    died: list[str] = []
    links = Connections(
        Subjects(),
        "b00t",
        tmp_path,
        seed=lambda: seed_in(cluster.keys.daemon),
        keyless=False,
        die=died.append,
    )
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        await links.connect(cluster.url, None, stack)
        for link in links.all:
            tasks.start_soon(link.send_canaries)
        await links.first_canaries()
        yield links
        tasks.cancel_scope.cancel()
    assert died == []


def nodes_of(links: Connections, cluster: NatsCluster) -> set[str]:
    """Return the nodes that the connections use."""
    by_url = {cluster.default.url_of(name): name for name in NAMES}
    urls = (link.client.connected_url for link in links.all)
    return {by_url[url.geturl()] if url else "none" for url in urls}


def following(node: str, links: Connections, cluster: NatsCluster) -> str:
    """Return the node that comes after this one in the order of the connections."""
    order = [server.uri.geturl() for server in links.main.client.server_pool]
    place = order.index(cluster.default.url_of(node))
    url = order[(place + 1) % len(order)]
    return next(name for name in NAMES if cluster.default.url_of(name) == url)


async def moved(links: Connections, old: str, cluster: NatsCluster) -> str:
    """Wait until all connections work on another node, and return its name."""
    begun = time.monotonic()
    times: dict[str, float] = {}

    def working() -> bool:
        for link in links.all:
            url = link.client.connected_url
            elsewhere = url is not None and url.geturl() != cluster.default.url_of(old)
            if link.heard and link.client.is_connected and elsewhere:
                times.setdefault(link.name, time.monotonic() - begun)
        return len(times) == len(links.all)

    await until(working)
    print(f"left {old} after {min(times.values()):.2f} to {max(times.values()):.2f} s")
    [node] = nodes_of(links, cluster)
    return node


async def until_led(links: Connections) -> None:
    """Wait until the bus answers without problems: its nodes may have to elect a leader."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            try:
                assert await external_problems(links.main.client) == []
            except (nats.errors.Error, nats.js.errors.Error):
                continue
            return


async def test_connections_share_a_node_and_move_together_when_it_is_killed(
    links: Connections, cluster: NatsCluster
) -> None:
    [old] = nodes_of(links, cluster)
    expected = following(old, links, cluster)

    await anyio.to_thread.run_sync(cluster.kill, old)
    new = await moved(links, old, cluster)

    assert new == expected
    await until_led(links)
    await anyio.to_thread.run_sync(cluster.start, old)


async def test_connections_leave_a_frozen_node_without_trying_it_again_first(
    links: Connections, cluster: NatsCluster
) -> None:
    [old] = nodes_of(links, cluster)
    expected = following(old, links, cluster)

    await anyio.to_thread.run_sync(cluster.freeze, old)
    new = await moved(links, old, cluster)

    assert new == expected
    await anyio.to_thread.run_sync(cluster.thaw, old)


async def test_connections_leave_a_node_that_they_are_cut_off_from(
    links: Connections, cluster: NatsCluster
) -> None:
    [old] = nodes_of(links, cluster)

    await anyio.to_thread.run_sync(cluster.default.cut, old)
    await moved(links, old, cluster)

    await anyio.to_thread.run_sync(cluster.default.heal)


async def test_connections_can_leave_a_node_that_is_cut_off_from_the_others(
    links: Connections, cluster: NatsCluster
) -> None:
    [old] = nodes_of(links, cluster)
    await anyio.to_thread.run_sync(cluster.cut, old)

    links.leave_node()
    await moved(links, old, cluster)

    await anyio.to_thread.run_sync(cluster.heal, old)


async def test_every_running_node_is_known_with_its_version(
    links: Connections, cluster: NatsCluster
) -> None:
    names = list[str]()
    with anyio.fail_after(PATIENCE_S):
        while names != [*NAMES]:  # routes that were cut may still be missing
            nodes = await bus_nodes(links.questions.client)
            names = [node.name for node in nodes]

    assert {node.cluster for node in nodes} == {"safetyd"}
