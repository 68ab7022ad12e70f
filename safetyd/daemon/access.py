"""Connects agents and operators to a running daemon, over the bus and over HTTP."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import anyio
import anyio.abc
from nats.aio.subscription import Subscription

from safetyd import __version__
from safetyd.agents.agent_service import AgentService
from safetyd.agents.commits_before import CommitsBefore
from safetyd.agents.emergency_stop import EmergencyStop
from safetyd.agents.held_replies import HeldReplies
from safetyd.agents.sender_accounts import SESSION, of_user
from safetyd.bus.connections import Connection
from safetyd.bus.micro import Micro
from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.publisher import Replies
from safetyd.bus.subjects import AGENT_VERBS
from safetyd.daemon.bus_output import BusOutput
from safetyd.daemon.config_warnings import config_warnings
from safetyd.daemon.forwarded_sign_in import ForwardedSignIn
from safetyd.daemon.health import Health
from safetyd.daemon.health_report import HealthReport
from safetyd.daemon.resources import Resources
from safetyd.hosts.loaded_check import LoadedCheck, accepted_in
from safetyd.hosts.name_owners import NameOwners
from safetyd.hosts.request_news import RequestNews
from safetyd.hosts.unasked_calls import UnaskedCalls
from safetyd.hosts.wait_times import WaitTimes
from safetyd.monitoring.metrics import Metrics
from safetyd.monitoring.recent_events import RecentEvents
from safetyd.notify.notifier import Notifier
from safetyd.operators.cluster_access import ClusterAccess
from safetyd.operators.command_runner import CommandRunner, Surroundings
from safetyd.operators.handlers import Handlers
from safetyd.operators.operator_service import OperatorService
from safetyd.web.confirm_routes import ConfirmRoutes
from safetyd.web.control_room.entrance import Entrance
from safetyd.web.control_room.open_room import open_room
from safetyd.web.control_room.sign_in_links import SignInLinks
from safetyd.web.control_room.web_sessions import WebSessions
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.hook_routes import HookRoutes
from safetyd.web.hook_socket import HookService, HookSocket
from safetyd.web.loopback import fresh_name
from safetyd.web.operator_gateway import OperatorGateway
from safetyd.web.otlp_routes import OtlpRoutes, TelemetrySender
from safetyd.web.relay.relay_service import RelayService
from safetyd.web.site import Site
from safetyd.web.v1.agent_replies import HttpReplies
from safetyd.web.v1.agent_routes import AgentRoutes
from safetyd.web.v1.event_socket import EventSocket
from safetyd.web.v1.question_routes import QuestionRoutes
from safetyd.web.v1.request_waits import RequestWaits


class ServingParts(NamedTuple):
    """The parts that agents and operators use."""

    out: BusOutput
    stop: EmergencyStop
    held: HeldReplies
    commits: CommitsBefore
    notifier: Notifier
    metrics: Metrics
    recent: RecentEvents
    news: RequestNews
    health: Health
    report: HealthReport
    cluster: ClusterAccess | None  # None if the bus is embedded


class AgentAccess:
    def __init__(self, of: Resources, parts: ServingParts) -> None:
        self._of = of
        self._parts = parts
        replies = HttpReplies(parts.out.agents[False])
        accounts, owners = of.settings.accounts, NameOwners()
        service = self._service(replies, f"{of.boot_id}h", keyless=False)

        def agent_of(token: str) -> str:
            return of.settings.tokens.agent_of(token, of.clock.now().at)

        self.web = AgentRoutes(
            service,
            replies,
            RequestWaits(replies, of.mailbox, service),
            parts.held,
            accounts,
            agent_of=agent_of,
            shut=lambda: of.settings.flood_gate.shut,
            problem=parts.health.not_ready,
            muted=parts.out.displaced_perhaps,
        )
        keyed, anonymous = HookService(service, replies), self._for_anonymous_hooks(owners)
        calls = UnaskedCalls(of.clock.now().at.timestamp())

        def sender_of(token: str) -> TelemetrySender | None:
            if agent := agent_of(token):
                return TelemetrySender(agent, keyed, protected=False)
            tokens = of.settings.telemetry
            agent = tokens.agent_of(token) if tokens else ""
            service = keyed if of.settings.has_key(agent) else anonymous
            return TelemetrySender(agent, service, protected=True) if agent and service else None

        self.telemetry = OtlpRoutes(
            lambda: of.settings.config.hosts, sender_of, calls, of.mailbox, accounts
        )
        self.confirmations = ConfirmRoutes(sender_of, calls, accounts)
        self.hooks = HookSocket(
            lambda: of.settings.config.hosts,
            keyed,
            anonymous,
            parts.held,
            parts.news,
            calls,
            ran=self.telemetry.ran,
            waits=WaitTimes(
                lambda: of.settings.config.hosts,
                lambda: of.settings.policy.telling,
                lambda: parts.news.answers,
            ),
            loaded=LoadedCheck(accepted_in(of.mailbox), of.data_dir / "host_files"),
            accounts=accounts,
            owners=owners,
            directory=of.data_dir,
            agent_of=agent_of,
            muted=parts.out.displaced_perhaps,
        )
        self.web_hooks = HookRoutes(self.hooks, keyed, self.web, accounts)
        self._heard: list[tuple[HardenedClient, Subscription]] = []

    def _for_anonymous_hooks(self, owners: NameOwners) -> HookService | None:
        of = self._of
        if (bus := self._parts.out.agents.get(True)) is None:
            return None
        replies = HttpReplies(bus)

        def user_of(agent: str) -> str:
            return of_user(owners.user_of(agent)).account

        service = self._service(replies, f"{of.boot_id}s", keyless=True, user_of=user_of)
        return HookService(service, replies)

    async def hear(self, connection: Connection, *, keyless: bool) -> None:
        """Start to receive messages of agents on one connection."""
        of = self._of
        name = of.subjects.keyless if keyless else of.subjects.of
        service = self._service(self._parts.out.agents[keyless], of.boot_id, keyless=keyless)
        client = connection.client
        for verb in AGENT_VERBS:
            heard = await client.handle(name(verb, "*"), getattr(service, verb))
            self._heard.append((client, heard))

    async def leave(self) -> None:
        """Receive no more messages of agents, so that another daemon can."""
        for client, heard in self._heard:
            if client.is_connected:
                await client.leave(heard)

    def _service(
        self,
        replies: Replies,
        id_prefix: str,
        *,
        keyless: bool,
        user_of: Callable[[str], str] = lambda _agent: "",
    ) -> AgentService:
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
            replaceable=of.server is None,
            user_of=user_of,
        )


class OperatorAccess:
    """The command runner, browser sessions, the control room, and the web server."""

    def __init__(
        self,
        of: Resources,
        parts: ServingParts,
        agents: AgentAccess,
        handlers: Handlers,
        reload: Callable[[str], Awaitable[list[str]]],
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        self._of = of
        self._parts = parts
        self._tasks = tasks
        links = SignInLinks(of.reload.keys_of)
        web = of.settings.config.web
        self.sessions = WebSessions(
            of.data_dir,
            of.reload.keys_of,
            fresh_name() if web.has_names else "",
        )
        self.entrance = Entrance(self.sessions, links, lambda: self.site.web, of.clock)
        self.sign_in = ForwardedSignIn(of, self.entrance) if of.server is None else None
        self.runner = CommandRunner(
            of.mailbox,
            parts.stop,
            Surroundings(
                parts.report.facts,
                reload,
                parts.report.answer,
                of.data_dir / "audit",
                lambda: of.settings.policy,
                parts.recent,
                self._warnings,
                parts.cluster,
            ),
            tasks,
            waits=parts.held.waits,
            handlers={
                **handlers,
                **parts.notifier.handlers,
                **self.entrance.handlers,
                **({} if self.sign_in is None else self.sign_in.handlers),
            },
            question_limits=of.settings.question_limits,
        )
        cluster = parts.cluster
        gateway = EngineGateway(
            of.mailbox,
            parts.health.broken,
            parts.out.displaced_perhaps,
            standby=lambda: "" if cluster is None else cluster.refusal,
        )
        commands = OperatorGateway(
            self.runner, of.settings.question_limits, gateway, of.settings.role_of
        )
        self.room = open_room(
            commands,
            self.sessions,
            links,
            of.clock,
            role_of=of.settings.role_of,
            stops=lambda: parts.stop.stop_flag.stops,
            closed=parts.health.broken,
            cluster=None if cluster is None else lambda: cluster.summary,
        )
        questions = QuestionRoutes(self.runner, of.settings.question_limits, gateway)
        feed = EventSocket(parts.recent, of.data_dir / "audit", lambda: of.audit.seq)
        self.site = Site(
            web,
            of.settings.keyring.bearer,
            parts.metrics,
            gateway,
            parts.notifier,
            of.clock,
            directory=of.data_dir,
            api=(questions.routes, feed.routes),
            room=(
                *self.room.routes,
                agents.web.routes,
                agents.web_hooks.routes,
                agents.telemetry.routes,
                agents.confirmations.routes,
            ),
            guest=lambda request: (
                _session(self.room.guest(request))
                or agents.telemetry.guest(request)
                or agents.confirmations.guest(request)
                or agents.web.guest(request)
            ),
            accounts=of.settings.accounts,
            serves=self.sessions.serves,
            waits=parts.held.waits,
            alive=parts.health.problem,
            ready=parts.health.not_ready,
            ask=commands.ask,
        )

    def take_on_keys(self, by: str) -> list[str]:
        """Use keys that were changed on this or another daemon. Return the errors."""
        errors = self._of.reload.take_on_keys(by)
        if not errors:
            self._parts.notifier.links.renew()
            self.sessions.prune(self._of.clock.now().at)
        return errors

    async def _warnings(self) -> list[str]:
        settings = self._of.settings
        return await anyio.to_thread.run_sync(config_warnings, settings.config, settings.data_dir)

    async def hear(self) -> None:
        """Start to receive messages of operators and other programs over the bus."""
        of, parts = self._of, self._parts
        client, name = of.connections.main.client, of.subjects.of
        service = OperatorService(
            parts.out.main,
            parts.out.always,
            self.runner,
            of.settings.question_limits,
            of.settings.may_send,
        )
        micro = Micro(
            parts.out.main,
            of.subjects,
            version=__version__,
            boot_id=of.boot_id,
            started=of.started,
            decisions=lambda: sum(parts.metrics.counts().values()),
        )
        await client.handle(name("control", "*"), service.control)
        await of.connections.questions.client.handle(name("query", "*"), service.query)
        await client.handle(name("review", "*"), service.review)
        relays = RelayService(
            parts.out.main,
            self.site.link_pages,
            of.settings.question_limits,
            of.settings.accounts,
            self._tasks,
            relays=lambda: of.settings.relays,
            problem=parts.health.not_ready,
        )
        await of.connections.questions.client.handle(name("link", "*"), relays.link)
        for verb in ("PING", "INFO", "STATS"):
            await client.handle(f"$SRV.{verb}", micro.answer)
            await client.handle(f"$SRV.{verb}.safetyd", micro.answer)


def _session(id_: str) -> str:
    """Return the account of a session of the control room, or an empty string."""
    return f"{SESSION}{id_}" if id_ else ""
