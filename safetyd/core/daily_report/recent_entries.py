"""What is remembered for so long and no longer, whenever whoever reads has begun.

So the report of a day is the same, whether it was read alone or with days before it.
"""

from datetime import datetime, timedelta
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentEntries(Generic[K, V]):
    """Values by their keys, oldest first; each is forgotten so long after it was put."""

    def __init__(self, kept_for: timedelta) -> None:
        self._kept_for = kept_for
        self._entries: dict[K, tuple[datetime, V]] = {}

    def put(self, key: K, value: V, at: datetime) -> None:
        self._forget(at)
        self._entries.pop(key, None)
        self._entries[key] = at, value

    def find(self, key: K, at: datetime) -> V | None:
        found = self._entries.get(key)
        return None if found is None or at - found[0] > self._kept_for else found[1]

    def pop(self, key: K, at: datetime) -> V | None:
        found = self.find(key, at)
        self._entries.pop(key, None)
        return found

    def count(self, at: datetime) -> int:
        self._forget(at)
        return len(self._entries)

    def oldest(self, at: datetime) -> V | None:
        self._forget(at)
        return next((value for _, value in self._entries.values()), None)

    def _forget(self, at: datetime) -> None:
        """Let go of the oldest; while the clock is put back, of none."""
        entries = self._entries
        while entries:
            key = next(iter(entries))
            if at - entries[key][0] <= self._kept_for:
                return
            del entries[key]
