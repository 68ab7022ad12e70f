import logging
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.subjects import STREAM, Subjects
from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.policy import Policy
from safetyd.journal.audit import Audit
from safetyd.journal.checkpoint_bucket import CheckpointBucket
from safetyd.journal.checkpoints import Checkpoints, SavedCheckpoint
from safetyd.journal.commit_loop import CommitLoop
from safetyd.journal.compaction import EVERY_EVENTS, EVERY_S, MEASURED_EVENTS, Compaction
from safetyd.journal.mailbox import EventEnvelope, Mailbox
from safetyd.journal.recovery import restore
from safetyd.journal.stream import JetStreamJournal
from tests.nats_process import NatsProcess
from tests.servers import frozen, until
from tests.story import stop

MAX_BYTES = 4 * 1024 * 1024


class FullDisk(Checkpoints):
    """A directory without room, for as long as `full`."""

    full = False

    def write(self, saved: SavedCheckpoint) -> Path:
        if self.full:
            raise OSError(28, "No space left on device")
        return super().write(saved)


class CompactionRig:
    """A compaction over a loop that works."""

    def __init__(
        self, journal: JetStreamJournal, directory: Path, bucket: CheckpointBucket | None = None
    ) -> None:
        self.journal = journal
        self.audit = Audit(directory / "audit", MAX_BYTES)
        self.audit.open()
        self.checkpoints = FullDisk(directory / "checkpoints")
        self.loop = CommitLoop(Mailbox(), Engine(Policy()), journal, self.audit, Clock())
        self.compaction = Compaction(self.loop, journal, self.audit, self.checkpoints, bucket)
        self._epoch = 0

    async def live(self, batches: int = 1) -> None:
        """Let so many batches of two events each be written."""
        for _ in range(batches):
            self._epoch += 1
            written = anyio.Event()
            self.loop.mailbox.put(EventEnvelope(self._stopped, written.set))
            await written.wait()

    def _stopped(self, _engine: EngineState, _moment: Moment) -> Event:
        return stop(self._epoch, epoch=self._epoch)

    @property
    def seqs(self) -> list[int]:
        return [int(path.stem) for path in self.checkpoints.paths()]


@pytest.fixture
async def rig(client: HardenedClient, tmp_path: Path) -> AsyncIterator[CompactionRig]:
    journal = JetStreamJournal(client, Subjects(), "b00t")
    await journal.open(MAX_BYTES)
    await client.flush()
    rig = CompactionRig(journal, tmp_path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.loop.decide)
        tasks.start_soon(rig.loop.commit)
        with anyio.fail_after(20):
            yield rig
        tasks.cancel_scope.cancel()
    rig.audit.close()


async def test_saved_state_is_the_engines(rig: CompactionRig) -> None:
    await rig.live(3)

    path = await rig.compaction.save()

    (saved,) = rig.checkpoints.load()
    assert isinstance(saved, SavedCheckpoint)
    assert [path] == rig.checkpoints.paths()
    assert saved.engine == rig.loop._engine.save()()
    assert saved.stream_seq == 3


async def test_first_checkpoint_trims_nothing(rig: CompactionRig) -> None:
    await rig.live(3)

    await rig.compaction.save()

    assert await rig.journal.first() == 1


async def test_journal_is_trimmed_below_the_older_of_two(rig: CompactionRig) -> None:
    await rig.live(3)
    await rig.compaction.save()
    await rig.live(3)

    await rig.compaction.save()

    assert rig.seqs == [12, 6]
    assert await rig.journal.first() == 3


async def test_same_state_saved_twice_does_not_count_as_two(rig: CompactionRig) -> None:
    await rig.live(3)
    await rig.compaction.save()
    await rig.live(3)
    await rig.compaction.save()

    await rig.compaction.save()

    assert await rig.journal.first() == 3


async def test_with_the_newest_damaged_the_older_still_restores_everything(
    rig: CompactionRig,
) -> None:
    for _ in range(3):
        await rig.live(3)
        await rig.compaction.save()
        await rig.compaction.save()
    await rig.live()
    rig.checkpoints.paths()[0].write_bytes(b"damaged")

    restored = await restore(Policy(), rig.checkpoints, rig.journal, rig.audit)

    assert restored.engine.save()() == rig.loop._engine.save()()


async def test_compaction_goes_on_from_the_checkpoint_that_the_start_used(
    rig: CompactionRig,
) -> None:
    await rig.live(3)
    saved = SavedCheckpoint(stream_seq=2, t=0.0, engine=rig.loop._engine.save()())
    compaction = Compaction(rig.loop, rig.journal, rig.audit, rig.checkpoints, saved=saved)
    await rig.live(3)

    await compaction.save()

    assert await rig.journal.first() == 2


async def test_start_without_a_checkpoint_begins_empty(rig: CompactionRig) -> None:
    await rig.live()

    await rig.compaction.save()

    assert rig.seqs == [2]


async def test_full_disk_is_reported_and_trims_nothing(
    rig: CompactionRig, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.live(3)
    await rig.compaction.save()
    await rig.live(3)
    rig.checkpoints.full = True

    with caplog.at_level(logging.ERROR):
        assert await rig.compaction.save() is None
    first = await rig.journal.first()
    rig.checkpoints.full = False
    await rig.compaction.save()

    assert "cannot write a checkpoint" in caplog.text
    assert first == 1
    assert await rig.journal.first() == 3


async def test_journal_that_cannot_be_trimmed_stays_whole_and_that_is_said(
    rig: CompactionRig, client: HardenedClient, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.live(3)
    await rig.compaction.save()
    await rig.live(3)
    info = await client.jetstream().stream_info(STREAM)
    info.config.deny_purge = True
    await client.jetstream().update_stream(info.config)

    await rig.compaction.save()

    assert "cannot trim the journal" in caplog.text
    assert await rig.journal.first() == 1


async def test_checkpoints_of_two_who_ask_at_once_are_both_whole(rig: CompactionRig) -> None:
    await rig.live(3)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.compaction.save)
        tasks.start_soon(rig.compaction.save)

    assert rig.seqs == [6]


async def test_bucket_gets_what_the_disk_has(
    rig: CompactionRig, client: HardenedClient, tmp_path: Path
) -> None:
    bucket = CheckpointBucket(client)
    compaction = Compaction(rig.loop, rig.journal, rig.audit, rig.checkpoints, bucket)
    await rig.live()

    await compaction.save()

    elsewhere = Checkpoints(tmp_path / "elsewhere")
    await bucket.fetch(elsewhere)
    assert rig.checkpoints.paths()[0].name in [path.name for path in elsewhere.paths()]


async def test_an_empty_bucket_gets_the_state_that_the_start_used_at_once(
    rig: CompactionRig, client: HardenedClient
) -> None:
    await rig.live()
    await rig.compaction.save()
    saved = next(iter(rig.checkpoints.load()))
    assert isinstance(saved, SavedCheckpoint)
    bucket = CheckpointBucket(client)
    restored = Compaction(rig.loop, rig.journal, rig.audit, rig.checkpoints, bucket, saved)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(restored.run)
        await until(lambda: not bucket.empty)
        tasks.cancel_scope.cancel()


async def due(rig: CompactionRig) -> bool:
    return await rig.compaction._due()


async def test_nothing_new_is_never_due(rig: CompactionRig) -> None:
    rig.compaction._saved_at -= EVERY_S + 1

    assert not await due(rig)


async def test_something_new_is_due_after_ten_minutes(rig: CompactionRig) -> None:
    await rig.live()
    before = await due(rig)
    rig.compaction._saved_at -= EVERY_S + 1

    assert not before
    assert await due(rig)


async def test_many_events_are_due_at_once(rig: CompactionRig) -> None:
    rig.loop._engine.seq = EVERY_EVENTS

    assert await due(rig)


async def test_crowded_journal_is_due(rig: CompactionRig) -> None:
    rig.loop._engine.seq = MEASURED_EVENTS
    roomy = await due(rig)
    await rig.journal.append(b"x" * 250_000)
    for _ in range(9):
        await rig.journal.append(b"x" * 250_000)
    unmeasured = await due(rig)
    rig.loop._engine.seq += MEASURED_EVENTS

    assert not roomy
    assert not unmeasured
    assert await due(rig)


async def test_journal_that_cannot_be_measured_is_measured_later(
    rig: CompactionRig, jetstream: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.loop._engine.seq = MEASURED_EVENTS
    monkeypatch.setattr(rig.journal._js, "_timeout", 0.1)

    with frozen(jetstream):
        assert not await due(rig)


async def test_compaction_saves_by_itself_when_it_is_time(
    rig: CompactionRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.journal.compaction.LOOK_S", 0.01)
    await rig.live()
    rig.compaction._saved_at -= EVERY_S + 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.compaction.run)
        await until(lambda: rig.seqs)
        with anyio.move_on_after(0.1):
            await anyio.sleep_forever()
        tasks.cancel_scope.cancel()

    assert rig.seqs == [2]
