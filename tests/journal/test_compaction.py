import logging
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.subjects import STREAM, Subjects
from safetyd.clock import Clock
from safetyd.core.engine.engine import Engine
from safetyd.core.events.event import Event, Moment
from safetyd.core.policy import Policy
from safetyd.journal.audit import Audit
from safetyd.journal.checkpoint_bucket import CheckpointBucket
from safetyd.journal.checkpoints import Checkpoints, SavedCheckpoint
from safetyd.journal.commit_loop import CommitLoop
from safetyd.journal.compaction import EVERY_EVENTS, EVERY_S, MEASURED_EVENTS, Compaction
from safetyd.journal.mailbox import EventEnvelope, Mailbox
from safetyd.journal.recovery import restore
from safetyd.journal.stream import Journal
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


class House:
    """A compaction over a loop that works."""

    def __init__(
        self, journal: Journal, directory: Path, bucket: CheckpointBucket | None = None
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

    def _stopped(self, _engine: Engine, _moment: Moment) -> Event:
        return stop(self._epoch, epoch=self._epoch)

    @property
    def seqs(self) -> list[int]:
        return [int(path.stem) for path in self.checkpoints.paths()]


@pytest.fixture
async def house(client: HardenedClient, tmp_path: Path) -> AsyncIterator[House]:
    journal = Journal(client, Subjects(), "b00t")
    await journal.open(MAX_BYTES)
    await client.flush()
    house = House(journal, tmp_path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.loop.decide)
        tasks.start_soon(house.loop.commit)
        with anyio.fail_after(20):
            yield house
        tasks.cancel_scope.cancel()
    house.audit.close()


async def test_saved_state_is_the_engines(house: House) -> None:
    await house.live(3)

    await house.compaction.save()

    (saved,) = house.checkpoints.load()
    assert isinstance(saved, SavedCheckpoint)
    assert saved.engine == house.loop.engine.save()()
    assert saved.stream_seq == 3


async def test_first_checkpoint_trims_nothing(house: House) -> None:
    await house.live(3)

    await house.compaction.save()

    assert await house.journal.first() == 1


async def test_journal_is_trimmed_below_the_older_of_two(house: House) -> None:
    await house.live(3)
    await house.compaction.save()
    await house.live(3)

    await house.compaction.save()

    assert house.seqs == [12, 6]
    assert await house.journal.first() == 3


async def test_same_state_saved_twice_does_not_count_as_two(house: House) -> None:
    await house.live(3)
    await house.compaction.save()
    await house.live(3)
    await house.compaction.save()

    await house.compaction.save()

    assert await house.journal.first() == 3


async def test_with_the_newest_damaged_the_older_still_restores_everything(house: House) -> None:
    for _ in range(3):
        await house.live(3)
        await house.compaction.save()
        await house.compaction.save()
    await house.live()
    house.checkpoints.paths()[0].write_bytes(b"damaged")

    restored = await restore(Policy(), house.checkpoints, house.journal, house.audit)

    assert restored.engine.save()() == house.loop.engine.save()()


async def test_compaction_goes_on_from_the_checkpoint_that_the_start_used(house: House) -> None:
    await house.live(3)
    saved = SavedCheckpoint(stream_seq=2, t=0.0, engine=house.loop.engine.save()())
    house.compaction.begin(saved)
    await house.live(3)

    await house.compaction.save()

    assert await house.journal.first() == 2


async def test_start_without_a_checkpoint_begins_empty(house: House) -> None:
    house.compaction.begin(None)
    await house.live()

    await house.compaction.save()

    assert house.seqs == [2]


async def test_full_disk_is_reported_and_trims_nothing(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    await house.live(3)
    await house.compaction.save()
    await house.live(3)
    house.checkpoints.full = True

    with caplog.at_level(logging.ERROR):
        await house.compaction.save()
    first = await house.journal.first()
    house.checkpoints.full = False
    await house.compaction.save()

    assert "no checkpoint could be written" in caplog.text
    assert first == 1
    assert await house.journal.first() == 3


async def test_journal_that_cannot_be_trimmed_stays_whole_and_that_is_said(
    house: House, client: HardenedClient, caplog: pytest.LogCaptureFixture
) -> None:
    await house.live(3)
    await house.compaction.save()
    await house.live(3)
    info = await client.jetstream().stream_info(STREAM)
    info.config.deny_purge = True
    await client.jetstream().update_stream(info.config)

    await house.compaction.save()

    assert "the journal was not trimmed" in caplog.text
    assert await house.journal.first() == 1


async def test_checkpoints_of_two_who_ask_at_once_are_both_whole(house: House) -> None:
    await house.live(3)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.compaction.save)
        tasks.start_soon(house.compaction.save)

    assert house.seqs == [6]


async def test_bucket_gets_what_the_disk_has(
    house: House, client: HardenedClient, tmp_path: Path
) -> None:
    bucket = CheckpointBucket(client)
    compaction = Compaction(house.loop, house.journal, house.audit, house.checkpoints, bucket)
    await house.live()

    await compaction.save()

    elsewhere = Checkpoints(tmp_path / "elsewhere")
    await bucket.fetch(elsewhere)
    assert house.checkpoints.paths()[0].name in [path.name for path in elsewhere.paths()]


async def due(house: House) -> bool:
    return await house.compaction._due()


async def test_nothing_new_is_never_due(house: House) -> None:
    house.compaction._saved_at -= EVERY_S + 1

    assert not await due(house)


async def test_something_new_is_due_after_ten_minutes(house: House) -> None:
    await house.live()
    before = await due(house)
    house.compaction._saved_at -= EVERY_S + 1

    assert not before
    assert await due(house)


async def test_many_events_are_due_at_once(house: House) -> None:
    house.loop.engine.seq = EVERY_EVENTS

    assert await due(house)


async def test_crowded_journal_is_due(house: House) -> None:
    house.loop.engine.seq = MEASURED_EVENTS
    roomy = await due(house)
    await house.journal.append(b"x" * 250_000)
    for _ in range(9):
        await house.journal.append(b"x" * 250_000)
    unmeasured = await due(house)
    house.loop.engine.seq += MEASURED_EVENTS

    assert not roomy
    assert not unmeasured
    assert await due(house)


async def test_journal_that_cannot_be_measured_is_measured_later(
    house: House, jetstream: NatsProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.loop.engine.seq = MEASURED_EVENTS
    monkeypatch.setattr(house.journal._js, "_timeout", 0.1)

    with frozen(jetstream):
        assert not await due(house)


async def test_compaction_saves_by_itself_when_it_is_time(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.journal.compaction.LOOK_S", 0.01)
    await house.live()
    house.compaction._saved_at -= EVERY_S + 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.compaction.run)
        await until(lambda: house.seqs)
        with anyio.move_on_after(0.1):
            await anyio.sleep_forever()
        tasks.cancel_scope.cancel()

    assert house.seqs == [2]
