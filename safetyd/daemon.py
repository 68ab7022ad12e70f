"""The daemon: everything that waits, in one task group. If one part dies, all do.

A start is closed: no proposal is heard before the state is rebuilt, the stop is known, the audit
file has its end and the bus has been heard.
"""

import errno
import logging
import os
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import anyio.to_thread
import msgspec
import nats.errors

from safetyd import __version__, host
from safetyd import log as logs
from safetyd.audit import Audit, Torn, find
from safetyd.bus.accounts import MAX_JOURNAL_BYTES
from safetyd.bus.client import pub
from safetyd.bus.external import external_problems, wait_for_silence
from safetyd.bus.keys import KeyUnusable
from safetyd.bus.link import Link
from safetyd.bus.post import Post
from safetyd.bus.server import EmbeddedServer
from safetyd.bus.subjects import Subjects
from safetyd.bus.supervisor import Supervisor
from safetyd.checkpoints import Checkpoints
from safetyd.clock import Clock
from safetyd.config import Config
from safetyd.core.events import AuditRecovered, Event, Moment, SafetyEvent
from safetyd.core.lines import concerns
from safetyd.desk import Desk
from safetyd.halt import Halt
from safetyd.journal import Journal
from safetyd.keeper import Keeper
from safetyd.latch import Latch
from safetyd.letters import EventLetter
from safetyd.mailbox import Mailbox
from safetyd.metrics import Metrics
from safetyd.micro import Micro
from safetyd.refusals import Refusals
from safetyd.reload import Reload
from safetyd.rounds import Rounds, feed_watchdog, repeat_state, tell_trouble
from safetyd.service import Service
from safetyd.settings import Settings
from safetyd.shelf import Shelf
from safetyd.state import Restored, restore
from safetyd.web.server import WebServer
from safetyd.writer import Writer

CONNECT_S: Final = 20.0
AGAIN_S: Final = 0.05
DRAIN_S: Final = 5.0
LAG_S: Final = 0.5
# What is shown of one proposal; a message on the bus holds a quarter of a megabyte.
SHOWN_BYTES: Final = 128 * 1024
SHOWN_ERRORS: Final = 20
SHOWN_CHARS: Final = 500
TENURE_S: Final = 2.0

log = logging.getLogger("safetyd.daemon")


class Unusable(Exception):
    """The daemon cannot start or go on here; the text says why and what to do."""


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
        self._latch = Latch()
        self._refusals = Refusals()
        self._metrics = Metrics(__version__)
        self._rounds = Rounds(self._mailbox, self._clock, self._refusals)
        self._reload = Reload(self._settings, self._metrics, self._rounds, self._mailbox)
        self._audit = Audit(data_dir / "audit", config.audit.max_bytes)
        self._checkpoints = Checkpoints(data_dir / "checkpoints")
        self._server: EmbeddedServer | None = None
        self._open: Link | None = None
        self._shelf: Shelf | None = None
        self._posts: list[Post] = []
        self._web_url = ""
        self._died = anyio.Event()
        self._died_of = ""
        self._ready = False
        self._started_up = anyio.Event()
        self._told_to_end = anyio.Event()

    async def run(self, announce: Callable[[host.Endpoint], None]) -> None:
        """Run until a signal; raise if anything dies."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
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
            with _files_needed():
                stack.enter_context(host.lock(self._data_dir))
                self._settings.keyring.make_own()
                stack.callback(self._leave)
                url = bus.url or self._start_server()
            self._main = await self._linked("main", url, stack)
            self._agents = await self._linked("agents", url, stack)
            if bus.keyless:
                self._open = await self._linked("open", url, stack)
            restored = await self._rebuild()
            await self._serve(restored, url, announce)

    def _start_server(self) -> str:
        binary = self._settings.config.bus.nats_server
        self._server = EmbeddedServer(self._data_dir / "nats", self._subjects, binary)
        self._reload.server = self._server
        errors = self._reload.take_on_keys("start")
        if errors:
            raise Unusable("; ".join(errors))
        self._server.start()
        return self._server.url

    async def _linked(self, name: str, url: str, stack: AsyncExitStack) -> Link:
        link = Link(name, self._die)
        canary = self._subjects.canary(f"{self._boot_id}-{name}")
        try:
            seed = self._settings.seed()
        except (OSError, KeyUnusable) as exc:
            raise Unusable(f"the daemon's own key cannot be used: {exc}") from exc
        with anyio.move_on_after(CONNECT_S):
            while True:
                try:
                    await link.connect(url, seed, canary)
                except (OSError, nats.errors.Error) as exc:
                    log.debug("not connected yet: %s", exc)
                    if self._server is not None and self._server.end:
                        raise Unusable(self._server.end) from exc
                    await anyio.sleep(AGAIN_S)
                else:
                    stack.push_async_callback(link.close)
                    return link
        hint = f"; see {self._server.log_file}" if self._server else ": check bus.url and its key"
        raise Unusable(f"no bus lets us in at {url}{hint}")

    @property
    def _links(self) -> tuple[Link, ...]:
        """The journal and people, agents with keys, agents without: none waits for another."""
        keyed = (self._main, self._agents)
        return keyed if self._open is None else (*keyed, self._open)

    async def _rebuild(self) -> Restored:
        client = self._main.client
        if self._server is None:
            problems = self._reload.take_on_keys("start") + await external_problems(client)
            if problems:
                raise Unusable("\n".join(problems))
            log.warning("make sure that the bus has `sync_interval: always`; it cannot be seen")
            await wait_for_silence(client, self._subjects.writer)
            self._shelf = Shelf(client)
            await self._shelf.fetch(self._checkpoints)
        self._journal = Journal(client, self._subjects, self._boot_id)
        await self._journal.open(MAX_JOURNAL_BYTES)
        policy = self._settings.config.policy()
        with _files_needed():
            torn = self._audit.open()
            restored = await restore(policy, self._checkpoints, self._journal, self._audit)
        self._clock.resume_after(restored.t)
        log.info("replayed %d events, now at %d", restored.replayed, restored.engine.seq)
        self._mailbox.put(EventLetter(self._reload.configured("start"), lambda: None))
        if torn is not None:
            log.error("a torn line of %d bytes was cut off %s", torn.size, torn.file)
            self._rounds.put(lambda moment: _recovered(torn, moment))
        return restored

    async def _serve(
        self, restored: Restored, url: str, announce: Callable[[host.Endpoint], None]
    ) -> None:
        self._assemble(restored)
        self._halt.take_over(restored.engine, self._settings.stop_files)
        web = WebServer(self._settings.config.web, self._metrics, self.problem, self.not_ready)
        async with anyio.create_task_group() as tasks:
            self._start_tasks(tasks)
            await self._subscribe(tasks)
            self._web_url = await self._listen(web)
            for link in self._links:
                await link.first_canary(CONNECT_S)
            self._ready = True
            endpoint = host.Endpoint(
                bus=url, web=self._web_url, pid=os.getpid(), version=__version__
            )
            host.write_endpoint(self._data_dir, endpoint)
            host.notify("READY=1")
            announce(endpoint)
            self._started_up.set()
            await self._told_to_end.wait()
            await self._drain(web)
            tasks.cancel_scope.cancel()

    def _assemble(self, restored: Restored) -> None:
        engine, metrics = restored.engine, self._metrics
        self._writer = Writer(self._mailbox, engine, self._journal, self._audit, self._clock)
        self._keeper = Keeper(
            self._writer, self._journal, self._audit, self._checkpoints, self._shelf
        )
        self._keeper.begin(restored.checkpoint)
        self._post = Post(self._main.client, self._subjects, keyless=False)
        self._posts = [self._post]
        self._post.muted = self._displaced_perhaps
        self._halt = Halt(self._latch, self._mailbox, self._post, self._subjects, self._clock)
        self._writer.outlets = [metrics.observe, logs.observe, self._publish]
        self._writer.appended = metrics.appended
        self._writer.after = self._flush
        metrics.stopped = lambda: bool(self._latch.stops)
        metrics.malformed = lambda: self._refusals.total.get("malformed", 0)
        metrics.guards = lambda: self._writer.engine.guard_names

    def _start_tasks(self, tasks: anyio.abc.TaskGroup) -> None:
        tasks.start_soon(self._writer.decide)
        tasks.start_soon(self._writer.commit)
        tasks.start_soon(self._keeper.run)
        tasks.start_soon(self._rounds.tick)
        tasks.start_soon(self._rounds.count)
        tasks.start_soon(self._halt.watch, self._settings.stop_files)
        tasks.start_soon(repeat_state, self._halt, self._post, self._subjects, self._settings)
        tasks.start_soon(feed_watchdog, self._better_restarted)
        tasks.start_soon(tell_trouble, self._trouble)
        tasks.start_soon(self._until_dead)
        for link in self._links:
            tasks.start_soon(link.sing)
        if self._open is not None:
            tasks.start_soon(self._settings.door.watch, partial(self._reload.take_on_keys, "door"))
        if self._server is not None:
            supervisor = Supervisor(
                self._server, self._main, self._data_dir, lambda: self._writer.server_owes_s
            )
            tasks.start_soon(supervisor.restart)
            tasks.start_soon(supervisor.watch)
        else:
            tasks.start_soon(self._journal.watch)

    async def _subscribe(self, tasks: anyio.abc.TaskGroup) -> None:
        client, of = self._main.client, self._subjects.of
        desk = Desk(self._post, self._mailbox, self._halt, self, tasks)
        micro = Micro(
            self._post,
            self._subjects,
            version=__version__,
            boot_id=self._boot_id,
            started=self._started,
            decisions=lambda: sum(self._metrics.counts().values()),
        )
        await client.handle(of("control", "*"), desk.control)
        await client.handle(of("query", "*"), desk.query)
        await client.handle(self._subjects.writer, self._say_writer)
        for verb in ("PING", "INFO", "STATS"):
            await client.handle(f"$SRV.{verb}", micro.answer)
            await client.handle(f"$SRV.{verb}.safetyd", micro.answer)
        await self._hear_agents(self._agents, keyless=False)
        if self._open is not None:
            await self._hear_agents(self._open, keyless=True)

    async def _hear_agents(self, link: Link, *, keyless: bool) -> None:
        post = Post(link.client, self._subjects, keyless=keyless)
        post.muted = self._displaced_perhaps
        self._posts.append(post)
        name = self._subjects.keyless if keyless else self._subjects.of
        service = Service(
            post,
            self._mailbox,
            self._settings,
            self._latch,
            self._refusals,
            self._metrics,
            clock=self._clock,
            keyless=keyless,
            problem=self.not_ready,
            boot_id=self._boot_id,
        )
        await link.client.handle(name("propose", "*"), service.propose)
        await link.client.handle(name("telemetry", "*"), service.telemetry)

    async def _listen(self, web: WebServer) -> str:
        config = self._settings.config.web
        try:
            return await web.start()
        except OSError as exc:
            if exc.errno == errno.EADDRINUSE and self._settings.path is None:
                log.warning("port %d is taken; another one is used for the web", config.port)
                return await web.start(0)
            raise Unusable(
                f"cannot listen on {config.host}:{config.port} ({exc.strerror}): set `port` in "
                "[web] of the file given with --config, 0 for any"
            ) from exc

    def problem(self) -> str:
        """Return what a restart would help against, or nothing."""
        for link in self._links:
            if not link.heard:
                return f"the bus has not been heard for {link.deaf_s:.1f} s"
        if self._rounds.lag_s > LAG_S:
            return f"the event loop is {self._rounds.lag_s:.1f} s late"
        return self._writer.problem

    def _better_restarted(self) -> str:
        """Return why the watchdog should bite, or nothing: a restart forgets an unwritten stop."""
        return "" if self._latch.unwritten else self.problem()

    def not_ready(self) -> str:
        """Return why a proposal would not be answered now, or nothing."""
        if not self._ready:
            return "safetyd is starting or stopping"
        return self._writer.stalled or self.problem()

    def _trouble(self) -> str:
        return self.not_ready() if self._ready else ""

    def facts(self) -> Mapping[str, object]:
        config = self._settings.config
        return {
            "version": __version__,
            "pid": os.getpid(),
            "started": self._started,
            "problem": self.not_ready(),
            "bus": self._server.url if self._server else config.bus.url,
            "embedded": self._server is not None,
            "open_agents": config.bus.keyless and self._settings.door.open,
            "keys": self._settings.keys,
            "web": self._web_url,
            "data_dir": str(self._data_dir),
            "decisions": self._metrics.counts(),
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
            with anyio.move_on_after(DRAIN_S):
                await self._keeper.save()
        return errors

    def _flush(self) -> None:
        for post in self._posts:
            post.flush()

    def _publish(self, events: Sequence[Event]) -> None:
        for event in events:
            if type(event) is SafetyEvent:
                self._post.tell(self._subjects.of("event", event.event_type), told(event))

    def _say_writer(self, _subject: bytes, reply: bytes, _payload: bytes) -> None:
        """Tell another daemon that this one writes the journal."""
        if self._displaced_perhaps():
            return
        name = f"safetyd {self._boot_id} with pid {os.getpid()}"
        self._main.client.send(pub(reply, name.encode()))

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

    async def _drain(self, web: WebServer) -> None:
        """Answer what waits, save, and say goodbye."""
        self._ready = False
        host.notify("STOPPING=1")
        host.remove_endpoint(self._data_dir)
        self._rounds.count_refusals()
        with anyio.move_on_after(DRAIN_S):
            await self._keeper.save()
        with anyio.move_on_after(DRAIN_S, shield=True):
            await web.stop()

    def _leave(self) -> None:
        host.remove_endpoint(self._data_dir)
        self._audit.close()
        if self._server is not None:
            self._server.stop()


@contextmanager
def _files_needed() -> Iterator[None]:
    """Say in plain words that the data directory cannot be used."""
    try:
        yield
    except TimeoutError:
        raise
    except OSError as exc:
        raise Unusable(f"the data directory cannot be used: {exc}") from exc


def told(event: SafetyEvent) -> dict[str, object]:
    """Return a SafetyEvent with exactly the fields of the contract."""
    fields = msgspec.structs.asdict(event)
    return {key: value for key, value in fields.items() if key not in {"seq", "at", "t"}}


def _some(errors: Sequence[str]) -> tuple[str, ...]:
    """Return what a journal line has room for."""
    shown = tuple(error[:SHOWN_CHARS] for error in errors[:SHOWN_ERRORS])
    left_out = len(errors) - len(shown)
    return (*shown, f"and {left_out} more") if left_out else shown


def _recovered(torn: Torn, moment: Moment) -> AuditRecovered:
    return AuditRecovered(
        at=moment.at,
        t=moment.t,
        file=torn.file,
        torn_bytes=torn.size,
        torn_sha256=torn.sha256,
    )
