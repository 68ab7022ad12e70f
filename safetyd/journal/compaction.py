"""Saves checkpoints, and trims the journal before them."""

import logging
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import nats.errors

from safetyd.clock import uptime
from safetyd.journal.audit import Audit
from safetyd.journal.checkpoint_bucket import CheckpointBucket
from safetyd.journal.checkpoints import Checkpoints, SavedCheckpoint
from safetyd.journal.commit_loop import CommitLoop, Frozen
from safetyd.journal.journals import Journal, JournalSilent
from safetyd.journal.mailbox import EventEnvelope, Mailbox

LOOK_S: Final = 1.0
EVERY_S: Final = 600.0
EVERY_EVENTS: Final = 100_000
EVERY_HEARTBEATS: Final = 20_000  # about three hours
FORCED_AT: Final = 0.5
# How often the size of the stream is checked.
MEASURED_EVENTS: Final = 20_000

log = logging.getLogger("safetyd.checkpoints")


class Compaction:
    """Saves checkpoints regularly. `saved` is the checkpoint that the daemon started from."""

    def __init__(
        self,
        loop: CommitLoop,
        journal: Journal,
        audit: Audit,
        checkpoints: Checkpoints,
        bucket: CheckpointBucket | None = None,
        saved: SavedCheckpoint | None = None,
    ) -> None:
        self._loop = loop
        self._mailbox: Mailbox = loop.mailbox
        self._journal = journal
        self._audit = audit
        self._checkpoints = checkpoints
        self._bucket = bucket
        # The stream sequences of the two newest checkpoints.
        self._older = 0
        self._newest = 0 if saved is None else saved.stream_seq
        self._saving = anyio.Lock()
        self._saved_seq = 0 if saved is None else saved.engine.seq
        self._saved_at = uptime()
        self._measured_seq = 0
        self.problem = ""  # why the last checkpoint was not written

    async def run(self) -> None:
        if self._bucket is not None and self._bucket.empty and self._saved_seq:
            # This daemon was restored from a backup. Only its disk has the events before.
            await self.save()
        while True:
            await anyio.sleep(LOOK_S)
            if await self._due():
                await self.save()

    async def save(self) -> Path | None:
        """Save a checkpoint after the next batch, then trim the journal.

        Batches before the previous checkpoint are deleted. Return the path of the checkpoint. If
        saving fails, return None and set `problem`.
        """
        async with self._saving:
            stream_seq, frozen, head = await self._freeze()
            self._saved_at = uptime()
            try:
                saved, path = await anyio.to_thread.run_sync(self._write, stream_seq, frozen, head)
                if self._bucket is not None:
                    await self._bucket.put(path, await anyio.Path(path).read_bytes())
            except (OSError, nats.errors.Error, TimeoutError) as exc:
                log.error("cannot write a checkpoint, so the journal is not trimmed: %s", exc)  # noqa: TRY400 - the cause is in the text
                self.problem = str(exc)
                return None
            self.problem = ""
            self._saved_seq = saved.engine.seq
            if saved.stream_seq > self._newest:
                self._older, self._newest = self._newest, saved.stream_seq
            await self._trim()
            return path

    async def _trim(self) -> None:
        try:
            await self._journal.trim(self._older)
        except JournalSilent as exc:
            log.warning("cannot trim the journal; will retry later: %s", exc)

    async def _due(self) -> bool:
        new = self._loop.seq - self._saved_seq
        if new <= 0:  # but heartbeats take space too
            return self._journal.last - self._newest >= EVERY_HEARTBEATS
        if new >= EVERY_EVENTS or uptime() - self._saved_at >= EVERY_S:
            return True
        return await self._crowded()

    async def _crowded(self) -> bool:
        if self._loop.seq - self._measured_seq < MEASURED_EVENTS:
            return False
        self._measured_seq = self._loop.seq
        try:
            return await self._journal.used() > FORCED_AT
        except JournalSilent:
            return False

    async def _freeze(self) -> tuple[int, Frozen, str]:
        taken: list[tuple[int, Frozen, str]] = []
        done = anyio.Event()

        def take(stream_seq: int, frozen: Frozen) -> None:
            taken.append((stream_seq, frozen, self._audit.head))
            done.set()

        self._loop.freeze_next(take)
        self._mailbox.put(EventEnvelope(lambda _state, _moment: None))
        await done.wait()
        return taken[0]

    def _write(self, stream_seq: int, frozen: Frozen, head: str) -> tuple[SavedCheckpoint, Path]:
        saved = SavedCheckpoint(
            stream_seq=stream_seq, t=frozen.t, engine=frozen.encode_engine(), audit_head=head
        )
        self._audit.sync()
        return saved, self._checkpoints.write(saved)
