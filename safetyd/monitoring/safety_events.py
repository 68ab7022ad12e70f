"""SafetyEvents on the bus, for people, logs and dashboards."""

from collections.abc import Sequence

import msgspec

from safetyd.bus.publisher import Publisher
from safetyd.bus.subjects import Subjects
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.event import Event


class SafetyEvents:
    """An outlet of the journal: what is told was written down before."""

    def __init__(self, publisher: Publisher, subjects: Subjects) -> None:
        self._publisher = publisher
        self._subjects = subjects

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if type(event) is SafetyEvent:
                self._publisher.tell(self._subjects.of("event", event.event_type), told(event))


def told(event: SafetyEvent) -> dict[str, object]:
    """Return a SafetyEvent with exactly the fields of the contract."""
    fields = msgspec.structs.asdict(event)
    return {key: value for key, value in fields.items() if key not in {"seq", "at", "t"}}
