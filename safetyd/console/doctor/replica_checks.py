"""Checks that enough nodes of the bus store every stream."""

from collections.abc import Iterator

from safetyd.bus.stream_replicas import StreamReplicas
from safetyd.console.doctor.file_checks import Finding, note, ok, wrong
from safetyd.console.terminal_text import several
from safetyd.operators.contract.cluster_contract import ReplicasAnswer

CHECK = "replicas"
FEWEST = 3  # with fewer replicas, the loss of one node stops all agents


def replicas(answer: ReplicasAnswer) -> Iterator[Finding]:
    """Yield streams with too few replicas, and replicas that are not up to date."""
    nodes = len(answer.nodes)
    for stream in answer.streams:
        found = [*_number(stream, nodes), *_peers(stream)]
        yield from found
        if not found:
            stored = several(stream.replicas, "replica")
            yield ok(CHECK, f"{stream.name} has {stored}; {stream.leader or 'one'} leads")


def _number(stream: StreamReplicas, nodes: int) -> Iterator[Finding]:
    if not stream.leader and not stream.replicas:
        yield wrong(
            CHECK,
            f"no node leads {stream.name}, so nothing can be written. Start nodes until more than "
            "half of them run and reach each other",
        )
        return
    stored = f"{stream.name} has {several(stream.replicas, 'replica')}"
    if stream.replicas < stream.wanted:
        yield wrong(
            CHECK,
            f"{stored}, but journal.replicas is {stream.wanted}. Restart the daemon to add "
            "replicas, when all nodes run",
        )
    elif stream.replicas < FEWEST <= nodes:
        yield wrong(
            CHECK,
            f"{stored}, but the bus has {nodes} nodes: if a node is lost, so is the stream. Set "
            f"journal.replicas = {FEWEST} and restart the daemon",
        )
    elif stream.replicas < nodes:
        yield note(CHECK, f"{stored}, and the bus has {nodes} nodes")


def _peers(stream: StreamReplicas) -> Iterator[Finding]:
    for peer in stream.peers:
        replica = f"the replica of {stream.name} on node {peer.name}"
        if peer.offline:
            yield wrong(CHECK, f"{replica} is offline. Start nats-server on {peer.name}")
        elif not peer.current:
            yield wrong(
                CHECK,
                f"{replica} is not up to date (behind by {several(peer.lag, 'message')}). If it "
                f"does not catch up, check the disk and the network of {peer.name}",
            )
