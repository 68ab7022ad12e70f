"""How agents reach a daemon that serves: over the bus and over HTTP, by the same rules."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from safetyd.agents.agent_service import AgentService
from safetyd.agents.commits_before import CommitsBefore
from safetyd.agents.emergency_stop import StopFlag
from safetyd.agents.held_replies import HeldReplies
from safetyd.bus.connections import Connection
from safetyd.bus.publisher import Publisher, Replies
from safetyd.daemon.resources import Resources
from safetyd.monitoring.metrics import Metrics
from safetyd.web.v1.agent_replies import HttpReplies
from safetyd.web.v1.agent_routes import AgentRoutes
from safetyd.web.v1.request_waits import RequestWaits


class AgentParts(NamedTuple):
    """The parts of the daemon that a proposal meets."""

    stop_flag: StopFlag
    metrics: Metrics
    held: HeldReplies
    commits: CommitsBefore
    problem: Callable[[], str]
    displaced: Callable[[], bool]


class AgentAccess:
    """`publishers` are by whether an agent is keyless."""

    def __init__(
        self, of: Resources, parts: AgentParts, publishers: Mapping[bool, Publisher]
    ) -> None:
        self._of = of
        self._parts = parts
        self._publishers = publishers
        replies = HttpReplies(publishers[False])
        service = self._service(replies, f"{of.boot_id}h", keyless=False)
        self.web = AgentRoutes(
            service,
            replies,
            RequestWaits(replies, of.mailbox, service),
            parts.held,
            agent_of=lambda token: of.settings.tokens.agent_of(token, of.clock.now().at),
            shut=lambda: of.settings.flood_gate.shut,
            problem=parts.problem,
            muted=parts.displaced,
        )

    async def hear(self, connection: Connection, *, keyless: bool) -> None:
        """Begin to take in what agents send on one connection."""
        of = self._of
        name = of.subjects.keyless if keyless else of.subjects.of
        service = self._service(self._publishers[keyless], of.boot_id, keyless=keyless)
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
            parts.stop_flag,
            of.refusals,
            parts.metrics,
            answers=parts.held,
            commits=parts.commits,
            clock=of.clock,
            keyless=keyless,
            problem=parts.problem,
            boot_id=id_prefix,
        )
