"""How agents reach a daemon that serves: over the bus and over HTTP, by the same rules."""

from safetyd.agents.agent_service import AgentService
from safetyd.bus.connections import Connection
from safetyd.bus.publisher import Replies
from safetyd.daemon.resources import Resources
from safetyd.daemon.serving_parts import ServingParts
from safetyd.web.v1.agent_replies import HttpReplies
from safetyd.web.v1.agent_routes import AgentRoutes
from safetyd.web.v1.request_waits import RequestWaits


class AgentAccess:
    def __init__(self, of: Resources, parts: ServingParts) -> None:
        self._of = of
        self._parts = parts
        replies = HttpReplies(parts.out.agents[False])
        service = self._service(replies, f"{of.boot_id}h", keyless=False)
        self.web = AgentRoutes(
            service,
            replies,
            RequestWaits(replies, of.mailbox, service),
            parts.held,
            agent_of=lambda token: of.settings.tokens.agent_of(token, of.clock.now().at),
            shut=lambda: of.settings.flood_gate.shut,
            problem=parts.health.not_ready,
            muted=parts.out.displaced_perhaps,
        )

    async def hear(self, connection: Connection, *, keyless: bool) -> None:
        """Begin to take in what agents send on one connection."""
        of = self._of
        name = of.subjects.keyless if keyless else of.subjects.of
        service = self._service(self._parts.out.agents[keyless], of.boot_id, keyless=keyless)
        client = connection.client
        await client.handle(name("propose", "*"), service.propose)
        await client.handle(name("telemetry", "*"), service.telemetry)
        await client.handle(name("permission", "*"), service.permission)
        await client.handle(name("claim", "*"), service.claim)

    def _service(self, replies: Replies, id_prefix: str, *, keyless: bool) -> AgentService:
        of, parts = self._of, self._parts
        return AgentService(
            replies,
            of.mailbox,
            of.settings,
            parts.stop.stop_flag,
            of.refusals,
            parts.metrics,
            answers=parts.held,
            commits=parts.commits,
            clock=of.clock,
            keyless=keyless,
            problem=parts.health.not_ready,
            boot_id=id_prefix,
        )
