"""A standby has the writer's state, and becomes the writer when the journal is free or silent."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.cluster_events import WriterReleased
from safetyd.core.events.event import Event
from safetyd.core.policy import Policy
from safetyd.journal.audit import Audit, verify
from safetyd.journal.checkpoints import Checkpoints, SavedCheckpoint, state_digest
from safetyd.journal.journals import JournalTrimmed
from safetyd.journal.recovery import Restored, load
from safetyd.journal.standby import Claimant, Followed, Standby
from safetyd.journal.stream import Displaced, JetStreamJournal
from tests.nats_process import NatsProcess
from tests.servers import TornLink, connected, down, until
from tests.story import NOON, stop

MAX_BYTES = 16 * 1024 * 1024
UNKNOWN = b'{"event":"kettle_boiled","seq":%d,"at":"2026-01-01T00:00:00Z","t":1.0}'


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten all times alike."""
    monkeypatch.setattr("safetyd.journal.standby.SILENCE_S", 0.6)
    monkeypatch.setattr("safetyd.journal.stream.BEAT_S", 0.1)
    monkeypatch.setattr("safetyd.journal.journal_reader.SILENT_S", 0.4)


class Writer:
    """A daemon that decides: an engine and its journal."""

    def __init__(self, journal: JetStreamJournal) -> None:
        self.journal = journal
        self.engine = Engine(Policy())

    async def write(self, *events: Event) -> None:
        lines = [encode(lasting) for event in events for lasting in self.engine.handle(event)]
        await self.journal.append(b"\n".join(lines))

    async def live(self, count: int = 3) -> None:
        for _ in range(count):
            await self.write(stop(1, epoch=self.engine.seq + 1))


class Follower:
    """A standby with everything that it has on its machine."""

    def __init__(
        self, name: str, restored: Restored, standby: Standby, audit: Audit, clock: Clock
    ) -> None:
        self.name = name
        self.clock = clock
        self.restored = restored
        self.standby = standby
        self.audit = audit
        self.seen: list[Event] = []
        standby.observe_with(self.seen.extend)

    @property
    def digest(self) -> str:
        return digest(self.restored.engine)


def digest(engine: Engine) -> str:
    return state_digest(engine.save()())


@pytest.fixture
async def writer(client: HardenedClient) -> Writer:
    return Writer(await opened(client, "w"))


async def opened(client: HardenedClient, boot_id: str) -> JetStreamJournal:
    journal = JetStreamJournal(client, Subjects(), boot_id)
    await journal.open(MAX_BYTES)
    await client.flush()
    return journal


@asynccontextmanager
async def follower(
    bus: NatsProcess | TornLink, directory: Path, name: str = "b", *, patient: bool = False
) -> AsyncIterator[Follower]:
    async with connected(bus.url) as client:
        journal = await opened(client, name)
        audit = Audit(directory / name, MAX_BYTES)
        audit.open()
        checkpoints = Checkpoints(directory / f"{name}-checkpoints")
        restored, after = await load(Policy(), checkpoints, journal, audit)
        standby = Standby(
            Followed(restored, after, journal, audit),
            clock := Clock(),
            Claimant(name, "0.1.0"),
            patient=patient,
        )
        await standby.catch_up()
        yield Follower(name, restored, standby, audit, clock)
        audit.close()


async def test_standby_has_the_writers_state_and_takes_over_after_silence(
    writer: Writer, jetstream: NatsProcess, tmp_path: Path
) -> None:
    await writer.live()
    async with follower(jetstream, tmp_path) as b, anyio.create_task_group() as tasks:
        tasks.start_soon(b.standby.follow)
        await writer.live()
        await until(lambda: b.restored.engine.seq == writer.engine.seq)
        followed, decided = b.digest, digest(writer.engine)
        await until(lambda: b.restored.engine.writers.daemon == "b")
        assert b.audit.seq == writer.engine.seq + 1

        with pytest.raises(Displaced):
            await writer.journal.append(b"late")

    assert followed == decided
    assert len(b.seen) == writer.engine.seq + 1 - 3 * 2  # of each stop, a SafetyEvent follows
    assert (b.standby.before, b.standby.planned) == ("", True)


async def test_writer_that_only_sends_heartbeats_stays_the_writer(
    writer: Writer, jetstream: NatsProcess, tmp_path: Path
) -> None:
    await writer.live(1)
    async with follower(jetstream, tmp_path) as b, anyio.create_task_group() as tasks:
        tasks.start_soon(b.standby.follow)
        tasks.start_soon(writer.journal.beat)
        await until(lambda: writer.journal.last >= 25)  # more than two seconds

        assert b.restored.engine.writers.daemon == ""
        assert b.audit.seq == writer.engine.seq
        tasks.cancel_scope.cancel()


async def test_of_several_standbys_exactly_one_takes_over(
    writer: Writer, jetstream: NatsProcess, tmp_path: Path
) -> None:
    await writer.live()
    async with (
        follower(jetstream, tmp_path, "b") as b,
        follower(jetstream, tmp_path, "c") as c,
        follower(jetstream, tmp_path, "d") as d,
        anyio.create_task_group() as tasks,
    ):
        done: list[str] = []

        async def follow(one: Follower) -> None:
            await one.standby.follow()
            done.append(one.name)
            await one.standby._journal.beat()

        for one in (b, c, d):
            tasks.start_soon(follow, one)
        await until(lambda: done)
        await until(lambda: len({one.restored.engine.writers.daemon for one in (b, c, d)}) == 1)

        assert done == [b.restored.engine.writers.daemon]
        assert len({one.digest for one in (b, c, d)}) == 1
        tasks.cancel_scope.cancel()


async def test_released_journal_is_taken_at_once(
    writer: Writer, jetstream: NatsProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with follower(jetstream, tmp_path, "a") as a:
        assert await a.standby.claim()
    monkeypatch.setattr("safetyd.journal.standby.SILENCE_S", 600.0)

    async with follower(jetstream, tmp_path, "b") as b, anyio.create_task_group() as tasks:
        assert not await b.standby.claim()
        tasks.start_soon(b.standby.follow)
        await release(a, writer)
        await until(lambda: b.restored.engine.writers.term == 2)

    assert (b.standby.before, b.standby.planned) == ("a", True)


async def release(of: Follower, writer: Writer, term: int = 1) -> None:
    """Let a daemon release the journal, over the connection of another one."""
    seq = of.restored.engine.seq
    gone = WriterReleased(seq=seq + 1, at=NOON, t=9.0, term=term, daemon=of.name)
    writer.journal.follow(seq)
    await writer.journal.append(encode(gone))


async def test_daemon_that_has_handed_over_gives_others_time(
    writer: Writer, jetstream: NatsProcess, tmp_path: Path
) -> None:
    async with follower(jetstream, tmp_path, "a") as a:
        assert await a.standby.claim()
        await release(a, writer)

    async with follower(jetstream, tmp_path, "a", patient=True) as a:
        at_once = await a.standby.claim()
        await a.standby.follow()

    assert not at_once
    assert a.restored.engine.writers.term == 2


async def test_daemon_that_has_handed_over_takes_over_from_another_one_at_once(
    writer: Writer, jetstream: NatsProcess, tmp_path: Path
) -> None:
    async with follower(jetstream, tmp_path, "a") as a:
        assert await a.standby.claim()
        await release(a, writer)
    async with follower(jetstream, tmp_path, "b") as b:
        assert await b.standby.claim()
        await release(b, writer, term=2)

    async with follower(jetstream, tmp_path, "a", patient=True) as a:
        assert await a.standby.claim()


async def test_time_passes_on_a_standby_as_on_the_writer(
    writer: Writer, jetstream: NatsProcess, tmp_path: Path
) -> None:
    await writer.live()
    async with follower(jetstream, tmp_path) as b, anyio.create_task_group() as tasks:
        tasks.start_soon(b.standby.follow)
        await writer.write(stop(1000.0))
        await until(lambda: b.clock.now().t >= 1000.0)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("when", ["before the start", "while it follows"])
async def test_standby_that_meets_an_unknown_event_waits_and_never_takes_over(
    writer: Writer, jetstream: NatsProcess, tmp_path: Path, when: str
) -> None:
    await writer.live()
    known = writer.engine.seq

    async def boil() -> None:
        await writer.journal.append(UNKNOWN % (known + 1))

    if when == "before the start":
        await boil()
    async with follower(jetstream, tmp_path) as b, anyio.create_task_group() as tasks:
        tasks.start_soon(b.standby.follow)
        if when == "while it follows":
            await boil()
        await until(lambda: b.standby.problem)
        with anyio.move_on_after(1.5):
            await anyio.sleep_forever()

        assert "kettle_boiled" in b.standby.problem
        assert (b.audit.seq, b.restored.engine.seq) == (known, known)
        assert b.restored.engine.writers.daemon == ""
        tasks.cancel_scope.cancel()


async def test_standby_goes_on_after_the_server_was_gone(
    writer: Writer, jetstream: NatsProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.journal.standby.SILENCE_S", 600.0)
    await writer.live()  # a standby would take an empty journal
    async with follower(jetstream, tmp_path) as b, anyio.create_task_group() as tasks:
        tasks.start_soon(b.standby.follow)
        await writer.live()
        with down(jetstream):
            pass
        await writer.live()
        await until(lambda: b.restored.engine.seq == writer.engine.seq)

        assert b.digest == digest(writer.engine)
        tasks.cancel_scope.cancel()


async def test_standby_takes_over_although_the_last_batch_was_lost_with_the_connection(
    writer: Writer, torn_link: TornLink, tmp_path: Path
) -> None:
    await writer.live()
    async with follower(torn_link, tmp_path) as b, anyio.create_task_group() as tasks:
        tasks.start_soon(b.standby.follow)
        await writer.live()
        await until(lambda: b.restored.engine.seq == writer.engine.seq)
        torn_link.tear_at(1)
        await writer.live(1)
        await until(lambda: b.restored.engine.writers.daemon == "b")

    assert torn_link.torn
    assert b.audit.seq == writer.engine.seq + 1


async def test_audit_file_is_complete_although_the_connection_was_lost_while_it_caught_up(
    writer: Writer, torn_link: TornLink, tmp_path: Path
) -> None:
    await writer.live(400)
    saved = SavedCheckpoint(
        stream_seq=writer.journal.last, t=50.0, engine=writer.engine.save()(), audit_head=""
    )
    Checkpoints(tmp_path / "b-checkpoints").write(saved)
    torn_link.tear_at(33)

    async with follower(torn_link, tmp_path):
        pass

    found = verify(tmp_path / "b")
    assert torn_link.torn
    assert (found.missing, found.last_seq) == (0, writer.engine.seq)


async def test_standby_that_was_away_too_long_needs_a_checkpoint(
    writer: Writer, jetstream: NatsProcess, tmp_path: Path
) -> None:
    await writer.live()
    async with follower(jetstream, tmp_path) as b:
        await writer.live()
        await writer.journal.trim(writer.journal.last)

        with pytest.raises(JournalTrimmed):
            await b.standby.follow()

    with pytest.raises(JournalTrimmed):
        async with follower(jetstream, tmp_path):
            pass


async def test_full_disk_delays_the_audit_file_and_loses_nothing(
    writer: Writer, jetstream: NatsProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = True
    append = Audit.append

    def limited(audit: Audit, lines: Sequence[bytes], last_seq: int) -> None:
        if full:
            raise OSError(28, "No space left on device")
        append(audit, lines, last_seq)

    async with follower(jetstream, tmp_path) as b, anyio.create_task_group() as tasks:
        monkeypatch.setattr(Audit, "append", limited)
        tasks.start_soon(b.standby.follow)
        await writer.live()
        await until(lambda: b.standby.audit_problem)
        full = False
        await until(lambda: b.restored.engine.seq >= writer.engine.seq)
        await until(lambda: not b.standby.audit_problem)

        assert b.audit.seq >= writer.engine.seq
        tasks.cancel_scope.cancel()
