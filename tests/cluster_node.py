"""Servers that say that they belong to a cluster. They are not connected to each other."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.nats_process import NatsProcess

CLUSTER = 'cluster { name: safety, listen: "127.0.0.1:-1" }\n'

StartNode = Callable[[], NatsProcess]


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[StartNode]:
    nodes: list[NatsProcess] = []

    def start() -> NatsProcess:
        directory = tmp_path / f"node{len(nodes)}"
        directory.mkdir()
        nodes.append(NatsProcess(directory, CLUSTER))
        return nodes[-1]

    yield start
    for node in nodes:
        node.stop()


@pytest.fixture
def node(start_node: StartNode) -> NatsProcess:
    return start_node()
