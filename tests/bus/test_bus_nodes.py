import pytest

from safetyd.bus.bus_nodes import MINIMUM, BusNode, bus_nodes, new_enough, version_problems
from safetyd.bus.nats_client import HardenedClient


@pytest.mark.parametrize(
    ("version", "enough"),
    [
        ("2.12.7", True),
        ("2.12.6", False),
        ("2.9.25", False),
        ("2.14.0-RC.1", True),
        ("v2.15.1", True),
        ("3.0.0-dev", True),
        ("0.0.0-unknown", False),
        ("", False),
    ],
)
def test_versions_are_compared_as_numbers(version: str, *, enough: bool) -> None:
    assert MINIMUM == (2, 12, 7)
    assert new_enough(version) is enough


def test_problem_names_the_old_node_and_the_version_that_is_needed() -> None:
    nodes = [BusNode(name="a", version="2.15.1"), BusNode(name="b", version="2.10.20")]

    [problem] = version_problems(nodes)

    assert all(word in problem for word in ("b", "2.10.20", "2.12.7", "Upgrade"))


async def test_single_server_is_one_node_without_a_cluster(client: HardenedClient) -> None:
    [node] = await bus_nodes(client)

    assert node.cluster == ""
    assert new_enough(node.version)
