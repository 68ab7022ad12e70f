"""Everything that serves, joined once the state is known: one method for each subject.

Parts know each other by what their constructors are given, most of them by functions; nothing is
put into a part afterwards.
"""

import os
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.abc
import anyio.to_thread

from safetyd import __version__, host
from safetyd.agents.agent_service import AgentService
from safetyd.agents.emergency_stop import EmergencyStop, StopFlag
from safetyd.agents.held_replies import HeldReplies
from safetyd.agents.refusals import Refusals
from safetyd.agents.stop_reserve import StopReserve
from safetyd.bus.connection_limits import ConnectionLimits
from safetyd.bus.connections import Connection, Connections
from safetyd.bus.embedded_server import EmbeddedServer
from safetyd.bus.micro import Micro
from safetyd.bus.nats_client import pub
from safetyd.bus.publisher import Publisher
from safetyd.bus.subjects import Subjects
from safetyd.bus.supervisor import Supervisor
from safetyd.clock import Clock
from safetyd.core.engine.journal_lines import concerns
from safetyd.daemon.health import Health
from safetyd.daemon.reload import Reload
from safetyd.daemon.settings import Settings
from safetyd.daemon.ticker import Ticker, feed_watchdog, repeat_state, tell_trouble
from safetyd.host import files_needed
from safetyd.journal.audit import Audit, find
from safetyd.journal.checkpoint_bucket import CheckpointBucket
from safetyd.journal.checkpoints import Checkpoints
from safetyd.journal.commit_loop import CommitLoop
from safetyd.journal.compaction import Compaction
from safetyd.journal.mailbox import Mailbox
from safetyd.journal.recovery import Restored
from safetyd.journal.stream import Journal
from safetyd.journal.transcript_files import TranscriptFiles
from safetyd.monitoring.counters import Counters
from safetyd.monitoring.event_log import EventLog
from safetyd.monitoring.gauges import Gauges
from safetyd.monitoring.metrics import Metrics, Sources
from safetyd.monitoring.safety_events import SafetyEvents
from safetyd.notify.notifier import Notifier
from safetyd.operators.operator_service import OperatorService, Surroundings
from safetyd.operators.views.status_view import DaemonFacts
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.site import Site

DRAIN_S: Final = 5.0
# What is shown of one proposal; a message on the bus holds a quarter of a megabyte.
SHOWN_BYTES: Final = 128 * 1024
TENURE_S: Final = 2.0


class Resources(NamedTuple):
    """What is there before the state is known. `server` and `reserve` are ours, if the bus is."""

    settings: Settings
    data_dir: Path
    boot_id: str
    started: datetime
    subjects: Subjects
    clock: Clock
    mailbox: Mailbox
    refusals: Refusals
    ticker: Ticker
    reload: Reload
    audit: Audit
    checkpoints: Checkpoints
    connections: Connections
    journal: Journal
    server: EmbeddedServer | None
    reserve: StopReserve | None
    bucket: CheckpointBucket | None


class App:
    """One daemon at work."""

    def __init__(self, resources: Resources, restored: Restored) -> None:
        self._of = resources
        self._engine = restored.engine
        self._stop_flag = StopFlag()
        self._join_publishers()
        self._join_stop()
        self._join_people()
        self._join_monitoring()
        self._join_journal(restored)
        self._join_web()

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

    def _join_stop(self) -> None:
        of = self._of
        self._stop = EmergencyStop(
            self._stop_flag,
            of.mailbox,
            self._publisher,
            of.subjects,
            of.clock,
            reserve=of.reserve,
        )
        with files_needed(of.data_dir):
            self._stop.take_over(self._engine, of.settings.stop_files)

    def _join_people(self) -> None:
        """Let people be told, and agents hear what they answer."""
        of = self._of
        self._held = HeldReplies(self._engine, self._agent_publishers, self._stop_flag)
        with files_needed(of.data_dir):
            self._notifier = Notifier(
                of.settings,
                self._engine,
                of.mailbox,
                of.clock,
                data_dir=of.data_dir,
                public_url=of.settings.config.web.public_url,
                base_url=lambda: self._site.base_url,
                waits=self._held.waits,
                publish=self._tell_desktops,
            )

    def _join_monitoring(self) -> None:
        of = self._of
        channels = self._notifier.dispatch.states
        gauges = Gauges(self._engine, of.clock.now, of.settings.has_key, channels)
        self._metrics = Metrics(
            __version__,
            Sources(
                stopped=lambda: bool(self._stop_flag.stops),
                malformed=lambda: of.refusals.total.get("malformed", 0),
                audit_bytes=lambda: of.audit.written,
                guards=lambda: self._engine.guard_names,
                reload_ok=lambda: not of.reload.problem,
                gauges=gauges.families,
            ),
            Counters(gauges.label, gauges.labels, gauges.asked_at),
        )

    def _join_journal(self, restored: Restored) -> None:
        """Let what is decided be written down, and only then be told."""
        of = self._of
        self._transcripts = TranscriptFiles(of.data_dir)
        self._loop = CommitLoop(
            of.mailbox,
            self._engine,
            of.journal,
            of.audit,
            of.clock,
            outlets=(
                self._stop.follow,
                self._held.observe,
                self._metrics.observe,
                EventLog().observe,
                SafetyEvents(self._publisher, of.subjects).observe,
                self._transcripts.observe,
                self._notifier.observe,
            ),
            appended=self._metrics.appended,
            flush=self._flush,
        )
        self._compaction = Compaction(
            self._loop, of.journal, of.audit, of.checkpoints, of.bucket, restored.checkpoint
        )
        self.health = Health(
            bus=lambda: of.connections.problem,
            journal=lambda: self._loop.problem,
            stalled=lambda: self._loop.stalled,
            lag_s=lambda: of.ticker.lag_s,
            unwritten_stops=lambda: self._stop_flag.unwritten,
        )

    def _join_web(self) -> None:
        of, web = self._of, self._of.settings.config.web
        self._site = Site(
            web,
            of.settings.keyring.bearer,
            self._metrics,
            EngineGateway(of.mailbox, self.health.not_ready, self._displaced_perhaps),
            self._notifier,
            of.clock,
            waits=self._held.waits,
            alive=self.health.problem,
            ready=self.health.not_ready,
        )

    async def start(self, tasks: anyio.abc.TaskGroup, url: str) -> host.Endpoint:
        """Begin to serve; return where everything is once the bus has been heard."""
        self._start_tasks(tasks)
        with self._of.connections.needed():
            await self._hear_operators(tasks)
            await self._hear_agents(self._of.connections.agents, keyless=False)
            if self._of.connections.open is not None:
                await self._hear_agents(self._of.connections.open, keyless=True)
            await self._site.start()
            await self._of.connections.first_canaries()
        self.health.begin()
        return host.Endpoint(
            bus=url,
            web=self._site.web,
            links=self._site.links,
            pid=os.getpid(),
            version=__version__,
        )

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
            await self._site.stop()

    async def reload(self, by: str) -> list[str]:
        """Take on the configuration and keys as they are now; return what is wrong with them."""
        errors = await self._of.reload.run(by)
        if not errors:
            self._notifier.renew(by)
            with anyio.move_on_after(DRAIN_S):
                await self._compaction.save()
        return errors

    def _start_tasks(self, tasks: anyio.abc.TaskGroup) -> None:
        of = self._of
        tasks.start_soon(self._loop.decide)
        tasks.start_soon(self._loop.answer)
        tasks.start_soon(self._loop.commit)
        tasks.start_soon(self._compaction.run)
        tasks.start_soon(self._transcripts.run)
        tasks.start_soon(self._notifier.run)
        tasks.start_soon(of.ticker.tick)
        tasks.start_soon(of.ticker.count)
        tasks.start_soon(self._stop.watch, of.settings.stop_files)
        tasks.start_soon(repeat_state, self._stop, self._publisher, of.subjects, of.settings)
        tasks.start_soon(feed_watchdog, self.health.better_restarted)
        tasks.start_soon(tell_trouble, self.health.trouble)
        for connection in of.connections.all:
            tasks.start_soon(connection.send_canaries)
        self._start_limits(tasks)
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

    def _start_limits(self, tasks: anyio.abc.TaskGroup) -> None:
        """Watch who floods, and who holds too many connections."""
        settings, reload = self._of.settings, self._of.reload
        # What a flood of questions left in the connection is dropped: others would wait behind it.
        hang_up = self._of.connections.questions.hang_up
        flooding_questions = settings.question_limits.flood_gate
        tasks.start_soon(flooding_questions.watch, reload.shut_out, hang_up)
        tasks.start_soon(settings.flood_gate.watch, reload.shut_out)
        if self._of.connections.open is not None:
            tasks.start_soon(settings.keyless_gate.watch, partial(reload.take_on_keys, "door"))
        if self._of.server is not None:
            tasks.start_soon(ConnectionLimits(self._of.server, settings.name_of).watch)

    async def _hear_operators(self, tasks: anyio.abc.TaskGroup) -> None:
        of = self._of
        client, name = of.connections.main.client, of.subjects.of
        service = OperatorService(
            self._publisher,
            of.mailbox,
            self._stop,
            Surroundings(self._facts, self.reload, self._search),
            tasks,
            waits=self._held.waits,
            plans=self._notifier.plans,
            questions=self._notifier.questions,
            question_limits=of.settings.question_limits,
        )
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

    async def _hear_agents(self, connection: Connection, *, keyless: bool) -> None:
        of = self._of
        name = of.subjects.keyless if keyless else of.subjects.of
        service = AgentService(
            self._agent_publishers[keyless],
            of.mailbox,
            of.settings,
            self._stop_flag,
            of.refusals,
            self._metrics,
            answers=self._held,
            clock=of.clock,
            keyless=keyless,
            problem=self.health.not_ready,
            boot_id=of.boot_id,
        )
        client = connection.client
        await client.handle(name("propose", "*"), service.propose)
        await client.handle(name("telemetry", "*"), service.telemetry)
        await client.handle(name("permission", "*"), service.permission)
        await client.handle(name("claim", "*"), service.claim)

    def _facts(self) -> DaemonFacts:
        of, config = self._of, self._of.settings.config
        return DaemonFacts(
            ok=True,
            version=__version__,
            pid=os.getpid(),
            started=of.started,
            problem=self.health.not_ready(),
            bus=of.server.url if of.server else config.bus.url,
            embedded=of.server is not None,
            open_agents=config.bus.keyless and of.settings.keyless_gate.open,
            keys=of.settings.keys,
            web=self._site.web,
            data_dir=str(of.data_dir),
            decisions=self._metrics.counts(),
            failing=tuple(s.name for s in self._notifier.dispatch.states() if s.failing),
            stop_files=tuple(str(path) for path in of.settings.stop_files),
            stop_commands=tuple(config.stop.commands),
            config=str(of.settings.path or ""),
            config_problem=of.reload.problem,
            next_start=tuple(of.settings.next_start),
        )

    async def _search(self, id_: str) -> list[bytes]:
        directory, wanted = self._of.data_dir / "audit", partial(concerns, id_=id_)
        return await anyio.to_thread.run_sync(find, directory, wanted, SHOWN_BYTES)

    def _tell_desktops(self, notice: dict[str, object]) -> None:
        """Let helpers in people's sessions show a message."""
        kind = "DESKTOP_NOTICE"
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
