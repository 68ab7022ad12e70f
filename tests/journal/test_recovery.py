import logging
from pathlib import Path

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.event import Event
from safetyd.core.policy import Policy
from safetyd.journal.audit import Audit, files, verify
from safetyd.journal.audit_reading import lines_after
from safetyd.journal.checkpoints import Checkpoints, SavedCheckpoint
from safetyd.journal.journals import JournalTrimmed, MemoryJournal
from safetyd.journal.recovery import JournalLost, Restored, restore
from tests.story import ask, play, propose, resume, stop

MAX_BYTES = 16 * 1024 * 1024


class RecoveryRig:
    """A daemon's memory: journal, audit file and checkpoints, as a start finds them."""

    def __init__(self, directory: Path) -> None:
        self.journal = MemoryJournal()
        self.directory = directory
        self.checkpoints = Checkpoints(directory / "checkpoints")
        self.engine = Engine(Policy())

    async def live(self, *story: Event, mirrored: bool = True) -> None:
        """Let things happen, each in a batch of its own."""
        audit = self.audit()
        for event in story:
            events = play(self.engine, event)
            lines = [encode(each) for each in events]
            self.journal.write(events)
            if mirrored:
                audit.append(lines, events[-1].seq)
        audit.close()

    def save(self) -> None:
        saved = SavedCheckpoint(stream_seq=self.journal.last, t=50.0, engine=self.engine.save()())
        self.checkpoints.write(saved)

    def audit(self) -> Audit:
        audit = Audit(self.directory / "audit", MAX_BYTES)
        audit.open()
        return audit

    async def start(self) -> Restored:
        audit = self.audit()
        try:
            return await restore(Policy(), self.checkpoints, self.journal, audit)
        finally:
            audit.close()

    @property
    def audit_seqs(self) -> int:
        return verify(self.directory / "audit").last_seq


@pytest.fixture
def rig(tmp_path: Path) -> RecoveryRig:
    return RecoveryRig(tmp_path)


def same(restored: Restored, rig: RecoveryRig) -> bool:
    return restored.engine.save()() == rig.engine.save()()


async def test_first_start_finds_nothing_and_knows_nothing(rig: RecoveryRig) -> None:
    restored = await rig.start()

    assert (restored.engine.seq, restored.replayed, restored.t) == (0, 0, 0.0)
    assert restored.checkpoint is None


async def test_journal_alone_rebuilds_everything(rig: RecoveryRig) -> None:
    await rig.live(propose(0), stop(1), resume(2), propose(3, id="p2"))

    restored = await rig.start()

    assert same(restored, rig)
    assert restored.replayed == rig.engine.seq
    assert restored.t == 3.0


async def test_checkpoint_spares_the_replay_of_what_it_knows(rig: RecoveryRig) -> None:
    await rig.live(propose(0), stop(1))
    rig.save()
    await rig.live(resume(60), propose(61, id="p2"))

    restored = await rig.start()

    assert same(restored, rig)
    assert restored.replayed == 3
    assert restored.checkpoint is not None
    assert restored.checkpoint.engine.seq == 3
    assert restored.t == 61.0


async def test_checkpoint_at_the_journals_end_needs_no_replay(rig: RecoveryRig) -> None:
    await rig.live(propose(0), stop(1))
    rig.save()

    restored = await rig.start()

    assert same(restored, rig)
    assert (restored.replayed, restored.t) == (0, 50.0)


async def test_restored_engine_decides_as_the_old_one(rig: RecoveryRig) -> None:
    await rig.live(propose(0), stop(1))
    rig.save()

    restored = await rig.start()

    again = propose(5, id="p9")
    assert ask(restored.engine, again) == ask(rig.engine, propose(5, id="p9"))


async def test_damaged_checkpoint_is_reported_and_the_one_before_used(
    rig: RecoveryRig, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.live(propose(0))
    rig.save()
    await rig.live(stop(1))
    rig.save()
    rig.checkpoints.paths()[0].write_bytes(b"damaged")

    with caplog.at_level(logging.ERROR):
        restored = await rig.start()

    assert same(restored, rig)
    assert restored.replayed == 2
    assert "skipping a damaged checkpoint" in caplog.text


async def test_without_any_good_checkpoint_the_whole_journal_is_replayed(rig: RecoveryRig) -> None:
    await rig.live(propose(0), stop(1))
    rig.save()
    rig.checkpoints.paths()[0].write_bytes(b"damaged")

    assert same(await rig.start(), rig)


async def test_journal_trimmed_above_every_good_checkpoint_is_refused(rig: RecoveryRig) -> None:
    await rig.live(propose(0), stop(1), resume(2))
    await rig.journal.trim(3)

    with pytest.raises(JournalTrimmed, match="begins with batch 3"):
        await rig.start()


async def test_journal_that_ends_before_the_audit_file_is_refused(rig: RecoveryRig) -> None:
    await rig.live(propose(0), stop(1))
    audit = rig.audit()
    events = play(rig.engine, resume(2))
    audit.append([encode(event) for event in events], events[-1].seq)
    audit.close()

    with pytest.raises(JournalLost, match="the audit file ends with event 5"):
        await rig.start()


@pytest.mark.parametrize("checkpoint", [True, False])
async def test_journal_whose_events_leave_some_out_is_refused(
    rig: RecoveryRig, *, checkpoint: bool
) -> None:
    await rig.live(propose(0), stop(1), mirrored=False)
    play(rig.engine, resume(2))  # written nowhere
    await rig.live(propose(3, id="p2"), mirrored=False)
    if checkpoint:
        rig.save()

    with pytest.raises(JournalLost, match="begins with event 6, but event 4 must follow"):
        await rig.start()

    assert rig.audit_seqs == 3


async def test_checkpoint_newer_than_the_journal_is_refused(
    rig: RecoveryRig, tmp_path: Path
) -> None:
    await rig.live(propose(0), stop(1))
    rig.save()
    for path in files(tmp_path / "audit"):
        path.unlink()
    rig.journal = MemoryJournal()

    with pytest.raises(JournalLost):
        await rig.start()


async def test_audit_file_catches_up_from_the_journal(rig: RecoveryRig) -> None:
    await rig.live(propose(0))
    await rig.live(stop(1), resume(2), mirrored=False)

    await rig.start()

    assert rig.audit_seqs == rig.engine.seq == 5


async def test_audit_file_catches_up_on_what_the_checkpoint_already_knows(rig: RecoveryRig) -> None:
    await rig.live(propose(0))
    await rig.live(stop(1), resume(2), mirrored=False)
    rig.save()
    await rig.live(propose(3, id="p2"), mirrored=False)

    await rig.start()

    assert rig.audit_seqs == rig.engine.seq == 6


async def test_audit_file_that_holds_half_a_batch_gets_the_rest(rig: RecoveryRig) -> None:
    await rig.live(propose(0))
    events = play(rig.engine, stop(1))
    lines = [encode(event) for event in events]
    rig.journal.write(events)
    audit = rig.audit()
    audit.append(lines[:1], 2)
    audit.close()

    await rig.start()

    assert rig.audit_seqs == 3
    assert len(list(lines_after(rig.directory / "audit", 0))) == 3


async def test_events_that_only_another_machine_has_audited_are_declared_missing(
    rig: RecoveryRig, tmp_path: Path
) -> None:
    await rig.live(propose(0), stop(1))
    rig.save()
    await rig.live(resume(2))
    await rig.journal.trim(3)
    for path in files(tmp_path / "audit"):
        path.unlink()

    await rig.start()

    found = verify(tmp_path / "audit")
    assert (found.missing, found.last_seq) == (3, 5)


async def test_restoring_twice_gives_the_same(rig: RecoveryRig) -> None:
    await rig.live(propose(0), stop(1))
    rig.save()
    await rig.live(resume(2))

    first, second = await rig.start(), await rig.start()

    assert first.engine.save()() == second.engine.save()()
    assert rig.audit_seqs == 5
    assert same(second, rig)
