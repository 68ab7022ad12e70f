"""Answers which nodes of an external bus store the streams."""

import msgspec
import nats.errors

from safetyd.bus.bus_nodes import bus_nodes
from safetyd.bus.stream_replicas import stream_replicas
from safetyd.core.reporting.records import Records
from safetyd.daemon.extra import Extra, ExtraHost
from safetyd.operators.contract.cluster_contract import ReplicasAnswer, ReplicasQuestion
from safetyd.operators.handlers import Handlers, work
from safetyd.operators.replies import Refusal, refused


class BusReplicas(Extra):
    def __init__(self, host: ExtraHost, _known: Records) -> None:
        self._of = host.of

    @property
    def handlers(self) -> Handlers:
        return dict([work(ReplicasQuestion, self._answer)])

    async def _answer(self, _by: str, _question: ReplicasQuestion) -> ReplicasAnswer | Refusal:
        of = self._of
        if of.server is not None:
            return ReplicasAnswer(ok=True, nodes=(), streams=())
        client = of.connections.questions.client
        try:
            nodes = await bus_nodes(client)
            names = {node.name for node in nodes}
            streams = await stream_replicas(client, of.settings.config.journal.replicas, names)
        except (nats.errors.Error, OSError, TimeoutError, msgspec.DecodeError) as exc:
            why = str(exc) or "JetStream does not answer"
            fix = "check that more than half of the nodes run and reach each other"
            return refused("unavailable", f"the bus does not list its streams ({why}): {fix}")
        return ReplicasAnswer(ok=True, nodes=nodes, streams=streams)


EXTRA = BusReplicas
