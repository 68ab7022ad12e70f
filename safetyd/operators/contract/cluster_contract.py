"""The nodes of the bus, and the replicas of safetyd's streams on them."""

from safetyd.bus.bus_nodes import BusNode
from safetyd.bus.stream_replicas import StreamReplicas
from safetyd.operators.contract.question import Question
from safetyd.operators.replies import Done


class ReplicasAnswer(Done, frozen=True, kw_only=True):
    """Both lists are sorted by name, and empty if the daemon runs its own server."""

    nodes: tuple[BusNode, ...]  # The servers that answer.
    streams: tuple[StreamReplicas, ...]


class ReplicasQuestion(Question[ReplicasAnswer], frozen=True, tag="replicas"):
    """Show which nodes of an external bus store the journal and the other streams.

    The answer is sent even while nothing can be written.
    """
