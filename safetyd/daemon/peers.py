"""The daemons on an external bus tell each other once a second who they are.

Nothing depends on these messages except what operators see: the journal decides who writes.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import anyio
import anyio.to_thread
import msgspec
import nats.errors
from nats.aio.subscription import Subscription

from safetyd import __version__
from safetyd.bus.bus_nodes import bus_nodes
from safetyd.bus.nats_client import pub
from safetyd.bus.stream_replicas import StreamReplicas, stream_replicas
from safetyd.clock import boottime
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.cluster_events import StandbysChanged
from safetyd.core.events.event import Event, Moment
from safetyd.core.writers import Writers
from safetyd.daemon.resources import Resources
from safetyd.journal.mailbox import EventEnvelope
from safetyd.monitoring.metric_families import Family, counter, gauge, gauge_by
from safetyd.operators.cluster_access import ClusterAccess
from safetyd.operators.contract.cluster_contract import ClusterDaemon, DaemonState
from safetyd.operators.views.cluster_view import ClusterFacts

HELLO: Final = "hello"
EVERY_S: Final = 1.0
FORGET_S: Final = 3.0  # after which a silent daemon is no longer shown
GONE_S: Final = 10.0  # after which operators are notified that a standby is gone
LIST_S: Final = 10.0  # how often streams and the folders of projects are checked

log = logging.getLogger("safetyd.standby")


class Hello(DaemonState, frozen=True, kw_only=True, omit_defaults=True):
    """A daemon's description of itself. `boot` differs after each start."""

    boot: str


_decode = msgspec.json.Decoder(Hello).decode
_encode = msgspec.json.Encoder().encode


class StandbyChange(NamedTuple):
    """The standbys that can take over now, and those that are gone."""

    standbys: tuple[str, ...]
    gone: tuple[str, ...]


def is_able(daemon: DaemonState) -> bool:
    """Return whether a daemon can take over."""
    return daemon.role == "standby" and not daemon.problem


class PeerTable:
    """The other daemons, by name. `now` returns seconds that never run backwards."""

    def __init__(self, name: str, boot: str, now: Callable[[], float] = boottime) -> None:
        self._name = name
        self._boot = boot
        self._now = now
        self._began_t = now()
        self._heard: dict[str, tuple[Hello, float]] = {}
        self._able_t: dict[str, float] = {}  # when each standby could last take over
        self._twin_t = -FORGET_S

    def put(self, hello: Hello) -> bool:
        """Store what a daemon says. Return whether its start or role is new."""
        now = self._now()
        if hello.boot == self._boot:
            return False
        if hello.name == self._name:
            self._twin_t = now
            return False
        before, heard_t = self._heard.get(hello.name, (hello, now - FORGET_S))
        self._heard[hello.name] = hello, now
        if is_able(hello):
            self._able_t[hello.name] = now
        known = (before.boot, before.role) == (hello.boot, hello.role)
        return not known or now - heard_t >= FORGET_S

    @property
    def all(self) -> tuple[ClusterDaemon, ...]:
        """Return the daemons that were heard within the last seconds."""
        now = self._now()
        return tuple(
            ClusterDaemon(
                **{name: getattr(hello, name) for name in DaemonState.__struct_fields__},
                heard_s=round(now - heard_t, 2),
            )
            for hello, heard_t in self._heard.values()
            if now - heard_t < FORGET_S
        )

    @property
    def twin(self) -> bool:
        """Return whether another daemon has the same name."""
        return self._now() - self._twin_t < FORGET_S

    def is_absent(self, name: str) -> bool:
        """Return whether a daemon is certainly not on the bus."""
        waited = self._now() - self._began_t >= FORGET_S
        return waited and name != self._name and name not in {each.name for each in self.all}

    def change(self, recorded: Sequence[str]) -> StandbyChange | None:
        """Return how the standbys that can take over differ from the recorded ones, if they do.

        A standby is gone if it was not heard for ten seconds, so that a restart or a takeover
        raises no alarm.
        """
        now = self._now()
        able = {each.name for each in self.all if is_able(each)}
        missed = {
            name
            for name in set(recorded) - able - {self._name}
            if now - max(self._able_t.get(name, 0.0), self._began_t) < GONE_S
        }
        settled = now - self._began_t >= GONE_S  # until then, another one may join
        if self._name in recorded and not able and not settled:
            return None
        standbys = tuple(sorted(able | missed))
        if standbys == tuple(recorded):
            return None
        return StandbyChange(standbys, tuple(sorted(set(recorded) - {*standbys, self._name})))


class Peers:
    """Describes this daemon to the others, and knows what they say.

    `seq` returns the last event that this daemon has, `web` the address of its control room,
    `problem` why it cannot decide or take over. The writer records which standbys can take over.
    """

    def __init__(
        self,
        of: Resources,
        writers: Writers,
        *,
        seq: Callable[[], int],
        web: Callable[[], str],
        problem: Callable[[], str],
        hand_over: Callable[[str], None],
    ) -> None:
        self._of = of
        self._problem = problem
        self._client = of.connections.main.client
        self._subject = of.subjects.internal(HELLO)
        self._seq = seq
        self._web = web
        self._machine = socket.gethostname()
        self._projects: tuple[str, ...] = ()
        self._streams: tuple[StreamReplicas, ...] = ()
        self._subscription: Subscription | None = None
        self._lag = 0
        self.table = PeerTable(of.name, of.boot_id)
        self.access = ClusterAccess(lambda: self.facts, hand_over, self.table.is_absent)
        # A copy, because the engine does not answer while the journal cannot be written.
        self.writers = Writers()
        self.writers.load(writers.save()())

    def observe(self, events: Sequence[Event]) -> None:
        """Follow who writes the journal."""
        for event in events:
            self.writers.observe(event)

    async def hear(self) -> None:
        """Start to receive what other daemons say."""
        self._subscription = await self._client.handle(self._subject, self._receive)

    async def leave(self) -> None:
        """Receive no more."""
        heard, self._subscription = self._subscription, None
        if heard is not None and self._client.is_connected:
            await self._client.leave(heard)

    async def run(self) -> None:
        """Describe this daemon once a second, forever."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._check_folders)
            tasks.start_soon(self._list_streams)
            while True:
                self._say()
                if self._of.standby is None:
                    self._record()
                await anyio.sleep(EVERY_S)

    @property
    def here(self) -> DaemonState:
        """Return the description of this daemon."""
        standby, of = self._of.standby, self._of
        return DaemonState(
            name=of.name,
            role="writer" if standby is None else "standby",
            version=__version__,
            machine=self._machine,
            web=self._web(),
            term=self.writers.term,
            seq=self._seq(),
            stream_seq=of.journal.last,
            lag=0 if standby is None else self._lag,
            problem=(standby.problem if standby else "") or self._problem(),
            projects=self._projects,
        )

    @property
    def facts(self) -> ClusterFacts:
        """Return everything about the daemons on the bus."""
        now, writers = self._of.clock.now(), self.writers
        return ClusterFacts(
            at=now.at,
            here=self.here,
            peers=self.table.all,
            writer=writers.daemon,
            since=writers.since,
            term=writers.term,
            takeovers=writers.takeovers(now.t),
            twin=self.table.twin,
            streams=self._streams,
        )

    def metrics(self) -> Iterator[Family]:
        """Yield the metrics of several daemons."""
        facts, standby = self.facts, self._of.standby
        standbys = [each for each in facts.daemons if each.role == "standby"]
        silent_s = self._of.journal.unowned_s if standby is None else standby.silent_s
        yield gauge("safetyd_writer", "1 if this daemon decides.", standby is None)
        yield gauge("safetyd_term", "Term of the writer.", facts.term)
        yield gauge("safetyd_standbys_ready", "Standbys that can take over.", len(facts.standbys))
        yield gauge_by(
            "daemon",
            "safetyd_standby_lag_events",
            "Events that a standby does not have yet.",
            {each.name: each.lag for each in standbys},
        )
        yield counter("safetyd_takeovers", "Takeovers without a handover.", self.writers.taken_over)
        yield gauge_by(
            "stream",
            "safetyd_stream_replicas",
            "Replicas that are up to date.",
            {stream.name: stream.current for stream in facts.streams},
        )
        yield gauge_by(
            "stream",
            "safetyd_stream_replicas_wanted",
            "Replicas that a stream should have.",
            {stream.name: max(stream.wanted, stream.replicas) for stream in facts.streams},
        )
        yield gauge("safetyd_journal_idle_seconds", "Since the last appended batch.", silent_s)

    def _say(self) -> None:
        fields = {name: getattr(self.here, name) for name in DaemonState.__struct_fields__}
        hello = Hello(**fields, boot=self._of.boot_id)
        self._client.send(pub(self._subject.encode(), _encode(hello)))

    def _receive(self, _subject: bytes, _reply: bytes, payload: bytes) -> None:
        try:
            hello = _decode(payload)
        except msgspec.DecodeError as exc:
            log.debug("a daemon of another version says: %s", exc)
            return
        if hello.role == "writer" and hello.term >= self.writers.term:
            self._lag = max(hello.seq - self._seq(), 0)
        if self.table.put(hello):
            self._say()  # it knows this daemon sooner

    def _record(self) -> None:
        """Record which standbys can take over, if that has changed."""
        if self.table.change(self.writers.standbys) is not None:
            self._of.mailbox.put(EventEnvelope(self._changed))

    def _changed(self, state: EngineState, moment: Moment) -> StandbysChanged | None:
        change = self.table.change(state.writers.standbys)
        if change is None:
            return None
        return StandbysChanged(at=moment.at, t=moment.t, **change._asdict())

    async def _list_streams(self) -> None:
        """Find the replicas of all streams, every ten seconds."""
        client, wanted = self._of.connections.questions.client, self._of.settings.config.journal
        while True:
            try:
                nodes = {node.name for node in await bus_nodes(client)}
                self._streams = await stream_replicas(client, wanted.replicas, nodes)
            except (nats.errors.Error, OSError, TimeoutError, msgspec.DecodeError) as exc:
                log.debug("the bus does not list its streams: %s", exc)
                self._streams = ()
            await anyio.sleep(LIST_S)

    async def _check_folders(self) -> None:
        """Find the projects whose folders exist on this machine, every ten seconds."""
        while True:
            projects = self._of.settings.policy.projects
            roots = {name: each.root for name, each in projects.items() if each.root}
            self._projects = await anyio.to_thread.run_sync(_reached, roots)
            await anyio.sleep(LIST_S)


def _reached(roots: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name, root in roots.items() if os.path.isdir(root))  # noqa: PTH112
