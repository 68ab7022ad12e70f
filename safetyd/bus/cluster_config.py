"""The configuration of a NATS cluster for safetyd: one file per node, and two that all nodes share.

Every node stores a replica of each stream, and syncs it to disk before it acknowledges a message.
"""

import json
import re
import secrets
from collections.abc import Sequence
from typing import Final, Self

import msgspec

from safetyd.bus.server_config import LIMITS, MAX_STORE_BYTES

PORT: Final = 4222
ROUTE_PORT: Final = 6222
MAX_PORT: Final = 65535
ACCOUNTS: Final = "accounts.conf"
ROUTES: Final = "routes.conf"  # the only file with a secret
STORE: Final = "/var/lib/nats"
EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - the other machines must reach it
NAME: Final = "safetyd"
_PASSWORD: Final = re.compile(r'password: "([A-Za-z0-9_-]{16,})"')
_NODE: Final = re.compile(
    r"(?P<name>[A-Za-z0-9_-]{1,32})="
    r"(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:(?P<port>\d{1,5}))?(:(?P<route_port>\d{1,5}))?\Z"
)


class NodeUnclear(ValueError):
    """The text does not describe a node."""


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True):
    """A nats-server of the cluster, and the ports of its clients and of the other nodes."""

    name: str
    host: str
    port: int = PORT
    route_port: int = ROUTE_PORT

    @classmethod
    def read(cls, text: str) -> Self:
        """Read NAME=HOST[:PORT[:ROUTE_PORT]]."""
        found = _NODE.match(text)
        if found is None:
            raise NodeUnclear(f"{text!r} is not NAME=HOST[:PORT[:ROUTE_PORT]]")
        port, route_port = int(found["port"] or PORT), int(found["route_port"] or ROUTE_PORT)
        if not (0 < port <= MAX_PORT and 0 < route_port <= MAX_PORT):
            raise NodeUnclear(f"{text!r} has a port that is not between 1 and {MAX_PORT}")
        return cls(name=found["name"], host=found["host"], port=port, route_port=route_port)

    @property
    def url(self) -> str:
        return f"nats://{self.host}:{self.port}"


DEFAULT_NODES: Final = tuple(
    ClusterNode(name=name, host=f"nats-{name}.example") for name in ("a", "b", "c")
)


def node_config(node: ClusterNode, store: str = STORE, listen: str = EVERYWHERE) -> str:
    """Return the configuration file of one node."""
    return "\n".join(
        (
            f"server_name: {_quoted(node.name)}",
            f"listen: {_quoted(f'{listen}:{node.port}')}",
            *LIMITS,
            'write_deadline: "2s"',
            "jetstream {",
            f"  store_dir: {_quoted(store)}",
            f"  max_file: {MAX_STORE_BYTES}",
            "  max_mem: 64MB",
            "  sync_interval: always  # otherwise a power cut can lose decisions",
            "}",
            "cluster {",
            f"  name: {NAME}",
            f"  listen: {_quoted(f'{listen}:{node.route_port}')}",
            '  write_deadline: "10s"',
            "  no_advertise: true  # daemons and agents know the addresses of all nodes",
            f"  include {_quoted(ROUTES)}",
            "  # tls { ... }  # unless the network is private",
            "}",
            "# tls { ... }  # unless the network is private",
            f"include {_quoted(ACCOUNTS)}",
            "",
        )
    )


def routes_config(nodes: Sequence[ClusterNode], password: str) -> str:
    """Return the file with the addresses of all nodes, and the password between them."""
    urls = (f"nats://{NAME}:{password}@{node.host}:{node.route_port}" for node in nodes)
    return "\n".join(
        (
            "# Secret: whoever has this password and reaches a node's route port controls the bus.",
            f"authorization {{ user: {NAME}, password: {_quoted(password)} }}",
            f"routes: {json.dumps(list(urls))}",
            "",
        )
    )


def route_password(routes: str) -> str:
    """Return the password in a file of routes, or a new one."""
    found = _PASSWORD.search(routes)
    return found[1] if found else secrets.token_urlsafe(32)


def _quoted(text: str) -> str:
    return json.dumps(text)
