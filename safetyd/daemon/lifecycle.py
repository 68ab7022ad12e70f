"""Runs a daemon from start to stop, in one task group. If one part fails, all parts stop.

Proposals are received only after the state is rebuilt, stops are applied, the audit file is
complete and the bus works.
"""

import logging
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import anyio.abc

from safetyd import host
from safetyd.agents.refusals import Refusals
from safetyd.agents.stop_reserve import StopReserve
from safetyd.bus.connections import Connections
from safetyd.bus.embedded_server import EmbeddedServer
from safetyd.bus.external_server import external_problems, wait_for_silence
from safetyd.bus.server_config import MAX_JOURNAL_BYTES
from safetyd.bus.shared_keys import SharedKeys
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.core.events.daemon_events import AuditRecovered
from safetyd.core.events.event import Moment
from safetyd.daemon.app import App
from safetyd.daemon.config import Config
from safetyd.daemon.extra import Extra
from safetyd.daemon.extras import EXTRAS
from safetyd.daemon.reload import Reload
from safetyd.daemon.resources import Resources
from safetyd.daemon.settings import Settings
from safetyd.daemon.ticker import Ticker
from safetyd.host import Unusable, check_room, files_needed
from safetyd.journal.audit import Audit, Torn
from safetyd.journal.checkpoint_bucket import CheckpointBucket
from safetyd.journal.checkpoints import Checkpoints
from safetyd.journal.mailbox import EventEnvelope, Mailbox
from safetyd.journal.recovery import Restored, restore
from safetyd.journal.stream import JetStreamJournal

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
        self._boot_id = secrets.token_hex(5)
        self._subjects = Subjects(config.bus.prefix)
        self._clock = Clock()
        self._started = self._clock.now().at
        self._mailbox = Mailbox()
        self._refusals = Refusals()
        self._ticker = Ticker(self._mailbox, self._clock, self._refusals)
        self._audit = Audit(data_dir / "audit", config.audit.max_bytes)
        self._checkpoints = Checkpoints(data_dir / "checkpoints")
        self._died = anyio.Event()
        self._died_of = ""
        self._app: App | None = None
        self._serving = anyio.Event()
        self._told_to_end = anyio.Event()

    @property
    def channels(self) -> tuple[str, ...]:
        """Return the notification channels."""
        return self._settings.channels

    async def run(self, announce: Callable[[host.Endpoint], None]) -> None:
        """Run until a signal stops the daemon. Raise an exception if any part fails."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # see console/cli.py
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._obey, signals, tasks)
                await self._live(announce, tasks)
                tasks.cancel_scope.cancel()

    async def _obey(
        self, signals: AsyncIterator[signal.Signals], tasks: anyio.abc.TaskGroup
    ) -> None:
        """Reload on SIGHUP. Stop on other signals, immediately if the daemon is still starting."""
        async for number in signals:
            if number is signal.SIGHUP:
                tasks.start_soon(self._reload_once_serving)
                continue
            log.info("stopping on %s", number.name)
            if self._app is not None and self._app.health.serving:
                self._told_to_end.set()
            else:
                tasks.cancel_scope.cancel()

    async def _reload_once_serving(self) -> None:
        await self._serving.wait()
        if self._app is not None:
            await self._app.reload("SIGHUP")

    async def _live(
        self, announce: Callable[[host.Endpoint], None], tasks: anyio.abc.TaskGroup
    ) -> None:
        """Lock the data directory, start the bus, connect, rebuild the state, and serve."""
        async with AsyncExitStack() as stack:
            bus = self._settings.config.bus
            server, reserve = None, None
            with files_needed(self._data_dir):
                stack.enter_context(host.lock(self._data_dir))
                self._settings.keyring.make_own()
                if not bus.url:  # on an external bus, a standby could not read the reserve file
                    reserve = StopReserve(self._data_dir)
                    reserve.prepare()
                    server = EmbeddedServer(
                        self._data_dir / "nats", self._subjects, bus.nats_server
                    )
                    stack.callback(server.stop)
                stack.callback(self._audit.close)
                stack.callback(host.remove_endpoint, self._data_dir)
                reload = Reload(self._settings, server, self._mailbox)
                if server is not None:
                    self._start_server(server, reload)
            url = server.url if server is not None else bus.url
            connections = self._connections()
            await connections.connect(url, server, stack)
            if self._settings.shares_keys:
                sharing = await self._share_keys(connections, reload, tasks)
                stack.callback(sharing.cancel)
            with connections.needed():
                bucket = await self._join_bus(connections, reload) if server is None else None
                journal = JetStreamJournal(connections.main.client, self._subjects, self._boot_id)
                restored = await self._rebuild(journal, reload)
            resources = Resources(
                settings=self._settings,
                data_dir=self._data_dir,
                boot_id=self._boot_id,
                started=self._started,
                subjects=self._subjects,
                clock=self._clock,
                mailbox=self._mailbox,
                refusals=self._refusals,
                ticker=self._ticker,
                reload=reload,
                audit=self._audit,
                checkpoints=self._checkpoints,
                connections=connections,
                journal=journal,
                server=server,
                reserve=reserve,
                bucket=bucket,
            )
            await self._serve(App(resources, restored, self._extras), url, announce)

    def _start_server(self, server: EmbeddedServer, reload: Reload) -> None:
        errors = reload.take_on_keys("start")
        if errors:
            check_room(self._data_dir)
            raise Unusable("; ".join(errors))
        server.start()

    def _connections(self) -> Connections:
        return Connections(
            self._subjects,
            self._boot_id,
            self._data_dir,
            seed=self._settings.seed,
            keyless=self._settings.config.bus.keyless,
            die=self._die,
        )

    async def _share_keys(
        self, connections: Connections, reload: Reload, tasks: anyio.abc.TaskGroup
    ) -> anyio.CancelScope:
        """Start to share keys with other daemons, also while this one is a standby."""
        scope = anyio.CancelScope()

        def take_on(by: str) -> list[str]:
            app = self._app if self._serving.is_set() else None
            return app.take_on_keys(by) if app else reload.take_on_keys(by, record=False)

        keys = SharedKeys(
            connections.main.client,
            self._subjects,
            self._data_dir / "keys",
            seed=self._settings.seed(),
            daemons=self._settings.config.bus.daemons,
            take_on=take_on,
        )

        async def share() -> None:
            with scope:
                await keys.run()

        await keys.begin()
        tasks.start_soon(share)
        return scope

    async def _join_bus(self, connections: Connections, reload: Reload) -> CheckpointBucket:
        """Check an external bus, and wait until no other daemon writes the journal."""
        client = connections.main.client
        problems = reload.take_on_keys("start") + await external_problems(client)
        if problems:
            raise Unusable("\n".join(problems))
        log.warning("make sure that the bus has `sync_interval: always`; safetyd cannot check it")
        await wait_for_silence(client, self._subjects.writer)
        bucket = CheckpointBucket(client)
        await bucket.fetch(self._checkpoints)
        return bucket

    async def _rebuild(self, journal: JetStreamJournal, reload: Reload) -> Restored:
        await journal.open(MAX_JOURNAL_BYTES)
        with files_needed(self._data_dir):
            torn = self._audit.open()
            policy = self._settings.policy
            restored = await restore(policy, self._checkpoints, journal, self._audit)
        self._clock.resume_after(restored.t)
        log.info("replayed %d events; the last one is %d", restored.replayed, restored.engine.seq)
        self._mailbox.put(EventEnvelope(reload.configured("start")))
        if torn is not None:
            log.error("removed an incomplete line of %d bytes from %s", torn.size, torn.file)
            self._mailbox.record(lambda moment: _recovered(torn, moment))
        return restored

    async def _serve(self, app: App, url: str, announce: Callable[[host.Endpoint], None]) -> None:
        self._app = app
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._until_dead)
            endpoint = await app.start(tasks, url)
            with files_needed(self._data_dir):
                host.write_endpoint(self._data_dir, endpoint)
            host.notify("READY=1")
            announce(endpoint)
            self._serving.set()
            await self._told_to_end.wait()
            await app.drain()
            tasks.cancel_scope.cancel()

    def sign_in_link(self) -> str:
        """Return a link to the control room for the operator who started this daemon."""
        return "" if self._app is None else self._app.sign_in_link()

    def _die(self, why: str) -> None:
        self._died_of = why
        self._died.set()

    async def _until_dead(self) -> None:
        await self._died.wait()
        raise Unusable(self._died_of)


def _recovered(torn: Torn, moment: Moment) -> AuditRecovered:
    return AuditRecovered(
        at=moment.at,
        t=moment.t,
        file=torn.file,
        torn_bytes=torn.size,
        torn_sha256=torn.sha256,
    )
