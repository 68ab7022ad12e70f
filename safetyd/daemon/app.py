"""The daemon: everything that waits, in one task group. If one part dies, all do.

A start is closed: no proposal is heard before the state is rebuilt, the stop is known, the audit
file has its end and the bus has been heard.
"""

import logging
import os
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

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
from safetyd.bus.external_server import external_problems, wait_for_silence
from safetyd.bus.micro import Micro
from safetyd.bus.nats_client import pub
from safetyd.bus.publisher import Publisher
from safetyd.bus.server_config import MAX_JOURNAL_BYTES
from safetyd.bus.subjects import Subjects
from safetyd.bus.supervisor import Supervisor
from safetyd.clock import Clock
from safetyd.core.engine.journal_lines import concerns
from safetyd.core.events.daemon_events import AuditRecovered
from safetyd.core.events.event import Moment
from safetyd.daemon.config import Config
from safetyd.daemon.reload import Reload
from safetyd.daemon.settings import Settings
from safetyd.daemon.ticker import Ticker, feed_watchdog, repeat_state, tell_trouble
from safetyd.host import Unusable, check_room, files_needed
from safetyd.journal.audit import Audit, Torn, find
from safetyd.journal.checkpoint_bucket import CheckpointBucket
from safetyd.journal.checkpoints import Checkpoints
from safetyd.journal.commit_loop import CommitLoop
from safetyd.journal.compaction import Compaction
from safetyd.journal.mailbox import EventEnvelope, Mailbox
from safetyd.journal.recovery import Restored, restore
from safetyd.journal.stream import Journal
from safetyd.journal.transcript_files import TranscriptFiles
from safetyd.monitoring import event_log as logs
from safetyd.monitoring.gauges import Gauges
from safetyd.monitoring.metrics import Metrics
from safetyd.monitoring.safety_events import SafetyEvents
from safetyd.notify.notifier import Notifier
from safetyd.operators.operator_service import OperatorService
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.site import Site

DRAIN_S: Final = 5.0
LAG_S: Final = 0.5
# What is shown of one proposal; a message on the bus holds a quarter of a megabyte.
SHOWN_BYTES: Final = 128 * 1024
TENURE_S: Final = 2.0

log = logging.getLogger("safetyd.daemon")


class Daemon:
    """One daemon over one data directory."""

    def __init__(self, config: Config, config_path: Path | None, data_dir: Path) -> None:
        self._settings = Settings(config, config_path, data_dir)
        self._data_dir = data_dir
        self._boot_id = secrets.token_hex(5)
        self._subjects = Subjects(config.bus.prefix)
        self._clock = Clock()
        self._started = self._clock.now().at
        self._mailbox = Mailbox()
        self._stop_flag = StopFlag()
        self._reserve: StopReserve | None = (
            None  # with a bus of our own: no standby misses the file
        )
        self._refusals = Refusals()
        self._metrics = Metrics(__version__)
        self._ticker = Ticker(self._mailbox, self._clock, self._refusals)
        self._reload = Reload(self._settings, self._metrics, self._ticker, self._mailbox)
        self._audit = Audit(data_dir / "audit", config.audit.max_bytes)
        self._checkpoints = Checkpoints(data_dir / "checkpoints")
        self._server: EmbeddedServer | None = None
        self._links = Connections(
            self._subjects,
            self._boot_id,
            data_dir,
            seed=self._settings.seed,
            keyless=config.bus.keyless,
            die=self._die,
        )
        self._bucket: CheckpointBucket | None = None
        self._publishers: list[Publisher] = []
        self._agent_publishers: dict[bool, Publisher] = {}
        self._died = anyio.Event()
        self._died_of = ""
        self._ready = False
        self._started_up = anyio.Event()
        self._told_to_end = anyio.Event()

    async def run(self, announce: Callable[[host.Endpoint], None]) -> None:
        """Run until a signal; raise if anything dies."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # see console/cli.py
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._obey, signals, tasks)
                await self._live(announce)
                tasks.cancel_scope.cancel()

    async def _obey(
        self, signals: AsyncIterator[signal.Signals], tasks: anyio.abc.TaskGroup
    ) -> None:
        """Reload on SIGHUP; on the others end, at once if nothing is served yet."""
        async for number in signals:
            if number is signal.SIGHUP:
                tasks.start_soon(self._reload_once_started)
                continue
            log.info("stopping on %s", number.name)
            if self._ready:
                self._told_to_end.set()
            else:
                tasks.cancel_scope.cancel()

    async def _reload_once_started(self) -> None:
        await self._started_up.wait()
        await self.reload("SIGHUP")

    async def _live(self, announce: Callable[[host.Endpoint], None]) -> None:
        async with AsyncExitStack() as stack:
            bus = self._settings.config.bus
            with files_needed(self._data_dir):
                stack.enter_context(host.lock(self._data_dir))
                self._settings.keyring.make_own()
                stack.callback(self._leave)
                url = bus.url or self._start_server()
            await self._links.connect(url, self._server, stack)
            with self._links.needed():
                restored = await self._rebuild()
            await self._serve(restored, url, announce)

    def _start_server(self) -> str:
        self._reserve = StopReserve(self._data_dir)
        self._reserve.prepare()
        binary = self._settings.config.bus.nats_server
        self._server = EmbeddedServer(self._data_dir / "nats", self._subjects, binary)
        self._reload.server = self._server
        errors = self._reload.take_on_keys("start")
        if errors:
            check_room(self._data_dir)
            raise Unusable("; ".join(errors))
        self._server.start()
        return self._server.url

    async def _rebuild(self) -> Restored:
        client = self._links.main.client
        if self._server is None:
            problems = self._reload.take_on_keys("start") + await external_problems(client)
            if problems:
                raise Unusable("\n".join(problems))
            log.warning("make sure that the bus has `sync_interval: always`; it cannot be seen")
            await wait_for_silence(client, self._subjects.writer)
            self._bucket = CheckpointBucket(client)
            await self._bucket.fetch(self._checkpoints)
        self._journal = Journal(client, self._subjects, self._boot_id)
        await self._journal.open(MAX_JOURNAL_BYTES)
        policy = self._settings.policy
        with files_needed(self._data_dir):
            torn = self._audit.open()
            restored = await restore(policy, self._checkpoints, self._journal, self._audit)
        self._clock.resume_after(restored.t)
        log.info("replayed %d events, now at %d", restored.replayed, restored.engine.seq)
        self._mailbox.put(EventEnvelope(self._reload.configured("start"), lambda: None))
        if torn is not None:
            log.error("a torn line of %d bytes was cut off %s", torn.size, torn.file)
            self._ticker.put(lambda moment: _recovered(torn, moment))
        return restored

    async def _serve(
        self, restored: Restored, url: str, announce: Callable[[host.Endpoint], None]
    ) -> None:
        self._assemble(restored)
        with files_needed(self._data_dir):
            self._emergency_stop.take_over(restored.engine, self._settings.stop_files)
        site = self._site()
        async with anyio.create_task_group() as tasks:
            self._start_tasks(tasks)
            with self._links.needed():
                await self._subscribe(tasks)
                await site.start()
                self._web_url = site.web
                await self._links.first_canaries()
            self._ready = True
            endpoint = host.Endpoint(
                bus=url, web=site.web, links=site.links, pid=os.getpid(), version=__version__
            )
            with files_needed(self._data_dir):
                host.write_endpoint(self._data_dir, endpoint)
            host.notify("READY=1")
            announce(endpoint)
            self._started_up.set()
            await self._told_to_end.wait()
            await self._drain(site)
            tasks.cancel_scope.cancel()

    def _assemble(self, restored: Restored) -> None:
        engine, metrics = restored.engine, self._metrics
        self._writer = CommitLoop(self._mailbox, engine, self._journal, self._audit, self._clock)
        self._compaction = Compaction(
            self._writer, self._journal, self._audit, self._checkpoints, self._bucket
        )
        self._compaction.begin(restored.checkpoint)
        self._publisher = Publisher(self._links.main.client, self._subjects, keyless=False)
        self._publishers = [self._publisher]
        self._publisher.muted = self._displaced_perhaps
        self._emergency_stop = EmergencyStop(
            self._stop_flag,
            self._mailbox,
            self._publisher,
            self._subjects,
            self._clock,
            reserve=self._reserve,
        )
        log_events = logs.EventLog().observe
        self._answers = HeldReplies(engine, self._agent_publishers, self._stop_flag)
        self._transcripts = TranscriptFiles(self._data_dir)
        with files_needed(self._data_dir):
            self._notifier = Notifier(
                self._settings,
                engine,
                self._mailbox,
                self._clock,
                data_dir=self._data_dir,
                public_url=self._settings.config.web.public_url,
                waits=self._answers.waits,
                publish=self._tell_desktops,
            )
        self._writer.outlets = [
            self._emergency_stop.follow,
            self._answers.observe,
            metrics.observe,
            log_events,
            SafetyEvents(self._publisher, self._subjects).observe,
            self._transcripts.observe,
            self._notifier.observe,
        ]
        self._writer.appended = metrics.appended
        self._writer.after = self._flush
        metrics.stopped = lambda: bool(self._stop_flag.stops)
        metrics.malformed = lambda: self._refusals.total.get("malformed", 0)
        metrics.audit_bytes = lambda: self._audit.written
        metrics.guards = lambda: engine.guard_names
        gauges = Gauges(engine, self._clock.now, self._settings.has_key)
        metrics.gauges = gauges.families
        metrics.counters.label, metrics.counters.labels = gauges.label, gauges.labels
        metrics.counters.asked_at = gauges.asked_at
        gauges.channels = self._notifier.dispatch.states

    def _start_tasks(self, tasks: anyio.abc.TaskGroup) -> None:
        tasks.start_soon(self._writer.decide)
        tasks.start_soon(self._writer.answer)
        tasks.start_soon(self._writer.commit)
        tasks.start_soon(self._compaction.run)
        tasks.start_soon(self._transcripts.run)
        tasks.start_soon(self._notifier.run)
        tasks.start_soon(self._ticker.tick)
        tasks.start_soon(self._ticker.count)
        tasks.start_soon(self._emergency_stop.watch, self._settings.stop_files)
        tasks.start_soon(
            repeat_state, self._emergency_stop, self._publisher, self._subjects, self._settings
        )
        tasks.start_soon(feed_watchdog, self._better_restarted)
        tasks.start_soon(tell_trouble, self._trouble)
        tasks.start_soon(self._until_dead)
        for link in self._links.all:
            tasks.start_soon(link.send_canaries)
        hang_up = self._links.questions.hang_up
        # What a flood of questions left in the connection is dropped: others would wait behind it.
        tasks.start_soon(
            self._settings.question_limits.flood_gate.watch, self._reload.shut_out, hang_up
        )
        tasks.start_soon(self._settings.flood_gate.watch, self._reload.shut_out)
        if self._links.open is not None:
            tasks.start_soon(
                self._settings.keyless_gate.watch,
                partial(self._reload.take_on_keys, "door"),
            )
        if self._reserve is not None:
            tasks.start_soon(self._reserve.keep)
        if self._server is not None:
            supervisor = Supervisor(
                self._server, self._links.main, self._data_dir, lambda: self._writer.server_owes_s
            )
            tasks.start_soon(supervisor.restart)
            tasks.start_soon(supervisor.watch)
            tasks.start_soon(ConnectionLimits(self._server, self._settings.name_of).watch)
        else:
            tasks.start_soon(self._journal.watch)

    async def _subscribe(self, tasks: anyio.abc.TaskGroup) -> None:
        client, of = self._links.main.client, self._subjects.of
        service = OperatorService(
            self._publisher,
            self._mailbox,
            self._emergency_stop,
            self,
            tasks,
            waits=self._answers.waits,
            plans=self._notifier.plans,
            questions=self._notifier.questions,
            question_limits=self._settings.question_limits,
        )
        micro = Micro(
            self._publisher,
            self._subjects,
            version=__version__,
            boot_id=self._boot_id,
            started=self._started,
            decisions=lambda: sum(self._metrics.counts().values()),
        )
        await client.handle(of("control", "*"), service.control)
        await self._links.questions.client.handle(of("query", "*"), service.query)
        await client.handle(of("review", "*"), service.review)
        await client.handle(self._subjects.writer, self._say_writer)
        for verb in ("PING", "INFO", "STATS"):
            await client.handle(f"$SRV.{verb}", micro.answer)
            await client.handle(f"$SRV.{verb}.safetyd", micro.answer)
        await self._hear_agents(self._links.agents, keyless=False)
        if self._links.open is not None:
            await self._hear_agents(self._links.open, keyless=True)

    async def _hear_agents(self, link: Connection, *, keyless: bool) -> None:
        publisher = Publisher(link.client, self._subjects, keyless=keyless)
        publisher.muted = self._displaced_perhaps
        self._publishers.append(publisher)
        self._agent_publishers[keyless] = publisher
        name = self._subjects.keyless if keyless else self._subjects.of
        service = AgentService(
            publisher,
            self._mailbox,
            self._settings,
            self._stop_flag,
            self._refusals,
            self._metrics,
            answers=self._answers,
            clock=self._clock,
            keyless=keyless,
            problem=self.not_ready,
            boot_id=self._boot_id,
        )
        await link.client.handle(name("propose", "*"), service.propose)
        await link.client.handle(name("telemetry", "*"), service.telemetry)
        await link.client.handle(name("permission", "*"), service.permission)
        await link.client.handle(name("claim", "*"), service.claim)

    def _site(self) -> Site:
        return Site(
            self._settings.config.web,
            self._settings.keyring.bearer,
            self._metrics,
            EngineGateway(self._mailbox, self.not_ready, self._displaced_perhaps),
            self._notifier,
            self._clock,
            waits=self._answers.waits,
            alive=self.problem,
            ready=self.not_ready,
            any_port=self._settings.path is None,
        )

    def problem(self) -> str:
        """Return what a restart would help against, or nothing."""
        if deaf := self._links.problem:
            return deaf
        if self._ticker.lag_s > LAG_S:
            return f"the event loop is {self._ticker.lag_s:.1f} s late"
        return self._writer.problem

    def _better_restarted(self) -> str:
        """Return why the watchdog should bite, or nothing: a restart forgets an unwritten stop."""
        return "" if self._stop_flag.unwritten else self.problem()

    def not_ready(self) -> str:
        """Return why a proposal would not be answered now, or nothing."""
        if not self._ready:
            return "safetyd is starting or stopping"
        return self._writer.stalled or self.problem()

    def _trouble(self) -> str:
        return self.not_ready() if self._ready else ""

    @property
    def channels(self) -> tuple[str, ...]:
        """On which people are told."""
        return self._settings.channels

    def facts(self) -> Mapping[str, object]:
        config = self._settings.config
        return {
            "version": __version__,
            "pid": os.getpid(),
            "started": self._started,
            "problem": self.not_ready(),
            "bus": self._server.url if self._server else config.bus.url,
            "embedded": self._server is not None,
            "open_agents": config.bus.keyless and self._settings.keyless_gate.open,
            "keys": self._settings.keys,
            "web": self._web_url,
            "data_dir": str(self._data_dir),
            "decisions": self._metrics.counts(),
            "failing": [state.name for state in self._notifier.dispatch.states() if state.failing],
            "stop_files": [str(path) for path in self._settings.stop_files],
            "stop_commands": list(config.stop.commands),
            "config": str(self._settings.path or ""),
            "config_problem": self._reload.problem,
            "next_start": list(self._settings.next_start),
        }

    async def search(self, id_: str) -> list[bytes]:
        directory, wanted = self._data_dir / "audit", partial(concerns, id_=id_)
        return await anyio.to_thread.run_sync(find, directory, wanted, SHOWN_BYTES)

    async def reload(self, by: str) -> list[str]:
        errors = await self._reload.run(by)
        if not errors:
            self._notifier.renew(by)
            with anyio.move_on_after(DRAIN_S):
                await self._compaction.save()
        return errors

    def _tell_desktops(self, notice: dict[str, object]) -> None:
        """Let helpers in people's sessions show a message."""
        kind = "DESKTOP_NOTICE"
        told = {"event_type": kind, "notice": notice}
        self._publisher.tell(self._subjects.of("event", kind), told)
        self._publisher.flush()

    def _flush(self) -> None:
        for publisher in self._publishers:
            publisher.flush()

    def _say_writer(self, _subject: bytes, reply: bytes, _payload: bytes) -> None:
        """Tell another daemon that this one writes the journal."""
        if self._displaced_perhaps():
            return
        name = f"safetyd {self._boot_id} with pid {os.getpid()}"
        self._links.main.client.send(pub(reply, name.encode()))

    def _displaced_perhaps(self) -> bool:
        """Say whether another daemon may write the journal by now, on a bus that two can share.

        A standby waits longer than this, so what one of them says never contradicts the other.
        """
        return self._server is None and self._journal.unseen_s > TENURE_S

    def _die(self, why: str) -> None:
        self._died_of = why
        self._died.set()

    async def _until_dead(self) -> None:
        await self._died.wait()
        raise Unusable(self._died_of)

    async def _drain(self, site: Site) -> None:
        """Answer what waits, save, and say goodbye."""
        self._ready = False
        host.notify("STOPPING=1")
        host.remove_endpoint(self._data_dir)
        self._ticker.count_refusals()
        await self._notifier.dispatch.finish(DRAIN_S)
        with anyio.move_on_after(DRAIN_S):
            await self._compaction.save()
        with anyio.move_on_after(DRAIN_S, shield=True):
            await site.stop()

    def _leave(self) -> None:
        host.remove_endpoint(self._data_dir)
        self._audit.close()
        if self._server is not None:
            self._server.stop()


def _recovered(torn: Torn, moment: Moment) -> AuditRecovered:
    return AuditRecovered(
        at=moment.at,
        t=moment.t,
        file=torn.file,
        torn_bytes=torn.size,
        torn_sha256=torn.sha256,
    )
