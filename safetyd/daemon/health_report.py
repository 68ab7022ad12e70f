"""Gathers the facts for health checks and `status`."""

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from msgspec import UNSET

from safetyd import __version__
from safetyd.bus.keyring import LOCAL_OPERATOR, ROLES, Role
from safetyd.clock import uptime
from safetyd.daemon.extra import Extras
from safetyd.daemon.health import Health
from safetyd.daemon.measuring import Measuring
from safetyd.daemon.resources import Resources
from safetyd.daemon.written_records import WrittenRecords
from safetyd.journal.audit import files
from safetyd.operators.cluster_access import ClusterAccess
from safetyd.operators.contract.notification_contract import ChannelState
from safetyd.operators.contract.status_contract import (
    DaemonFacts,
    HealthAnswer,
    SenderOverLimit,
)
from safetyd.operators.views.health_view import (
    BusFacts,
    HealthFacts,
    JournalFacts,
    StoredFacts,
    health,
)

FRESH_S: Final = 1.0
MAX_OVER: Final = 10


class HealthReport:
    """Answers health checks without the engine. Files are checked at most once a second."""

    def __init__(  # noqa: PLR0913 - whom it asks
        self,
        of: Resources,
        records: WrittenRecords,
        measuring: Measuring,
        health: Health,
        extras: Extras,
        *,
        channels: Callable[[], Sequence[ChannelState]],
        web: Callable[[], str],
        cluster: ClusterAccess | None,
    ) -> None:
        self._of = of
        self._cluster = cluster
        self._loop = records.loop
        self._records = records
        self._written = records.written
        self._disk = measuring.disk
        self._metrics = measuring.metrics
        self._health = health
        self._extras = extras
        self._channels = channels
        self._web = web
        self._looking = anyio.Lock()
        self._looked_at: float | None = None
        self._seen = StoredFacts()

    async def answer(self) -> HealthAnswer:
        """Run all health checks."""
        return health(self._gathered(await self._stored()))

    def facts(self) -> DaemonFacts:
        """Return the part of `status` that does not come from the engine."""
        of, config = self._of, self._of.settings.config
        facts = DaemonFacts(
            ok=True,
            version=__version__,
            pid=os.getpid(),
            started=of.started,
            problem=self._health.explained(),
            bus=of.server.url if of.server else config.bus.url,
            embedded=of.server is not None,
            open_agents=config.bus.keyless and of.settings.keyless_gate.open,
            keys=of.settings.keys,
            web=self._web(),
            data_dir=str(of.data_dir),
            disk=self._disk.use,
            decisions=self._metrics.counts(),
            failing=tuple(state.name for state in self._channels() if state.failing),
            stop_files=tuple(str(path) for path in of.settings.stop_files),
            stop_commands=tuple(config.stop.commands),
            config=str(of.settings.path or ""),
            config_problem=of.reload.problem,
            next_start=tuple(of.settings.next_start),
            unavailable=self._extras.unavailable,
            over_limits=tuple(
                SenderOverLimit(
                    sender=over.sender, limit=over.limit, count=over.count, words=over.words
                )
                for over in of.settings.accounts.over()[:MAX_OVER]
            ),
            cluster=UNSET if self._cluster is None else self._cluster.summary,
        )
        return self._extras.extended(facts)

    async def _stored(self) -> StoredFacts:
        async with self._looking:
            if self._looked_at is None or uptime() - self._looked_at >= FRESH_S:
                await self._disk.look(measure=True)
                await self._extras.look()
                with suppress(OSError):  # a result from a second ago is better than none
                    self._seen = await anyio.to_thread.run_sync(stored_in, self._of.data_dir)
                self._looked_at = uptime()
            return self._seen

    def _gathered(self, stored: StoredFacts) -> HealthFacts:
        return HealthFacts(
            at=self._of.clock.now().at,
            daemon=self.facts(),
            bus=self._bus(),
            journal=self._journal(),
            stored=stored,
            audit_seq=self._of.audit.seq,
            audit_head=self._of.audit.head,
            audit_problem=self._loop.audit_problem,
            checkpoint_problem=self._records.checkpoint_problem,
            channels=self._channels(),
            versions=self._versions(),
            port_taken=self._port_taken(),
        )

    def _port_taken(self) -> int | None:
        """Return the default port of the web server if another program uses it, else None."""
        config, web = self._of.settings.config.web, self._web()
        moved = config.port is None and urlsplit(web).port != config.first_port
        return config.first_port if moved else None

    def _bus(self) -> BusFacts:
        links = self._of.connections.all
        return BusFacts(
            connections=len(links),
            heard=sum(link.heard for link in links),
            reconnects=self._of.connections.reconnects,
            problem=self._of.connections.problem,
        )

    def _journal(self) -> JournalFacts:
        return JournalFacts(
            seq=self._written.seq,
            written_at=self._written.at,
            unwritten=self._loop.seq - self._written.seq,
            unwritten_s=self._loop.unwritten_s,
            problem=self._loop.lost or self._loop.stalled or self._loop.problem,
        )

    def _versions(self) -> dict[str, str]:
        server = repr(self._of.connections.main.client.connected_server_version)
        return {
            "safetyd": __version__,
            "Python": platform.python_version(),
            "nats-server": server.removeprefix("<nats server v").removesuffix(">"),
            "nats-py": metadata.version("nats-py"),
        }


def stored_in(data_dir: Path) -> StoredFacts:
    """Read the state of the files in a data directory."""
    audit = files(data_dir / "audit")
    checkpoints = (data_dir / "checkpoints").glob("*.msgpack")
    saved = sorted(path for path in checkpoints if path.stem.isdecimal())
    return StoredFacts(
        audit_file=audit[-1].name if audit else StoredFacts().audit_file,
        audit_files=len(audit),
        audit_bytes=sum(path.stat().st_size for path in audit),
        checkpoint_seq=int(saved[-1].stem) if saved else None,
        checkpoint_at=_time_of(saved[-1]) if saved else None,
        keys=dict(_keys(data_dir / "keys")),
    )


def _keys(directory: Path) -> Iterator[tuple[tuple[Role, str], datetime]]:
    """Yield role, name and creation time of each key."""
    own = directory / "operator.pub"
    if own.exists():
        yield ("operators", LOCAL_OPERATOR), _time_of(own)
    for role in ROLES:
        for path in (directory / role).glob("*.pub"):
            yield (role, path.stem), _time_of(path)


def _time_of(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)
