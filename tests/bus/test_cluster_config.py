import pytest

from safetyd.bus.cluster_config import (
    ClusterNode,
    NodeUnclear,
    route_password,
    routes_config,
)

NODES = [ClusterNode(name="a", host="one.example"), ClusterNode(name="b", host="[::1]", port=5)]


@pytest.mark.parametrize(
    ("text", "url", "route_port"),
    [
        ("a=nats-a.example", "nats://nats-a.example:4222", 6222),
        ("eu_1=10.0.0.1:5222", "nats://10.0.0.1:5222", 6222),
        ("b=[::1]:5222:7222", "nats://[::1]:5222", 7222),
    ],
)
def test_node_is_a_name_an_address_and_ports(text: str, url: str, route_port: int) -> None:
    node = ClusterNode.read(text)

    assert node.name == text.partition("=")[0]
    assert (node.url, node.route_port) == (url, route_port)


@pytest.mark.parametrize(
    "text",
    ["", "a", "a=", "=host", "a=host:0", "a=host:65536", "a=host:1:x", 'a=ho"st', "a b=host"],
)
def test_node_that_is_unclear_is_rejected_and_shown(text: str) -> None:
    with pytest.raises(NodeUnclear, match=r"is not NAME=HOST|is not between"):
        ClusterNode.read(text)


def test_password_between_nodes_is_random_and_stays_the_same_in_later_runs() -> None:
    first, other = route_password(""), route_password("")

    assert first != other
    assert route_password(routes_config(NODES, first)) == first
    assert routes_config(NODES, first).count(first) == 1 + len(NODES)
