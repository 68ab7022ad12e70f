"""Creates the parts that store events: commit loop, checkpoints, transcripts, recent events."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import anyio.abc

from safetyd.core.events.event import Event
from safetyd.daemon.resources import Resources
from safetyd.journal.audit_reading import newest_events
from safetyd.journal.commit_loop import CommitLoop, Conclude, Observer
from safetyd.journal.compaction import Compaction
from safetyd.journal.recovery import Restored
from safetyd.journal.transcript_files import TranscriptFiles
from safetyd.monitoring.recent_events import MAX_EVENTS, RecentEvents


class Written:
    """The last durable event."""

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.at: datetime | None = None

    def observe(self, events: Sequence[Event]) -> None:
        if events:
            self.seq, self.at = events[-1].seq, events[-1].at


class WrittenRecords:
    """The parts that store events. `observers` receive events once they are durable."""

    def __init__(
        self,
        of: Resources,
        restored: Restored,
        *,
        conclude: Conclude,
        observers: Sequence[Observer],
        appended: Callable[[float, int], None],
        flush: Callable[[], None],
    ) -> None:
        engine = restored.engine
        earlier = partial(newest_events, of.data_dir / "audit", MAX_EVENTS)
        self._transcripts = TranscriptFiles(of.data_dir)
        self.recent = RecentEvents(engine.seq, earlier)
        self.written = Written(engine.seq)
        own = (self.written.observe, self._transcripts.observe, self.recent.observe)
        self.loop = CommitLoop(
            of.mailbox,
            engine,
            of.journal,
            of.audit,
            of.clock,
            conclude=conclude,
            observers=(*own, *observers),
            appended=appended,
            flush=flush,
        )
        self.compaction = Compaction(
            self.loop, of.journal, of.audit, of.checkpoints, of.bucket, restored.checkpoint
        )

    def run(self, tasks: anyio.abc.TaskGroup) -> None:
        tasks.start_soon(self.loop.decide)
        tasks.start_soon(self.loop.answer)
        tasks.start_soon(self.loop.commit)
        tasks.start_soon(self.compaction.run)
        tasks.start_soon(self._transcripts.run)
        tasks.start_soon(self.recent.refill)
