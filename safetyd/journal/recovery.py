"""Rebuilds the engine from checkpoint and journal, and completes the audit file."""

import logging
from collections.abc import Sequence
from contextlib import aclosing

import msgspec

from safetyd import __version__
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import decode_batch
from safetyd.core.events.event import Event
from safetyd.core.policy import Policy
from safetyd.journal.audit import Audit
from safetyd.journal.checkpoints import Checkpoints, SavedCheckpoint
from safetyd.journal.journals import LOST, Journal

log = logging.getLogger("safetyd.journal")


class JournalLost(Exception):
    """The journal does not have the events that a checkpoint or the audit file continues with."""


class UnknownEvent(Exception):
    """A batch contains an event that this version does not know."""


class Restored(msgspec.Struct):
    """The rebuilt engine, and what it was rebuilt from."""

    engine: Engine
    checkpoint: SavedCheckpoint | None
    replayed: int
    t: float

    def replay(self, sequence: int, batch: bytes) -> list[Event]:
        """Apply a batch of the journal to the engine, and return its events."""
        if not batch:
            return []  # a heartbeat
        try:
            events = decode_batch(batch)
        except msgspec.ValidationError as exc:
            raise UnknownEvent(
                f"batch {sequence} of the journal has an event that safetyd {__version__} does not "
                f"know ({exc}): a newer version wrote it"
            ) from exc
        check_follows(self.engine.seq, sequence, events)
        self.engine.replay(events)
        self.replayed += len(events)
        self.t = events[-1].t
        return events


def check_follows(seq: int, sequence: int, events: Sequence[Event]) -> None:
    """Raise `JournalLost` if a batch does not begin with the event after `seq`."""
    if events[0].seq != seq + 1:
        raise JournalLost(
            f"batch {sequence} of the journal begins with event {events[0].seq}, but event "
            f"{seq + 1} must follow: {LOST}"
        )


async def load(
    policy: Policy, checkpoints: Checkpoints, journal: Journal, audit: Audit
) -> tuple[Restored, int]:
    """Load the newest checkpoint. Return also after which batch it was saved."""
    saved = _newest(checkpoints)
    engine = Engine(policy) if saved is None else Engine.restore(saved.engine)
    after = 0 if saved is None else saved.stream_seq
    if after > journal.last:
        raise JournalLost(
            f"a checkpoint was taken at batch {after}, but the journal ends with batch "
            f"{journal.last}: {LOST}"
        )
    if audit.seq < engine.seq:
        await _mirror(journal, audit, engine.seq, checkpoints)
    return Restored(engine, saved, 0, 0.0 if saved is None else saved.t), after


async def restore(
    policy: Policy, checkpoints: Checkpoints, journal: Journal, audit: Audit
) -> Restored:
    """Rebuild the engine, and complete the audit file, from checkpoint and journal."""
    restored, after = await load(policy, checkpoints, journal, audit)
    async for sequence, batch in journal.replay(after):
        append_missing(audit, batch, restored.replay(sequence, batch))
    check_audit(restored, audit)
    return restored


def check_audit(restored: Restored, audit: Audit) -> None:
    """Raise `JournalLost` if the audit file has more events than the journal."""
    if audit.seq > restored.engine.seq:
        raise JournalLost(
            f"the audit file ends with event {audit.seq}, but the journal ends with event "
            f"{restored.engine.seq}: {LOST}"
        )


def _newest(checkpoints: Checkpoints) -> SavedCheckpoint | None:
    for saved in checkpoints.load():
        if isinstance(saved, SavedCheckpoint):
            return saved
        log.error("skipping a damaged checkpoint; using the previous one: %s", saved)
    return None


async def _mirror(journal: Journal, audit: Audit, up_to: int, checkpoints: Checkpoints) -> None:
    """Append missing events up to the checkpoint (`up_to`) to the audit file.

    The journal may be trimmed, and begin with the event after an older checkpoint or after this
    one. From there on, every event must follow the one before it.
    """
    read = 0
    async with aclosing(journal.replay(max(0, await journal.first() - 1))) as batches:
        async for sequence, batch in batches:
            if not batch:
                continue  # a heartbeat
            events = decode_batch(batch)
            if read:
                check_follows(read, sequence, events)
            elif events[0].seq > up_to:
                break
            elif audit.seq + 1 < events[0].seq:
                _skip(audit, events[0].seq - 1, checkpoints)
            read = events[-1].seq
            append_missing(audit, batch, events)
            if audit.seq >= up_to:
                return
    if read:
        raise JournalLost(
            f"the journal ends with event {read}, but a checkpoint with event {up_to}: {LOST}"
        )
    _skip(audit, up_to, checkpoints)


def _skip(audit: Audit, seq: int, checkpoints: Checkpoints) -> None:
    """Continue the audit file after events that only another daemon's files have.

    If a checkpoint was saved at `seq` or soon after, the file continues there, because the
    checkpoint has the hash of that event.
    """
    heads = {
        saved.engine.seq: saved.audit_head
        for saved in checkpoints.load()
        if isinstance(saved, SavedCheckpoint) and saved.audit_head and saved.engine.seq >= seq
    }
    to = min(heads, default=seq)
    log.warning("events %d to %d are only in another daemon's audit files", audit.seq + 1, to)
    audit.skip_to(to, heads.get(to, ""))


def append_missing(audit: Audit, batch: bytes, events: list[Event]) -> None:
    """Append the lines of a batch that the audit file does not have yet."""
    if not events:
        return
    lines = batch.split(b"\n")
    missing = [line for line, event in zip(lines, events, strict=True) if event.seq > audit.seq]
    if missing:
        audit.append(missing, events[-1].seq)
