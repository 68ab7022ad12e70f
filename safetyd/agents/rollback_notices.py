"""Tells agents that files were put back: what they remember of them may be wrong."""

from collections.abc import Sequence
from typing import Final

from safetyd.bus.publisher import Publisher
from safetyd.bus.subjects import Subjects
from safetyd.core.events.event import Event
from safetyd.core.events.history_events import RolledBack
from safetyd.core.version_history import notice

SUBJECT: Final = ("state", "rollback")  # agents hear what is below `state`, and no events


class RollbackNotices:
    def __init__(self, publisher: Publisher, subjects: Subjects) -> None:
        self._publisher = publisher
        self._subject = subjects.of(*SUBJECT)

    def observe(self, events: Sequence[Event]) -> None:
        """Tell of rollbacks that were written down."""
        for event in events:
            if isinstance(event, RolledBack):
                self._publisher.tell(self._subject, notice(event))
