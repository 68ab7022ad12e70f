"""Creates the parts that store events: commit loop, checkpoints, transcripts, recent events."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import anyio.abc

from safetyd.agents.followed_links import moved
from safetyd.core.events.event import Event
from safetyd.daemon.resources import Resources
from safetyd.journal.audit_reading import newest_events
from safetyd.journal.commit_loop import CommitLoop, Conclude, Observer
from safetyd.journal.compaction import Compaction
from safetyd.journal.follow_loop import FollowLoop, Forward
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
    """The parts that store events. `observers` receive events once they are durable.

    A standby has a `FollowLoop`, no `compaction`, and `forward` for stops.
    """

    def __init__(  # noqa: PLR0913 - what it takes from, writes to and tells
        self,
        of: Resources,
        restored: Restored,
        *,
        conclude: Conclude,
        observers: Sequence[Observer],
        appended: Callable[[float, int], None],
        flush: Callable[[], None],
        forward: Forward,
    ) -> None:
        engine = restored.engine
        earlier = partial(newest_events, of.data_dir / "audit", MAX_EVENTS)
        self._transcripts = TranscriptFiles(of.data_dir)
        self.recent = RecentEvents(engine.seq, earlier)
        self.written = Written(engine.seq)
        own = (self.written.observe, self._transcripts.observe, self.recent.observe)
        self.compaction: Compaction | None = None
        if of.standby is not None:
            for observe in (*own, *observers):
                of.standby.observe_with(observe)
            self.loop: CommitLoop | FollowLoop = FollowLoop(
                of.mailbox, of.standby, of.clock, forward
            )
            return
        self.loop = loop = CommitLoop(
            of.mailbox,
            engine,
            of.journal,
            of.audit,
            of.clock,
            conclude=conclude,
            moved=moved,
            observers=(*own, *observers),
            appended=appended,
            flush=flush,
        )
        self.compaction = Compaction(
            loop, of.journal, of.audit, of.checkpoints, of.bucket, restored.checkpoint
        )

    async def save(self) -> Path | None:
        """Save a checkpoint, unless this daemon is a standby."""
        return None if self.compaction is None else await self.compaction.save()

    @property
    def checkpoint_problem(self) -> str:
        return "" if self.compaction is None else self.compaction.problem

    def run(self, tasks: anyio.abc.TaskGroup) -> None:
        tasks.start_soon(self.recent.refill)
        tasks.start_soon(self._transcripts.run)
        tasks.start_soon(self.loop.answer)
        if isinstance(self.loop, FollowLoop):
            tasks.start_soon(self.loop.run)
            return
        tasks.start_soon(self.loop.decide)
        tasks.start_soon(self.loop.commit)
        if self.compaction is not None:
            tasks.start_soon(self.compaction.run)
