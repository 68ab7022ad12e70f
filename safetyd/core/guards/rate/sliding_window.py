"""Counts of the last minute in twelve slots of five seconds: the same size whatever happens.

A ring covers the slot that has begun and the eleven before it, which is 55 to 60 seconds. Who keeps
a ring also knows its newest slot, the last that it was rolled to.
"""

from typing import Final

SLOTS: Final = 12
SLOT_S: Final = 5.0

Ring = list[int]


def empty() -> Ring:
    return [0] * SLOTS


def slot_at(t: float) -> int:
    return int(t // SLOT_S)


def total(ring: Ring, newest: int, slot: int) -> int:
    """Return the sum of what the ring covers at `slot`."""
    return sum(ring[known % SLOTS] for known in range(slot - SLOTS + 1, newest + 1))


def roll(ring: Ring, newest: int, slot: int) -> None:
    """Make `slot` the newest, and forget what is no longer covered."""
    for begun in range(max(newest, slot - SLOTS) + 1, slot + 1):
        ring[begun % SLOTS] = 0


def add(ring: Ring, slot: int, count: int) -> None:
    """Count in a slot that the ring covers."""
    ring[slot % SLOTS] += count
