"""A gapless feed of SafetyEvents, from memory and the audit files."""

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import anyio.to_thread

from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.journal.audit_reading import safety_events_after
from safetyd.monitoring.recent_events import Missed, RecentEvents

PAGE: Final = 200


async def safety_events(
    recent: RecentEvents, audit: Path, after: int
) -> AsyncIterator[Sequence[SafetyEvent]]:
    """Yield all SafetyEvents after event `after`, in order, forever.

    Events that are no longer in memory are read from the audit files, one page at a time, so a slow
    client misses nothing. Raises OSError if the files cannot be read.
    """
    subscription = recent.subscribe(after)
    while True:
        events, missed = subscription.take(PAGE)
        if missed is not None:
            async for page in _from_files(audit, missed):
                yield page
        if told := [event for event in events if isinstance(event, SafetyEvent)]:
            yield told
        await subscription.wait()


async def _from_files(audit: Path, missed: Missed) -> AsyncIterator[Sequence[SafetyEvent]]:
    found = safety_events_after(audit, missed.after, missed.until)
    while page := await anyio.to_thread.run_sync(_page, found):
        yield page


def _page(found: Iterator[SafetyEvent]) -> list[SafetyEvent]:
    return list(islice(found, PAGE))
