"""What the daemon knows of its own parts, gathered when somebody asks how it is."""

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from safetyd import __version__
from safetyd.bus.keyring import LOCAL_OPERATOR
from safetyd.clock import uptime
from safetyd.daemon.extra import Extras
from safetyd.daemon.health import Health
from safetyd.daemon.measuring import Measuring
from safetyd.daemon.resources import Resources
from safetyd.daemon.written_records import WrittenRecords
from safetyd.journal.audit import files
from safetyd.operators.contract.notification_contract import ChannelState
from safetyd.operators.contract.status_contract import DaemonFacts, HealthAnswer
from safetyd.operators.views.health_view import (
    AuditFacts,
    BusFacts,
    ChannelFacts,
    CheckpointFacts,
    HealthFacts,
    JournalFacts,
    KeyFacts,
    health,
)

FRESH_S: Final = 1.0
_ROLES: Final = ("agents", "operators", "observers")


class Stored(NamedTuple):
    """What the files of the data directory say."""

    audit_file: str = "no file"
    audit_files: int = 0
    audit_bytes: int = 0
    checkpoint_seq: int | None = None
    saved_at: datetime | None = None
    keys: KeyFacts = KeyFacts({}, {})


class HealthReport:
    """Made without the engine's help. Files are looked at once a second at most, whoever asks."""

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
    ) -> None:
        self._of = of
        self._loop = records.loop
        self._compaction = records.compaction
        self._written = records.written
        self._disk = measuring.disk
        self._metrics = measuring.metrics
        self._health = health
        self._extras = extras
        self._channels = channels
        self._web = web
        self._looking = anyio.Lock()
        self._looked_at: float | None = None
        self._seen = Stored()

    async def answer(self) -> HealthAnswer:
        """Return how each part is now."""
        return health(self._gathered(await self._stored()))

    def facts(self) -> DaemonFacts:
        """Return what `status` says of the daemon around the engine."""
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
        )
        return self._extras.extended(facts)

    async def _stored(self) -> Stored:
        async with self._looking:
            if self._looked_at is None or uptime() - self._looked_at >= FRESH_S:
                await self._disk.look(measure=True)
                await self._extras.look()
                with suppress(OSError):  # what it was a second ago is better than nothing
                    self._seen = await anyio.to_thread.run_sync(stored_in, self._of.data_dir)
                self._looked_at = uptime()
            return self._seen

    def _gathered(self, stored: Stored) -> HealthFacts:
        return HealthFacts(
            at=self._of.clock.now().at,
            daemon=self.facts(),
            bus=self._bus(),
            journal=self._journal(),
            audit=AuditFacts(
                file=stored.audit_file,
                seq=self._of.audit.seq,
                head=self._of.audit.head,
                bytes=stored.audit_bytes,
                files=stored.audit_files,
                problem=self._loop.audit_problem,
            ),
            checkpoint=CheckpointFacts(
                seq=stored.checkpoint_seq,
                saved_at=stored.saved_at,
                problem=self._compaction.problem,
            ),
            disk=self._disk.use,
            keys=stored.keys,
            channels=tuple(
                ChannelFacts(state.name, state.up, state.failing, state.last_error)
                for state in self._channels()
            ),
            versions=self._versions(),
            port_taken=self._port_taken(),
        )

    def _port_taken(self) -> int | None:
        """Return the port that the web should have had, if it has another."""
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
            problem=self._loop.stalled or self._loop.problem,
        )

    def _versions(self) -> dict[str, str]:
        server = repr(self._of.connections.main.client.connected_server_version)
        return {
            "safetyd": __version__,
            "Python": platform.python_version(),
            "nats-server": server.removeprefix("<nats server v").removesuffix(">"),
            "nats-py": metadata.version("nats-py"),
        }


def stored_in(data_dir: Path) -> Stored:
    """Look at the files of a data directory."""
    audit = files(data_dir / "audit")
    checkpoints = (data_dir / "checkpoints").glob("*.msgpack")
    saved = sorted(path for path in checkpoints if path.stem.isdecimal())
    made = dict(_keys(data_dir / "keys"))
    counts = {role: sum(role == of for of, _ in made) for role in _ROLES}
    return Stored(
        audit_file=audit[-1].name if audit else Stored().audit_file,
        audit_files=len(audit),
        audit_bytes=sum(path.stat().st_size for path in audit),
        checkpoint_seq=int(saved[-1].stem) if saved else None,
        saved_at=_time_of(saved[-1]) if saved else None,
        keys=KeyFacts(counts, made),
    )


def _keys(directory: Path) -> Iterator[tuple[tuple[str, str], datetime]]:
    """Yield role, name and age of each key that is there."""
    own = directory / "operator.pub"
    if own.exists():
        yield ("operators", LOCAL_OPERATOR), _time_of(own)
    for role in _ROLES:
        for path in (directory / role).glob("*.pub"):
            yield (role, path.stem), _time_of(path)


def _time_of(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)
