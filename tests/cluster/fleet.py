"""Three nodes, several daemons and steady agents, whose processes and links can fail."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from safetyd.bus.subjects import STREAM
from safetyd.core.events.cluster_events import WriterChanged
from safetyd.journal.audit import end_of, files
from tests.cluster.bare_appends import BareAppends, longest_gap
from tests.cluster.callers import ClaimingAgent, Operator
from tests.cluster.journal_record import JournalRecord
from tests.cluster.steady_agent import Limited, Reader, Spender, SteadyAgent, at_work
from tests.conftest import UNLIMITED, RunningDaemon
from tests.journeys.agents import Heard, until
from tests.journeys.processes import freeze, gone, thaw
from tests.nats_cluster import NAMES, Clients, NatsCluster
from tests.postgres_server import PostgresServer

TAG: Final = str(WriterChanged.__struct_config__.tag).encode()
CHAIN_USD: Final = 0.25
AGENTS: Final = ("reader", "spender", "limited", "asker")
BURST: Final = 8
PER_MINUTE: Final = 120

CONFIG: Final = f"""{UNLIMITED}
[journal]
replicas = 3
[budget]
chain_usd = {CHAIN_USD}
session_usd = 0
day_usd = 0
[agents.limited]
tokens_per_minute = {PER_MINUTE}
burst = {BURST}
"""
EXPORT: Final = """
[outlets.postgres]
dsn_file = "{dsn}"
"""


class FleetDaemon(RunningDaemon):
    """A daemon with a link of its own to each node."""

    def __init__(
        self,
        name: str,
        directory: Path,
        cluster: NatsCluster,
        export: str,
        variables: Mapping[str, str],
    ) -> None:
        self.name = name
        self.links: Clients = cluster.clients(name)
        self.frozen = False
        self.running = True
        bus = f'[bus]\nname = "{name}"\nurl = "{self.links.url}"\n'
        key = f'key_file = "{cluster.keys.daemon}"\n'
        directory.mkdir()
        super().__init__(directory, CONFIG + bus + key + export, variables)

    def start(self) -> None:
        super().start()
        self.running = True

    def stop(self) -> int:
        self.thaw()
        self.running = False
        return super().stop()

    def kill(self) -> int:
        self.running = self.frozen = False
        return super().kill()

    def freeze(self) -> None:
        freeze(self.pid)
        self.frozen = True

    def thaw(self) -> None:
        if self.frozen:
            thaw(self.pid)
            self.frozen = False


class StopHeld(NamedTuple):
    """A stop: when it was acknowledged, and when an operator began to lift it."""

    acknowledged_t: float
    lifted_t: float


class Fleet:
    """A running cluster with its daemons, agents and operator."""

    def __init__(self, directory: Path, postgres: PostgresServer | None) -> None:
        self.directory = directory
        self.postgres = postgres  # to which all daemons export events, if there is one
        self.cluster = NatsCluster(directory)
        seeds = {name: self.cluster.keys.add("agents", name) for name in AGENTS}
        self.cluster.write_accounts()
        self.operator = Operator(self.cluster)
        urls = [self.cluster.default.url_of(node) for node in NAMES]
        self.reader = Reader("reader", urls, seeds["reader"], per_s=40)
        self.spender = Spender("spender", urls, seeds["spender"], per_s=20)
        self.limited = Limited("limited", urls, seeds["limited"], per_s=5)
        self.asker = ClaimingAgent(self.cluster, seeds["asker"])
        self.daemons: dict[str, FleetDaemon] = {}
        self.stops: list[StopHeld] = []
        self._stopped_t = 0.0
        self._record: JournalRecord | None = None

    @property
    def agents(self) -> Sequence[SteadyAgent]:
        return self.reader, self.spender, self.limited

    @property
    def record(self) -> JournalRecord:
        assert self._record is not None
        return self._record

    def start(self, daemons: int, variables: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """Start all nodes, then the daemons d1, d2 and so on."""
        self.cluster.start()
        export = self._export()
        for number in range(1, daemons + 1):
            name = f"d{number}"
            own, of_daemon = self.directory / name, (variables or {}).get(name, {})
            self.daemons[name] = FleetDaemon(name, own, self.cluster, export, of_daemon)
        self._record = JournalRecord(self.cluster)
        self.cluster.wait_until_current(STREAM)

    @contextmanager
    def bare_appends(self) -> Iterator[BareAppends]:
        """Append to a stream whose leader is on the same node as the journal's."""
        with BareAppends(self.cluster, self.leader) as bare:
            yield bare

    @property
    def writer(self) -> FleetDaemon:
        """Return the daemon that has written the journal last."""
        for batch in reversed(self.record.batches):
            if TAG in batch.lines and isinstance(change := batch.events[0], WriterChanged):
                return self.daemons[change.daemon]
        raise AssertionError("nobody has written the journal")

    @property
    def standbys(self) -> list[FleetDaemon]:
        return [daemon for daemon in self.daemons.values() if daemon is not self.writer]

    @property
    def leader(self) -> str:
        """Return the node that leads the journal."""
        return self.cluster.leader_of(STREAM)

    def until_allowed(self) -> Heard:
        """Wait for the next allow of a proposal that is sent from now on."""
        return self.reader.history.until_allowed()

    def read_journal(self) -> None:
        """Read the journal up to its present end."""
        info = self.cluster.ask_jetstream(f"STREAM.INFO.{STREAM}", self.leader)
        self.record.wait_for(info["state"]["last_seq"])

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop all agents meanwhile."""
        self.stop()
        try:
            yield
        finally:
            self.resume()

    def stop(self) -> None:
        """Stop all agents until `resume`."""
        until(lambda: self.operator.control("stop").get("journalled"))
        self._stopped_t = time.monotonic()

    def resume(self) -> None:
        self.stops.append(StopHeld(self._stopped_t, time.monotonic()))
        self._stopped_t = 0.0
        assert self.operator.control("resume")["ok"]

    def hand_over(self) -> None:
        """End the daemons one after the other, so that each saves a checkpoint of its state."""
        for daemon in (self.writer, *self.standbys):
            self.read_journal()
            while self.writer is not daemon:
                before = self.writer
                before.stop()
                before.start()
                self.until_allowed()
                self.read_journal()
            daemon.stop()
            daemon.start()
            self.until_allowed()

    def repair(self) -> None:
        """End all faults, and wait until agents are answered and every replica is complete."""
        for name in NAMES:
            self.cluster.heal(name)
        for daemon in self.daemons.values():
            daemon.links.heal()
            daemon.thaw()
        for name, node in self.cluster.nodes.items():
            if node.frozen:
                self.cluster.thaw(name)
            if not node.running:
                self.cluster.start(name)
        for daemon in self.daemons.values():
            assert not daemon.running or not gone(daemon.pid), f"ended by itself: {daemon.log()}"
            if not daemon.running:
                daemon.start()
        self.cluster.wait_until_current(STREAM)
        if self._stopped_t:
            self.resume()
        self.until_resumed()
        self.until_followed()

    def until_resumed(self) -> None:
        """Wait until actions are allowed. Lift stops that a frozen node or daemon delivers late."""
        now = time.monotonic()
        while True:
            heard = self.reader.history.until(lambda h: self.reader.history.sent[h.id] > now)
            if heard.decision.allowed:
                return
            if heard.decision.cause == "stopped":
                self.operator.control("resume")

    def until_followed(self) -> None:
        """Wait until every audit file, and PostgreSQL, have the present end of the journal."""
        self.read_journal()
        end = max(event.seq for batch in self.record.batches[-100:] for event in batch.events)
        for daemon in self.daemons.values():
            path = files(daemon.data_dir / "audit")[-1]
            until(lambda path=path: end_of(path)[1] >= end)  # type: ignore[misc]
        until(lambda: self._exported() >= end)

    def silence_after(self, begun: float) -> float:
        """Return the longest time without an allow, from shortly before `begun` until now."""
        return longest_gap([h.t for h in self.reader.history.allows], begun)

    def close(self) -> None:
        if self._record is not None:
            self._record.close()
        for daemon in self.daemons.values():
            daemon.thaw()
            if daemon.running:
                daemon.kill()
        self.cluster.close()

    def _export(self) -> str:
        if self.postgres is None:
            return ""
        (dsn := self.directory / "dsn").write_text(self.postgres.dsn())
        dsn.chmod(0o600)
        return EXPORT.format(dsn=dsn)

    def _exported(self) -> float:
        """Return the last exported event. Without PostgreSQL, nothing is behind."""
        if self.postgres is None:
            return math.inf
        [(created,)] = self.postgres.execute("SELECT to_regclass('safetyd.progress')")
        found = self.postgres.execute("SELECT seq FROM safetyd.progress") if created else []
        return float(found[0][0]) if found else 0.0


@contextmanager
def running_fleet(
    directory: Path,
    daemons: int = 2,
    variables: Mapping[str, Mapping[str, str]] | None = None,
    postgres: PostgresServer | None = None,
) -> Iterator[Fleet]:
    """Yield a fleet whose agents propose, and end all of it."""
    fleet = Fleet(directory, postgres)
    try:
        fleet.start(daemons, variables)
        with at_work(*fleet.agents), fleet.asker:
            fleet.until_allowed()
            fleet.until_followed()
            yield fleet
    finally:
        fleet.close()
