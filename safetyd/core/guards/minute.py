"""Counts of the last minute in twelve slots of five seconds: the same size whatever happens.

A ring of counts is a bytearray, so that thousands of them stay small. It covers the slot that has
begun and the eleven before it, which is 55 to 60 seconds. Who keeps a ring also knows its newest
slot, the last that it was rolled to.
"""

from typing import Final

SLOTS: Final = 12
SLOT_S: Final = 5.0
_COUNT: Final = "i"
_COUNT_BYTES: Final = 4


def empty() -> bytearray:
    return bytearray(SLOTS * _COUNT_BYTES)


def slot_at(t: float) -> int:
    return int(t // SLOT_S)


def total(ring: bytearray, newest: int, slot: int) -> int:
    """Return the sum of what the ring covers at `slot`."""
    counts = memoryview(ring).cast(_COUNT)
    return sum(counts[known % SLOTS] for known in range(slot - SLOTS + 1, newest + 1))


def roll(ring: bytearray, newest: int, slot: int) -> None:
    """Make `slot` the newest, and forget what is no longer covered."""
    counts = memoryview(ring).cast(_COUNT)
    for begun in range(max(newest, slot - SLOTS) + 1, slot + 1):
        counts[begun % SLOTS] = 0


def add(ring: bytearray, slot: int, count: int) -> None:
    """Count in a slot that the ring covers."""
    memoryview(ring).cast(_COUNT)[slot % SLOTS] += count
