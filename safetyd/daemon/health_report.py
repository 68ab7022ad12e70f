"""What the daemon knows of its own parts, gathered when somebody asks how it is."""

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
from safetyd.core.events.event import Event
from safetyd.daemon.disk_space import DiskSpace
from safetyd.daemon.resources import Resources
from safetyd.journal.audit import files
from safetyd.journal.commit_loop import CommitLoop
from safetyd.journal.compaction import Compaction
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


class Written:
    """An outlet of the journal: what was written last, and when."""

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.at: datetime | None = None

    def observe(self, events: Sequence[Event]) -> None:
        if events:
            self.seq, self.at = events[-1].seq, events[-1].at


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
        loop: CommitLoop,
        compaction: Compaction,
        disk: DiskSpace,
        written: Written,
        *,
        facts: Callable[[], DaemonFacts],
        channels: Callable[[], Sequence[ChannelState]],
    ) -> None:
        self._of = of
        self._loop = loop
        self._compaction = compaction
        self._disk = disk
        self._written = written
        self._facts = facts
        self._channels = channels
        self._looking = anyio.Lock()
        self._looked_at: float | None = None
        self._seen = Stored()

    async def answer(self) -> HealthAnswer:
        """Return how each part is now."""
        return health(self._gathered(await self._stored()))

    async def _stored(self) -> Stored:
        async with self._looking:
            if self._looked_at is None or uptime() - self._looked_at >= FRESH_S:
                await self._disk.look(measure=True)
                with suppress(OSError):  # what it was a second ago is better than nothing
                    self._seen = await anyio.to_thread.run_sync(stored_in, self._of.data_dir)
                self._looked_at = uptime()
            return self._seen

    def _gathered(self, stored: Stored) -> HealthFacts:
        return HealthFacts(
            at=self._of.clock.now().at,
            daemon=self._facts(),
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
        config, web = self._of.settings.config.web, self._facts().web
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
