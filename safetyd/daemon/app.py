"""Everything that serves, joined once the state is known: one method for each subject.

Parts know each other by what their constructors are given, most of them by functions; nothing is
put into a part afterwards.
"""

import os
from functools import partial
from typing import Final

import anyio
import anyio.abc

from safetyd import __version__, host
from safetyd.agents.emergency_stop import EmergencyStop, StopFlag
from safetyd.agents.held_replies import HeldReplies
from safetyd.agents.rollback_notices import RollbackNotices
from safetyd.bus.connections import Connection
from safetyd.bus.keyring import LOCAL_OPERATOR
from safetyd.bus.micro import Micro
from safetyd.bus.nats_client import pub
from safetyd.bus.publisher import Publisher
from safetyd.bus.supervisor import Supervisor
from safetyd.core.engine.engine_state import EngineState
from safetyd.daemon.agent_access import AgentAccess, AgentParts
from safetyd.daemon.disk_space import DiskSpace
from safetyd.daemon.health import Health
from safetyd.daemon.health_report import HealthReport, Written
from safetyd.daemon.limit_watches import watch_limits
from safetyd.daemon.operator_access import OperatorAccess, ServingParts
from safetyd.daemon.records.file_history import FileHistory
from safetyd.daemon.records.outlets import Outlets
from safetyd.daemon.records.record_keeping import RecordKeeping
from safetyd.daemon.resources import Resources
from safetyd.daemon.ticker import feed_watchdog, repeat_state, tell_trouble
from safetyd.journal.audit_reading import newest_events
from safetyd.journal.commit_loop import CommitLoop
from safetyd.journal.compaction import Compaction
from safetyd.journal.recovery import Restored
from safetyd.monitoring.counters import Counters
from safetyd.monitoring.event_log import EventLog
from safetyd.monitoring.gauges import Gauges
from safetyd.monitoring.metrics import Metrics, Sources
from safetyd.monitoring.recent_events import MAX_EVENTS, RecentEvents
from safetyd.monitoring.safety_events import SafetyEvents
from safetyd.notify.notifier import Notifier
from safetyd.operators.command_runner import Surroundings
from safetyd.operators.contract.session_contract import SignInQuestion
from safetyd.operators.contract.status_contract import DaemonFacts
from safetyd.operators.operator_service import OperatorService

DRAIN_S: Final = 5.0
TENURE_S: Final = 2.0


class App:
    """One daemon at work."""

    def __init__(self, resources: Resources, restored: Restored) -> None:
        self._of = resources
        self._stop_flag = StopFlag()
        self._join_publishers()
        self._join_stop(restored.engine)
        self._join_people(restored.engine)
        self._join_monitoring(restored.engine)
        self._join_journal(restored)
        self._join_health()

    def _join_publishers(self) -> None:
        """Let each connection have its way out; a daemon that may be displaced says nothing."""
        connections, subjects = self._of.connections, self._of.subjects

        def publisher(connection: Connection, *, keyless: bool) -> Publisher:
            client = connection.client
            return Publisher(client, subjects, keyless=keyless, muted=self._displaced_perhaps)

        self._publisher = publisher(connections.main, keyless=False)
        self._agent_publishers = {False: publisher(connections.agents, keyless=False)}
        if connections.open is not None:
            self._agent_publishers[True] = publisher(connections.open, keyless=True)

    def _join_stop(self, state: EngineState) -> None:
        of = self._of
        self._stop = EmergencyStop(
            self._stop_flag,
            of.mailbox,
            self._publisher,
            of.subjects,
            of.clock,
            reserve=of.reserve,
        )
        with host.files_needed(of.data_dir):
            self._stop.take_over(state, of.settings.stop_files)

    def _join_people(self, state: EngineState) -> None:
        """Let people be told, and agents hear what they answer."""
        of = self._of
        self._history = FileHistory(of, state.records.version_history, self._flush)
        commits = self._history.commits
        self._held = HeldReplies(self._agent_publishers, self._stop_flag, commits)
        with host.files_needed(of.data_dir):
            self._notifier = Notifier(
                of.settings,
                of.mailbox,
                of.clock,
                data_dir=of.data_dir,
                public_url=of.settings.config.web.public_url,
                base_url=lambda: self._access.site.base_url,
                waits=self._held.waits,
                publish=self._tell_helpers,
            )

    def _join_monitoring(self, state: EngineState) -> None:
        of = self._of
        with host.files_needed(of.data_dir):
            self._disk = DiskSpace(
                of.data_dir,
                lambda: of.settings.config.disk,
                lambda: of.audit.written,
                of.ticker.put,
                known=state.outbox.disk_level,
            )
        self._outlets = Outlets(of)
        self._written = Written(state.seq)
        channels = self._notifier.dispatch.states
        gauges = Gauges(lambda: of.settings.policy, lambda: of.settings.keyed, channels)
        asked = {request.id: request.asked.at for request in state.approvals.pending()}
        guard_names = state.guard_names
        self._metrics = Metrics(
            __version__,
            Sources(
                stopped=lambda: bool(self._stop_flag.stops),
                malformed=lambda: of.refusals.total.get("malformed", 0),
                audit_bytes=lambda: of.audit.written,
                guards=lambda: guard_names,
                reload_ok=lambda: not of.reload.problem,
                gauges=gauges.families,
                disk=lambda: self._disk.use,
                ready=lambda: not self.health.not_ready(),
                bus_up=lambda: not of.connections.problem,
                reconnects=lambda: of.connections.reconnects,
                outlets=self._outlets.states,
            ),
            Counters(gauges.label, gauges.labels, asked),
        )

    def _join_journal(self, restored: Restored) -> None:
        """Let what is decided be written down, and only then be told."""
        of, engine = self._of, restored.engine
        self._keeping = RecordKeeping(of, engine.records.kept_days, lambda: self._compaction)
        earlier = partial(newest_events, of.data_dir / "audit", MAX_EVENTS)
        self._recent = RecentEvents(engine.seq, earlier)
        self._loop = CommitLoop(
            of.mailbox,
            engine,
            of.journal,
            of.audit,
            of.clock,
            conclude=self._held.conclude,
            outlets=(
                self._stop.follow,
                self._written.observe,
                self._metrics.observe,
                EventLog().observe,
                SafetyEvents(self._publisher, of.subjects).observe,
                RollbackNotices(self._publisher, of.subjects).observe,
                self._keeping.observe,
                self._recent.observe,
                self._notifier.observe,
                self._outlets.observe,
                self._history.commits.observe,
                lambda events: self._access.room.observe(events),  # noqa: PLW0108 - made later
            ),
            appended=self._metrics.appended,
            flush=self._flush,
        )
        self._compaction = Compaction(
            self._loop, of.journal, of.audit, of.checkpoints, of.bucket, restored.checkpoint
        )

    def _join_health(self) -> None:
        """Let everybody know whether all of that works."""
        of = self._of
        self.health = Health(
            bus=lambda: of.connections.problem,
            journal=lambda: self._loop.problem,
            stalled=lambda: self._loop.stalled,
            lag_s=lambda: of.ticker.lag_s,
            unwritten_stops=lambda: self._stop_flag.unwritten,
            disk=lambda: self._disk.problem,
        )
        self._report = HealthReport(
            of,
            self._loop,
            self._compaction,
            self._disk,
            self._written,
            facts=self._facts,
            channels=self._notifier.dispatch.states,
        )

    async def start(self, tasks: anyio.abc.TaskGroup, url: str) -> host.Endpoint:
        """Begin to serve; return where everything is once the bus has been heard."""
        agents = AgentAccess(self._of, self._agent_parts(), self._agent_publishers)
        self._access = OperatorAccess(
            self._of,
            ServingParts(
                self._stop,
                self._held,
                self._notifier,
                self._metrics,
                self.health,
                self._recent,
                self._displaced_perhaps,
                agents.web,
            ),
            self._around(),
            {**self._history.service.handlers, **self._keeping.handlers},
            tasks,
        )
        await self._history.commit_first()
        self._start_tasks(tasks)
        with self._of.connections.needed():
            await self._hear_operators()
            await agents.hear(self._of.connections.agents, keyless=False)
            if self._of.connections.open is not None:
                await agents.hear(self._of.connections.open, keyless=True)
            await self._access.site.start()
            await self._of.connections.first_canaries()
        self.health.begin()
        return host.Endpoint(
            bus=url,
            web=self._access.site.web,
            links=self._access.site.links,
            pid=os.getpid(),
            version=__version__,
        )

    def sign_in_link(self) -> str:
        """Return a link that signs the local operator in to the control room, once."""
        return self._access.entrance.sign_in(LOCAL_OPERATOR, SignInQuestion()).url

    async def drain(self) -> None:
        """Answer what waits, save, and say goodbye."""
        self.health.end()
        host.notify("STOPPING=1")
        host.remove_endpoint(self._of.data_dir)
        self._of.ticker.count_refusals()
        await self._notifier.dispatch.finish(DRAIN_S)
        with anyio.move_on_after(DRAIN_S):
            await self._compaction.save()
        with anyio.move_on_after(DRAIN_S, shield=True):
            await self._access.site.stop()

    async def reload(self, by: str) -> list[str]:
        """Take on the configuration and keys as they are now; return what is wrong with them."""
        errors = await self._of.reload.run(by, self._history.commit_first)
        if not errors:
            self._notifier.renew(by)
            self._access.sessions.prune(self._of.clock.now().at)
            with anyio.move_on_after(DRAIN_S):
                await self._compaction.save()
        return errors

    def _start_tasks(self, tasks: anyio.abc.TaskGroup) -> None:
        of = self._of
        tasks.start_soon(self._loop.decide)
        tasks.start_soon(self._loop.answer)
        tasks.start_soon(self._loop.commit)
        tasks.start_soon(self._compaction.run)
        self._keeping.run(tasks)
        tasks.start_soon(self._recent.refill)
        tasks.start_soon(self._notifier.run)
        tasks.start_soon(self._outlets.run)
        self._history.start(tasks)
        tasks.start_soon(self._access.room.run)
        tasks.start_soon(self._access.reports.run)
        tasks.start_soon(of.ticker.tick)
        tasks.start_soon(of.ticker.count)
        tasks.start_soon(self._disk.run)
        tasks.start_soon(self._stop.watch, of.settings.stop_files)
        tasks.start_soon(repeat_state, self._stop, self._publisher, of.subjects, of.settings)
        tasks.start_soon(feed_watchdog, self.health.better_restarted)
        tasks.start_soon(tell_trouble, self.health.trouble)
        for connection in of.connections.all:
            tasks.start_soon(connection.send_canaries)
        tasks.start_soon(of.reload.end_old_keys)
        watch_limits(of, tasks)
        if of.reserve is not None:
            tasks.start_soon(of.reserve.keep)
        if of.server is not None:
            supervisor = Supervisor(
                of.server, of.connections.main, of.data_dir, lambda: self._loop.server_owes_s
            )
            tasks.start_soon(supervisor.restart)
            tasks.start_soon(supervisor.watch)
        else:
            tasks.start_soon(of.journal.watch)

    async def _hear_operators(self) -> None:
        of = self._of
        client, name = of.connections.main.client, of.subjects.of
        service = OperatorService(self._publisher, self._access.runner, of.settings.question_limits)
        micro = Micro(
            self._publisher,
            of.subjects,
            version=__version__,
            boot_id=of.boot_id,
            started=of.started,
            decisions=lambda: sum(self._metrics.counts().values()),
        )
        await client.handle(name("control", "*"), service.control)
        await of.connections.questions.client.handle(name("query", "*"), service.query)
        await client.handle(name("review", "*"), service.review)
        await client.handle(of.subjects.writer, self._say_writer)
        for verb in ("PING", "INFO", "STATS"):
            await client.handle(f"$SRV.{verb}", micro.answer)
            await client.handle(f"$SRV.{verb}.safetyd", micro.answer)

    def _agent_parts(self) -> AgentParts:
        return AgentParts(
            self._stop_flag,
            self._metrics,
            self._held,
            self._history.commits,
            self.health.not_ready,
            self._displaced_perhaps,
        )

    def _around(self) -> Surroundings:
        return Surroundings(
            self._facts,
            self.reload,
            self._report.answer,
            self._of.data_dir / "audit",
            lambda: self._of.settings.policy,
            self._recent,
        )

    def _facts(self) -> DaemonFacts:
        of, config = self._of, self._of.settings.config
        return DaemonFacts(
            ok=True,
            version=__version__,
            pid=os.getpid(),
            started=of.started,
            problem=self.health.explained(),
            bus=of.server.url if of.server else config.bus.url,
            embedded=of.server is not None,
            open_agents=config.bus.keyless and of.settings.keyless_gate.open,
            keys=of.settings.keys,
            web=self._access.site.web,
            data_dir=str(of.data_dir),
            disk=self._disk.use,
            decisions=self._metrics.counts(),
            failing=tuple(s.name for s in self._notifier.dispatch.states() if s.failing),
            stop_files=tuple(str(path) for path in of.settings.stop_files),
            stop_commands=tuple(config.stop.commands),
            config=str(of.settings.path or ""),
            config_problem=of.reload.problem,
            next_start=tuple(of.settings.next_start),
            outlets=self._outlets.states(),
            missing=self._keeping.missing,
        )

    def _tell_helpers(self, kind: str, notice: object) -> None:
        """Publish a channel's message for helpers in people's sessions."""
        told = {"event_type": kind, "notice": notice}
        self._publisher.tell(self._of.subjects.of("event", kind), told)
        self._publisher.flush()

    def _flush(self) -> None:
        for publisher in (self._publisher, *self._agent_publishers.values()):
            publisher.flush()

    def _say_writer(self, _subject: bytes, reply: bytes, _payload: bytes) -> None:
        """Tell another daemon that this one writes the journal."""
        if self._displaced_perhaps():
            return
        name = f"safetyd {self._of.boot_id} with pid {os.getpid()}"
        self._of.connections.main.client.send(pub(reply, name.encode()))

    def _displaced_perhaps(self) -> bool:
        """Say whether another daemon may write the journal by now, on a bus that two can share.

        A standby waits longer than this, so what one of them says never contradicts the other.
        """
        return self._of.server is None and self._of.journal.unseen_s > TENURE_S
