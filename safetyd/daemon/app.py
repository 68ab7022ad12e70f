"""Creates and connects the parts of a running daemon, after its state is rebuilt.

Each part gets its dependencies through its constructor, mostly as functions. None is added later,
so the constructor of `App` shows the order in which parts are created.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Final

import anyio
import anyio.abc

from safetyd import __version__, host
from safetyd.agents.emergency_stop import EmergencyStop, StopFlag
from safetyd.agents.held_replies import HeldReplies
from safetyd.bus.keyring import LOCAL_OPERATOR
from safetyd.daemon.access import AgentAccess, OperatorAccess, ServingParts
from safetyd.daemon.background_tasks import (
    feed_watchdog,
    log_problems,
    repeat_state,
    watch,
    watch_connections,
)
from safetyd.daemon.bus_output import BusOutput
from safetyd.daemon.extra import Extra, ExtraHost, Extras
from safetyd.daemon.forwarded_stops import ForwardedStops
from safetyd.daemon.handover import Handover, release
from safetyd.daemon.health import Health
from safetyd.daemon.health_report import HealthReport
from safetyd.daemon.measuring import measuring
from safetyd.daemon.peers import Peers
from safetyd.daemon.resources import Resources
from safetyd.daemon.written_records import WrittenRecords
from safetyd.hosts.request_news import RequestNews
from safetyd.journal.commit_loop import Observer
from safetyd.journal.recovery import Restored
from safetyd.monitoring.event_log import EventLog
from safetyd.monitoring.published_events import PublishedEvents
from safetyd.notify.notifier import Notifier
from safetyd.operators.contract.session_contract import SignInQuestion

DRAIN_S: Final = 5.0
CLOSE_S: Final = 1.0


class App:
    """A running daemon: the writer of the journal or, if `of.standby` is set, a standby.

    A standby shows the pages of the control room, accepts stops, and answers no agent.
    """

    def __init__(self, of: Resources, restored: Restored, extras: Iterable[type[Extra]]) -> None:
        self._of, state = of, restored.engine
        self.handover = Handover()
        self._out = BusOutput(of)
        self._stop = EmergencyStop(
            StopFlag(),
            of.mailbox,
            self._out.main,
            of.subjects,
            of.clock,
            reserve=of.reserve,
            daemon=of.name,
        )
        self._stops = ForwardedStops(of.connections.main, of.subjects, self._stop)
        with host.files_needed(of.data_dir):
            self._stop.take_over(state, of.settings.stop_files)
        self._extras = Extras(
            extras,
            ExtraHost(
                of,
                self._out.flush,
                save_checkpoint=lambda: self._records.save(),  # noqa: PLW0108 - made later
                checkpoint_problem=lambda: self._records.checkpoint_problem,
            ),
            state.records,
        )
        self._held = HeldReplies(self._out.agents, self._stop.stop_flag, self._extras.commits)
        with host.files_needed(of.data_dir):
            self._notifier = Notifier(
                of.settings,
                of.mailbox,
                of.clock,
                data_dir=of.data_dir,
                public_url=of.settings.config.web.public_url,
                base_url=lambda: self._access.site.base_url,
                waits=self._held.waits,
                publish=self._out.send_notice,
            )
        self._measuring = measuring(
            of,
            state,
            self._stop.stop_flag,
            self._extras,
            channels=self._notifier.dispatch.states,
            not_ready=lambda: self.health.not_ready(),  # noqa: PLW0108 - made later
            cluster=lambda: () if self._peers is None else self._peers.metrics(),
        )
        news = RequestNews()
        self._peers = (
            Peers(
                of,
                state.writers,
                seq=lambda: self._records.written.seq,
                web=lambda: self._access.site.web,
                problem=lambda: self.health.broken(),  # noqa: PLW0108 - made later
                hand_over=self.handover.request,
            )
            if of.server is None
            else None
        )
        self._records = WrittenRecords(
            of,
            restored,
            conclude=self._held.conclude,
            observers=(
                self._stop.follow,
                *(() if self._peers is None else (self._peers.observe,)),
                *(() if of.standby else self._writers_observers()),
                news.observe,
                lambda events: self._access.room.observe(events),  # noqa: PLW0108 - made later
            ),
            appended=self._measuring.metrics.appended,
            flush=self._out.flush,
            forward=self._stops.forward,
        )
        loop = self._records.loop
        self.health = Health(
            bus=lambda: of.connections.problem,
            journal=lambda: loop.problem,
            lost=lambda: loop.lost,
            stalled=lambda: loop.stalled,
            lag_s=lambda: of.ticker.lag_s,
            unwritten_stops=lambda: self._stop.stop_flag.unwritten,
            disk=lambda: self._measuring.disk.problem,
            standby=lambda: of.standby.writer if of.standby else "",
        )
        report = HealthReport(
            of,
            self._records,
            self._measuring,
            self.health,
            self._extras,
            channels=self._notifier.dispatch.states,
            web=lambda: self._access.site.web,
            cluster=None if self._peers is None else self._peers.access,
        )
        self._parts = ServingParts(
            self._out,
            self._stop,
            self._held,
            self._extras.commits,
            self._notifier,
            self._measuring.metrics,
            self._records.recent,
            news,
            self.health,
            report,
            None if self._peers is None else self._peers.access,
        )

    async def start(self, tasks: anyio.abc.TaskGroup, url: str) -> host.Endpoint:
        """Start serving. Return the addresses once the bus works."""
        of, connections = self._of, self._of.connections
        agents = self._agents = AgentAccess(of, self._parts)
        self._access = OperatorAccess(
            of, self._parts, agents, self._extras.handlers, self.reload, tasks
        )
        if of.standby is None:
            await self._extras.prepare()
        site = self._access.site
        with connections.needed():
            await site.start()
            embedded = "" if of.server is None else of.server.url
            of.settings.serves_at(site.web, site.links, embedded)
            self._start_tasks(tasks)
            hook = await agents.hooks.start()
            if self._peers is not None and self._access.sign_in is not None:
                await self._access.sign_in.hear()
                await self._peers.hear()
                tasks.start_soon(self._peers.run)
            await connections.first_canaries()
            # Agents that wait for a writer are answered from the first message on.
            self.health.begin()
            if of.standby is None:
                await self._hear()
                await connections.settle()
        return host.Endpoint(
            bus=url,
            web=site.web,
            links=site.links,
            hook=hook,
            pid=os.getpid(),
            version=__version__,
            standby=of.standby is not None,
            name=of.name,
        )

    async def _hear(self) -> None:
        """Start to receive messages of operators, agents and standbys."""
        connections, agents = self._of.connections, self._agents
        await self._access.hear()
        await agents.hear(connections.agents, keyless=False)
        if connections.open is not None:
            await agents.hear(connections.open, keyless=True)
        if self._of.server is None:
            await self._stops.hear()

    def sign_in_link(self) -> str:
        """Return a link that signs the local operator in to the control room once."""
        return self._access.entrance.sign_in(LOCAL_OPERATOR, SignInQuestion()).url

    @property
    def writes(self) -> bool:
        """Return whether this daemon decides now."""
        return self.health.serving and self._of.standby is None

    async def drain(self, by: str) -> None:
        """Finish pending work, save a checkpoint, and release the journal. `by` is the cause."""
        await self._notifier.dispatch.finish(DRAIN_S)
        with anyio.move_on_after(DRAIN_S):
            await self._records.save()
        await self._agents.leave()
        self.health.end()
        self._of.ticker.count_refusals()
        if self._of.server is None:
            with anyio.move_on_after(DRAIN_S):
                await release(self._of.mailbox, self._of.name, by)

    async def close(self) -> None:
        """Close the web server and the socket for hooks."""
        with anyio.move_on_after(CLOSE_S, shield=True):
            await self._agents.hooks.stop()
            await self._access.site.stop()
            if self._peers is not None and self._access.sign_in is not None:
                await self._access.sign_in.leave()
                await self._peers.leave()

    def take_on_keys(self, by: str) -> list[str]:
        return self._access.take_on_keys(by)

    async def reload(self, by: str) -> list[str]:
        """Reload the configuration and keys. Return the errors."""
        if self._of.standby is not None:
            return self._of.reload.take_on(by)
        errors = await self._of.reload.run(by, self._extras.prepare)
        if not errors:
            self._notifier.renew(by)
            self._access.sessions.prune(self._of.clock.now().at)
            with anyio.move_on_after(DRAIN_S):
                await self._records.save()
        return errors

    def _writers_observers(self) -> Iterator[Observer]:
        """Yield the observers that publish, send or count events, which only the writer does."""
        yield self._measuring.metrics.observe
        yield EventLog().observe
        yield PublishedEvents(self._out.main, self._of.subjects).observe
        yield self._notifier.observe
        yield self._extras.observe

    def _start_tasks(self, tasks: anyio.abc.TaskGroup) -> None:
        of = self._of
        self._records.run(tasks)
        tasks.start_soon(self._access.room.run)
        tasks.start_soon(of.ticker.tick)
        tasks.start_soon(self._measuring.disk.run)
        tasks.start_soon(self._stop.watch, of.settings.stop_files)
        tasks.start_soon(of.reserve.keep)
        tasks.start_soon(feed_watchdog, self.health.better_restarted)
        watch_connections(of, tasks)
        self._extras.run(tasks, standby=of.standby is not None)
        if of.standby is None:
            tasks.start_soon(self._notifier.run)
            tasks.start_soon(self._agents.telemetry.run)
            tasks.start_soon(of.ticker.count)
            tasks.start_soon(repeat_state, self._stop, self._out.main, of.subjects, of.settings)
            tasks.start_soon(log_problems, self.health.trouble)
            watch(of, tasks, lambda: self._records.loop.server_owes_s)
