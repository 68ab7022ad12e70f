"""The nats-servers of an external bus, and whether their versions are new enough."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import nats.errors

from safetyd.bus.nats_client import HardenedClient

# Older versions have two kinds of errors. Before 2.12, the replicas of a stream could disagree
# whether an append follows the expected one (nats-server #6194, #7119), so two daemons could both
# write the journal; until 2.12.2 a new leader accepted appends too early (#7460), and 2.12.3 fixes
# changes of membership. Until 2.12.6, agents can get around permissions (CVE-2026-33223,
# CVE-2026-33246, CVE-2026-58251).
MINIMUM: Final = (2, 12, 7)
NODES: Final = "$SYS.REQ.ACCOUNT.PING.CONNZ"  # every node answers, in any account
FIRST_S: Final = 2.0
NEXT_S: Final = 0.3  # how long to wait for the answers of further nodes
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


class BusNode(msgspec.Struct, frozen=True, kw_only=True):
    """A nats-server that runs."""

    name: str
    version: str
    cluster: str = ""  # The name of its cluster, or empty.


class _Server(msgspec.Struct):
    name: str
    ver: str
    cluster: str = ""


class _Answer(msgspec.Struct):
    server: _Server


async def bus_nodes(client: HardenedClient) -> tuple[BusNode, ...]:
    """Return the nodes that answer, sorted by name."""
    found = {}
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    await client.publish(NODES, b'{"limit": 1}', reply=inbox)
    patience_s = FIRST_S
    try:
        while True:
            message = await subscription.next_msg(timeout=patience_s)
            server = msgspec.json.decode(message.data, type=_Answer).server
            found[server.name] = BusNode(
                name=server.name, version=server.ver, cluster=server.cluster
            )
            patience_s = NEXT_S
    except (nats.errors.TimeoutError, msgspec.DecodeError):
        pass  # all have answered, or the server does not know the question
    finally:
        await subscription.unsubscribe()
    return tuple(found[name] for name in sorted(found))


def version_problems(nodes: Iterable[BusNode]) -> Iterator[str]:
    """Yield the nodes that are too old, each with the fix."""
    least = ".".join(map(str, MINIMUM))
    for node in nodes:
        if not new_enough(node.version):
            yield (
                f"nats-server {node.name} has version {node.version}, but safetyd needs {least} or "
                "newer: with older ones, two daemons could both write a replicated journal, and "
                "agents could get around their permissions. Upgrade it"
            )


def new_enough(version: str) -> bool:
    """Return True if a version such as 2.15.1 or 2.14.0-RC.1 is not older than the minimum."""
    found = _VERSION.match(version)
    return found is not None and tuple(map(int, found.groups())) >= MINIMUM
