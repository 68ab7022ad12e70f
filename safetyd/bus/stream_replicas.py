"""The streams of safetyd on the bus, and the nodes that store a replica of each."""

from collections.abc import Container, Iterator
from typing import Any, Final

import msgspec

from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.subjects import STREAM

ASK_S: Final = 5.0
SILENT_S: Final = 3.0  # a node that runs answers its leader every second
_OURS: Final = STREAM.partition("_")[0]  # every stream and bucket of safetyd starts with it
_BUCKETS: Final = ("KV_", "OBJ_")


class ReplicaPeer(msgspec.Struct, frozen=True, kw_only=True):
    """A node that follows the leader of a stream."""

    name: str
    current: bool  # Whether it has all messages, and the leader heard from it lately.
    offline: bool  # Whether its server does not answer.
    lag: int  # How many messages it lacks, as far as the leader knows.
    silent_s: float  # When the leader last heard from it, in seconds.


class StreamReplicas(msgspec.Struct, frozen=True, kw_only=True):
    """A stream and its replicas."""

    name: str
    replicas: int  # As the stream is configured; 0 if no node leads it.
    wanted: int  # `[journal] replicas` of the daemon.
    leader: str  # Empty if no node leads the stream, or if the bus is a single server.
    peers: tuple[ReplicaPeer, ...]  # The other nodes that store the stream.

    @property
    def current(self) -> int:
        """Return how many replicas have all messages."""
        return bool(self.replicas) + sum(peer.current and not peer.offline for peer in self.peers)


class _Peer(msgspec.Struct):
    name: str
    current: bool = False
    offline: bool = False
    lag: int = 0
    active: int = 0  # nanoseconds since the leader heard from it


class _Cluster(msgspec.Struct):
    leader: str = ""
    replicas: tuple[_Peer, ...] | None = None


class _Config(msgspec.Struct):
    name: str
    num_replicas: int = 1


class _Stream(msgspec.Struct):
    config: _Config
    cluster: _Cluster = msgspec.field(default_factory=_Cluster)


class _Page(msgspec.Struct):
    total: int = 0
    streams: tuple[_Stream, ...] | None = None
    missing: tuple[str, ...] | None = None  # streams without a leader
    error: Any = None


async def stream_replicas(
    client: HardenedClient, wanted: int, nodes: Container[str]
) -> tuple[StreamReplicas, ...]:
    """Return all streams and buckets of safetyd, sorted by name.

    `nodes` are the names of the servers that answer. The leader alone would take ten seconds to
    notice that another node is not current, and much longer to say that it is offline.
    """
    found: dict[str, StreamReplicas] = {}
    seen, total = 0, 1
    while seen < total:
        asked = msgspec.json.encode({"offset": seen})
        answer = await client.request("$JS.API.STREAM.LIST", asked, timeout=ASK_S)
        page = msgspec.json.decode(answer.data, type=_Page)
        if page.error is not None:
            raise ConnectionError(f"the bus does not list its streams ({page.error})")
        found.update((stream.name, stream) for stream in _ours(page, wanted, nodes))
        seen += max(1, len(page.streams or ()) + len(page.missing or ()))
        total = page.total
    return tuple(found[name] for name in sorted(found))


def _ours(page: _Page, wanted: int, nodes: Container[str]) -> Iterator[StreamReplicas]:
    for stream in page.streams or ():
        if _is_ours(stream.config.name):
            yield StreamReplicas(
                name=stream.config.name,
                replicas=stream.config.num_replicas,
                wanted=wanted,
                leader=stream.cluster.leader,
                peers=tuple(_judged(peer, nodes) for peer in stream.cluster.replicas or ()),
            )
    for name in page.missing or ():
        if _is_ours(name):
            yield StreamReplicas(name=name, replicas=0, wanted=wanted, leader="", peers=())


def _judged(peer: _Peer, nodes: Container[str]) -> ReplicaPeer:
    silent_s = peer.active / 1e9
    silent = silent_s > SILENT_S
    return ReplicaPeer(
        name=peer.name,
        current=peer.current and not silent,
        offline=peer.offline or (silent and peer.name not in nodes),
        lag=peer.lag,
        silent_s=round(silent_s, 1),
    )


def _is_ours(name: str) -> bool:
    for bucket in _BUCKETS:
        name = name.removeprefix(bucket)
    return name.startswith(_OURS)
