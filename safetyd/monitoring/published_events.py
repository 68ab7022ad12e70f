"""Publishes SafetyEvents and rollbacks on the bus."""

from collections.abc import Sequence

import msgspec

from safetyd.bus.publisher import Publisher
from safetyd.bus.subjects import Subjects
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.event import Event
from safetyd.core.events.history_events import RolledBack
from safetyd.core.file_commits import notice


class PublishedEvents:
    """Publishes durable events."""

    def __init__(self, publisher: Publisher, subjects: Subjects) -> None:
        self._publisher = publisher
        self._subjects = subjects

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if type(event) is SafetyEvent:
                subject = self._subjects.of("event", event.event_type)
                self._publisher.tell(subject, published(event))
            elif type(event) is RolledBack:
                # Agents may subscribe to `state`, but not to events.
                self._publisher.tell(self._subjects.of("state", "rollback"), notice(event))


def published(event: SafetyEvent) -> dict[str, object]:
    """Return the fields of a SafetyEvent that are published."""
    fields = msgspec.structs.asdict(event)
    return {key: value for key, value in fields.items() if key not in {"seq", "at", "t"}}
