from contextlib import suppress
from pathlib import Path

import nats.js.errors
import pytest

from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.subjects import Subjects
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.policy import Policy
from safetyd.journal.audit import Audit, verify
from safetyd.journal.checkpoint_bucket import BUCKET, CheckpointBucket
from safetyd.journal.checkpoints import Checkpoints, SavedCheckpoint
from safetyd.journal.recovery import JournalLost, restore
from safetyd.journal.stream import JetStreamJournal
from tests.story import play, propose


@pytest.fixture
async def bucket(client: HardenedClient) -> CheckpointBucket:
    with suppress(nats.js.errors.NotFoundError):
        await client.jetstream().delete_object_store(BUCKET)
    return CheckpointBucket(client)


def saved(engine: Engine, stream_seq: int) -> SavedCheckpoint:
    return SavedCheckpoint(stream_seq=stream_seq, t=1.0, engine=engine.save()())


async def test_what_one_daemon_puts_another_fetches(
    bucket: CheckpointBucket, tmp_path: Path
) -> None:
    ours, theirs = Checkpoints(tmp_path / "ours"), Checkpoints(tmp_path / "theirs")
    path = ours.write(saved(Engine(Policy()), 7))

    await bucket.put(path, path.read_bytes())
    await bucket.fetch(theirs)
    await bucket.fetch(theirs)

    (found,) = theirs.load()
    assert isinstance(found, SavedCheckpoint)
    assert found.stream_seq == 7


async def test_only_the_two_newest_stay(bucket: CheckpointBucket, tmp_path: Path) -> None:
    for seq in (1, 2, 3):
        await bucket.put(Path(f"{seq:020d}.msgpack"), b"x")
    checkpoints = Checkpoints(tmp_path)

    await bucket.fetch(checkpoints)

    assert [int(path.stem) for path in checkpoints.paths()] == [3, 2]


async def test_taking_over_a_trimmed_journal_says_what_the_audit_file_lacks(
    client: HardenedClient, tmp_path: Path
) -> None:
    engine, journal = Engine(Policy()), JetStreamJournal(client, Subjects(), "boot")
    await journal.open(1024**2)
    for n in range(6):
        events = play(engine, propose(n * 100, id=f"p{n}", text=f"{n}"))
        await journal.append(b"\n".join(encode(event) for event in events))
        if n == 3:
            checkpoint = saved(engine, journal.last)
    await journal.trim(3)
    checkpoints, audit = Checkpoints(tmp_path / "checkpoints"), Audit(tmp_path / "audit", 10**6)
    checkpoints.write(checkpoint)
    audit.open()

    restored = await restore(Policy(), checkpoints, journal, audit)
    audit.close()

    assert (restored.engine.seq, restored.replayed) == (6, 2)
    assert restored.engine.save()() == engine.save()()
    verified = verify(tmp_path / "audit")
    assert (verified.first_seq, verified.last_seq, verified.missing) == (3, 6, 2)


async def test_lost_journal_is_not_taken_for_a_new_one(
    client: HardenedClient, tmp_path: Path
) -> None:
    journal = JetStreamJournal(client, Subjects(), "boot")
    await journal.open(1024**2)
    audit = Audit(tmp_path / "audit", 10**6)
    audit.open()
    events = play(Engine(Policy()), propose(0))
    audit.append([encode(event) for event in events], 1)

    with pytest.raises(
        JournalLost, match="audit file ends with event 1, but the journal ends with event 0"
    ):
        await restore(Policy(), Checkpoints(tmp_path / "checkpoints"), journal, audit)

    audit.close()
