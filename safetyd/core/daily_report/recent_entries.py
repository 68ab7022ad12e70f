"""A dictionary whose entries expire after a fixed time.

With it, the report of a day does not depend on how many earlier days were read.
"""

from datetime import datetime, timedelta
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentEntries(Generic[K, V]):
    """Values by key, oldest first. Each expires `kept_for` after it was added."""

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
        """Remove expired entries. Remove none while the clock is set back."""
        entries = self._entries
        while entries:
            key = next(iter(entries))
            if at - entries[key][0] <= self._kept_for:
                return
            del entries[key]
