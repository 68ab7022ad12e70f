"""How people reach a daemon that serves: the runner of their commands, and the web around it."""

from collections.abc import Callable
from typing import NamedTuple

import anyio.abc

from safetyd.agents.emergency_stop import EmergencyStop
from safetyd.agents.held_replies import HeldReplies
from safetyd.daemon.disk_space import spare
from safetyd.daemon.health import Health
from safetyd.daemon.resources import Resources
from safetyd.monitoring.metrics import Metrics
from safetyd.monitoring.recent_events import RecentEvents
from safetyd.notify.address_book import report_readers
from safetyd.notify.notifier import Notifier
from safetyd.operators.command_runner import CommandRunner, Surroundings
from safetyd.operators.handlers import Handlers
from safetyd.reports.report_keeper import ReportDelivery
from safetyd.reports.report_service import ReportService
from safetyd.web.control_room.entrance import Entrance
from safetyd.web.control_room.open_room import open_room
from safetyd.web.control_room.sign_in_links import SignInLinks
from safetyd.web.control_room.web_sessions import WebSessions
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.loopback import fresh_name
from safetyd.web.operator_gateway import OperatorGateway
from safetyd.web.site import Site
from safetyd.web.v1.agent_routes import AgentRoutes
from safetyd.web.v1.event_socket import EventSocket
from safetyd.web.v1.question_routes import QuestionRoutes


class ServingParts(NamedTuple):
    """What serves already; `displaced` says whether another daemon may write the journal."""

    stop: EmergencyStop
    held: HeldReplies
    notifier: Notifier
    metrics: Metrics
    health: Health
    recent: RecentEvents
    displaced: Callable[[], bool]
    agents: AgentRoutes


class OperatorAccess:
    """The runner, who is signed in, the control room and the site that serves it."""

    def __init__(
        self,
        of: Resources,
        parts: ServingParts,
        around: Surroundings,
        handlers: Handlers,
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        links = SignInLinks(of.reload.keys_of)
        web = of.settings.config.web
        self.sessions = WebSessions(
            of.data_dir,
            of.reload.keys_of,
            fresh_name() if web.has_names else "",
        )
        self.entrance = Entrance(self.sessions, links, lambda: self.site.web, of.clock)
        self.reports = _reports(of)
        self.runner = CommandRunner(
            of.mailbox,
            parts.stop,
            around,
            tasks,
            waits=parts.held.waits,
            handlers={
                **handlers,
                **parts.notifier.handlers,
                **self.reports.handlers,
                **self.entrance.handlers,
            },
            question_limits=of.settings.question_limits,
        )
        gateway = EngineGateway(of.mailbox, parts.health.not_ready, parts.displaced)
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
            closed=parts.health.not_ready,
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
            room=(*self.room.routes, parts.agents.routes),
            guest=lambda request: self.room.guest(request) or parts.agents.guest(request),
            serves=self.sessions.serves,
            waits=parts.held.waits,
            alive=parts.health.problem,
            ready=parts.health.not_ready,
            ask=commands.ask,
        )


def _reports(of: Resources) -> ReportService:
    def delivery() -> ReportDelivery:
        tables = of.settings.tables
        return ReportDelivery(tables.notifications.report_at, report_readers(tables))

    return ReportService(
        of.data_dir,
        now=lambda: of.clock.now().at.astimezone(of.settings.policy.zone),
        written=lambda: of.audit.seq,
        delivery=delivery,
        put=of.mailbox.put,
        spare=lambda directory: spare(of.settings.config.disk, directory),
    )
