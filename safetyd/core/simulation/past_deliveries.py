"""Messages of the record and of a simulation, and what channels made of them."""

from safetyd.core.events.notification_events import Due


class PastDeliveries:
    """Which message of a simulation stands for which of the record.

    Those that are due at the same time to the same recipient on the same channel do.
    """

    def __init__(self) -> None:
        self._unmatched: list[Due] = []
        self._standing: dict[str, str] = {}  # recorded id -> simulated id; empty: none

    def made(self, event: Due) -> None:
        """Take note of a message that a simulation makes."""
        self._unmatched.append(event)

    def was_due(self, event: Due) -> None:
        """Take note of a message of the record, right after what brought it about."""
        where = event.recipient, event.channel
        found = next((d for d in self._unmatched if (d.recipient, d.channel) == where), None)
        self._standing[event.delivery] = "" if found is None else found.delivery
        if found is not None:
            self._unmatched.remove(found)

    @property
    def pending(self) -> bool:
        """Whether a message was made that the record has not shown."""
        return bool(self._unmatched)

    def unmatched(self) -> list[Due]:
        """Return the messages that the record does not have, each once."""
        found, self._unmatched = self._unmatched, []
        return found

    def find(self, recorded: str) -> str:
        """Return the message that stands for one of the record, or nothing."""
        return self._standing.get(recorded, recorded)  # from before the simulation: itself
