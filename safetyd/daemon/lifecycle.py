"""Runs a daemon from start to stop, in one task group. If one part fails, all parts stop.

Proposals are received only after the state is rebuilt, stops are applied, the audit file is
complete and the bus works.

On an external bus, a daemon serves in turns. In each turn, it stands by until it becomes the
writer, and then decides until it hands over, loses the journal, or ends. Every turn has its own
connections and engine.
"""

import logging
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.abc

from safetyd import __version__, host
from safetyd.agents.refusals import Refusals
from safetyd.agents.stop_reserve import StopReserve
from safetyd.bus.connections import CONNECT_S, BusFailed, Connections
from safetyd.bus.embedded_server import EmbeddedServer
from safetyd.bus.external_server import external_problems
from safetyd.bus.server_config import MAX_JOURNAL_BYTES
from safetyd.bus.shared_keys import SharedKeys
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock, boottime
from safetyd.core.events.cluster_events import TookOver
from safetyd.core.events.daemon_events import AuditRecovered
from safetyd.core.events.event import Moment
from safetyd.daemon.app import App
from safetyd.daemon.background_tasks import change_nodes
from safetyd.daemon.config import Config
from safetyd.daemon.extra import Extra
from safetyd.daemon.extras import EXTRAS
from safetyd.daemon.reload import Reload
from safetyd.daemon.resources import Resources
from safetyd.daemon.settings import Settings
from safetyd.daemon.ticker import Ticker, at
from safetyd.host import Unusable, check_room, files_needed
from safetyd.journal.audit import Audit, Torn
from safetyd.journal.checkpoint_bucket import CheckpointBucket
from safetyd.journal.checkpoints import Checkpoints
from safetyd.journal.journals import JournalTrimmed
from safetyd.journal.mailbox import EventEnvelope, Mailbox
from safetyd.journal.recovery import JournalLost, Restored, load, restore
from safetyd.journal.standby import Claimant, Followed, Standby
from safetyd.journal.stream import Displaced, JetStreamJournal

AGAIN_S: Final = 0.5

Announce = Callable[[host.Endpoint], None]

log = logging.getLogger("safetyd.daemon")


class Daemon:
    """A daemon with its data directory."""

    def __init__(
        self,
        config: Config,
        config_path: Path | None,
        data_dir: Path,
        extras: Iterable[type[Extra]] = EXTRAS,
    ) -> None:
        self._extras = extras
        self._settings = Settings(config, config_path, data_dir)
        self._data_dir = data_dir
        self._subjects = Subjects(config.bus.prefix)
        self._started = Clock().now().at
        self._audit = Audit(data_dir / "audit", config.audit.max_bytes)
        self._checkpoints = Checkpoints(data_dir / "checkpoints")
        self._server: EmbeddedServer | None = None
        self._torn: Torn | None = None
        self._app: App | None = None
        self._serving = anyio.Event()
        self._told_to_end = anyio.Event()
        self._ended_by = ""  # the signal
        self._announced = False
        self._failing = Failing()

    @property
    def channels(self) -> tuple[str, ...]:
        """Return the notification channels."""
        return self._settings.channels

    async def run(self, announce: Announce) -> None:
        """Run until a signal stops the daemon. Raise an exception if any part fails."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # see console/cli.py
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._obey, signals, tasks)
                await self._live(announce)
                tasks.cancel_scope.cancel()

    async def _obey(
        self, signals: AsyncIterator[signal.Signals], tasks: anyio.abc.TaskGroup
    ) -> None:
        """Reload on SIGHUP. Stop on other signals, immediately if the daemon does not decide."""
        async for number in signals:
            if number is signal.SIGHUP:
                tasks.start_soon(self._reload_once_serving)
                continue
            log.info("stopping on %s", number.name)
            self._ended_by = number.name
            self._told_to_end.set()
            if self._app is None or not self._app.writes:
                tasks.cancel_scope.cancel()

    async def _reload_once_serving(self) -> None:
        await self._serving.wait()
        if self._app is not None:
            await self._app.reload("SIGHUP")

    async def _live(self, announce: Announce) -> None:
        """Lock the data directory, start the embedded bus if there is one, and serve."""
        with ExitStack() as stack:
            bus = self._settings.config.bus
            with files_needed(self._data_dir):
                stack.enter_context(host.lock(self._data_dir))
                self._settings.keyring.make_own()
                if not bus.url:
                    self._server = EmbeddedServer(
                        self._data_dir / "nats", self._subjects, bus.nats_server
                    )
                    stack.callback(self._server.stop)
                stack.callback(self._audit.close)
                stack.callback(host.remove_endpoint, self._data_dir)
                self._torn = self._audit.open()
            if self._server is not None:
                await self._turn(announce)
            else:
                await self._take_turns(announce)

    async def _take_turns(self, announce: Announce) -> None:
        """Serve on an external bus until the end: stand by, write, and stand by again.

        Nodes of a cluster elect leaders when one of them fails. Until then they may not answer, or
        answer with old facts. So only a problem that lasts ends this daemon.
        """
        log.warning("make sure that the bus has `sync_interval: always`; safetyd cannot check it")
        patient = False
        while not self._told_to_end.is_set():
            try:
                await self._turn(announce, patient=patient)
                patient = True
            except* Displaced as group:
                for why in _texts(group):
                    log.warning("this daemon becomes a standby: %s", why)
                patient = False
            except* (BusFailed, JournalLost, JournalTrimmed) as group:
                serious = group.subgroup((JournalLost, JournalTrimmed)) is not None
                if self._failing.too_long() and (serious or not self._announced):
                    raise
                for why in _texts(group):
                    log.warning("trying again: %s", why)
                patient = False
                await anyio.sleep(AGAIN_S)

    async def _turn(self, announce: Announce, *, patient: bool = False) -> None:
        """Connect, rebuild the state, and serve until a signal, a handover or a failure.

        `patient`: this daemon has handed over, so another one should take over.
        """
        failure = Failure()
        async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
            tasks.start_soon(failure.watch)
            self._app = None
            of = await self._connected(stack, failure)
            if self._settings.shares_keys:
                await self._share_keys(of, tasks)
            if of.server is not None:
                restored = await self._rebuild(of)
            else:
                tasks.start_soon(change_nodes, of)
                restored = await self._stand_by(of, announce, patient=patient)
            await self._write(of, restored, announce)
            tasks.cancel_scope.cancel()

    async def _connected(self, stack: AsyncExitStack, failure: "Failure") -> Resources:
        """Connect to the bus and open the journal. `stack` closes the connections."""
        server, settings = self._server, self._settings
        mailbox, refusals, clock, boot_id = Mailbox(), Refusals(), Clock(), secrets.token_hex(5)
        reload = Reload(settings, server, mailbox)
        with files_needed(self._data_dir):
            reserve = StopReserve(self._data_dir)
            reserve.prepare()
            stack.callback(reserve.flush)
            if server is not None:
                self._start_server(server, reload)
        connections = Connections(
            self._subjects,
            boot_id,
            self._data_dir,
            seed=settings.seed,
            keyless=settings.config.bus.keyless,
            die=failure.report,
        )
        await connections.connect(self._url, server, stack)
        with connections.needed():
            bucket = await self._join_bus(connections, reload) if server is None else None
            journal = JetStreamJournal(connections.main.client, self._subjects, boot_id)
            await journal.open(MAX_JOURNAL_BYTES, settings.config.journal.replicas)
        return Resources(
            settings=settings,
            data_dir=self._data_dir,
            boot_id=boot_id,
            name="" if server is not None else settings.daemon_name,
            started=self._started,
            subjects=self._subjects,
            clock=clock,
            mailbox=mailbox,
            refusals=refusals,
            ticker=Ticker(mailbox, clock, refusals),
            reload=reload,
            audit=self._audit,
            checkpoints=self._checkpoints,
            connections=connections,
            journal=journal,
            server=server,
            reserve=reserve,
            bucket=bucket,
            standby=None,
        )

    @property
    def _url(self) -> str:
        return self._settings.config.bus.url if self._server is None else self._server.url

    async def _share_keys(self, of: Resources, tasks: anyio.abc.TaskGroup) -> None:
        """Start to share keys with other daemons, also while this one is a standby."""

        def take_on(by: str) -> list[str]:
            if self._app is not None and self._app.health.serving:
                return self._app.take_on_keys(by)
            return of.reload.take_on_keys(by, record=False)

        config = self._settings.config
        keys = SharedKeys(
            of.connections.main.client,
            of.subjects,
            self._data_dir / "keys",
            seed=self._settings.seed(),
            daemons=config.bus.daemons,
            take_on=take_on,
            replicas=config.journal.replicas,
        )
        with of.connections.needed():
            await keys.begin()
        tasks.start_soon(keys.run)

    def _start_server(self, server: EmbeddedServer, reload: Reload) -> None:
        errors = reload.take_on_keys("start")
        if errors:
            check_room(self._data_dir)
            raise Unusable("; ".join(errors))
        server.start()

    async def _join_bus(self, connections: Connections, reload: Reload) -> CheckpointBucket:
        """Check an external bus, and download the newest checkpoints."""
        client = connections.main.client
        problems = reload.take_on_keys("start") + await external_problems(client)
        if problems:
            raise (BusFailed if self._announced else Unusable)("\n".join(problems))
        bucket = CheckpointBucket(client, self._settings.config.journal.replicas)
        await bucket.fetch(self._checkpoints)
        return bucket

    async def _rebuild(self, of: Resources) -> Restored:
        with of.connections.needed(), files_needed(self._data_dir):
            return await restore(self._settings.policy, of.checkpoints, of.journal, of.audit)

    async def _stand_by(self, of: Resources, announce: Announce, *, patient: bool) -> Restored:
        """Follow the journal until this daemon is its writer."""
        with of.connections.needed(), files_needed(self._data_dir):
            restored, after = await load(
                self._settings.policy, of.checkpoints, of.journal, of.audit
            )
            standby = Standby(
                Followed(restored, after, of.journal, of.audit),
                of.clock,
                Claimant(of.name, __version__),
                patient=patient,
            )
            await standby.catch_up()
        if not await standby.claim():
            await self._follow(of._replace(standby=standby), standby, restored, announce)
        took = TookOver(
            at=self._started,
            t=0.0,
            term=restored.engine.writers.term,
            daemon=of.name,
            before=standby.before,
            planned=standby.planned,
        )
        of.mailbox.record(partial(at, took))
        return restored

    async def _follow(
        self, of: Resources, standby: Standby, restored: Restored, announce: Announce
    ) -> None:
        """Show pages, and pass stops on, until this daemon is the writer."""
        app = App(of, restored, self._extras)
        async with anyio.create_task_group() as tasks:
            await self._start(app, tasks, announce)
            await standby.follow()
            tasks.cancel_scope.cancel()
        await app.close()
        of.reserve.flush()
        of.mailbox.clear()

    async def _write(self, of: Resources, restored: Restored, announce: Announce) -> None:
        """Decide, until a signal or a handover."""
        of.clock.resume_after(restored.t)
        log.info("replayed %d events; the last one is %d", restored.replayed, restored.engine.seq)
        of.mailbox.put(EventEnvelope(of.reload.configured("start")))
        if self._torn is not None:
            torn, self._torn = self._torn, None
            log.error("removed an incomplete line of %d bytes from %s", torn.size, torn.file)
            of.mailbox.record(lambda moment: _recovered(torn, moment))
        app = App(of, restored, self._extras)
        async with anyio.create_task_group() as tasks:
            await self._start(app, tasks, announce)
            async with anyio.create_task_group() as ends:
                ends.start_soon(_cancel_after, self._told_to_end, ends)
                ends.start_soon(_cancel_after, app.handover.requested, ends)
            if self._told_to_end.is_set():
                host.notify("STOPPING=1")
                host.remove_endpoint(self._data_dir)
            await app.drain(self._ended_by or app.handover.by)
            await app.close()
            tasks.cancel_scope.cancel()

    async def _start(self, app: App, tasks: anyio.abc.TaskGroup, announce: Announce) -> None:
        self._app = app
        endpoint = await app.start(tasks, self._url)
        with files_needed(self._data_dir):
            host.write_endpoint(self._data_dir, endpoint)
        host.notify("READY=1")
        self._serving.set()
        self._failing.end()
        if not self._announced:
            self._announced = True
            announce(endpoint)

    def sign_in_link(self) -> str:
        """Return a link to the control room for the operator who started this daemon."""
        return "" if self._app is None else self._app.sign_in_link()


class Failing:
    """How long the attempts to serve have failed: since the start, or since the first failure."""

    def __init__(self) -> None:
        self._since: float | None = boottime()

    def end(self) -> None:
        """Note that an attempt has succeeded."""
        self._since = None

    def too_long(self) -> bool:
        """Return True if no election of the bus's nodes takes that long."""
        now = boottime()
        if self._since is None:
            self._since = now
        return now - self._since >= CONNECT_S


class Failure:
    """The first failure of a connection. It ends the turn, and with it the daemon."""

    def __init__(self) -> None:
        self._why = ""
        self._reported = anyio.Event()

    def report(self, why: str) -> None:
        self._why = self._why or why
        self._reported.set()

    async def watch(self) -> None:
        await self._reported.wait()
        raise Unusable(self._why)


async def _cancel_after(event: anyio.Event, tasks: anyio.abc.TaskGroup) -> None:
    await event.wait()
    tasks.cancel_scope.cancel()


def _texts(group: BaseExceptionGroup[BaseException]) -> Iterator[str]:
    for exc in group.exceptions:
        if isinstance(exc, BaseExceptionGroup):
            yield from _texts(exc)
        else:
            yield str(exc)


def _recovered(torn: Torn, moment: Moment) -> AuditRecovered:
    return AuditRecovered(
        at=moment.at,
        t=moment.t,
        file=torn.file,
        torn_bytes=torn.size,
        torn_sha256=torn.sha256,
    )
