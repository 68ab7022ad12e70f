"""Counts over the last minute, in twelve slots of five seconds. The size is constant.

A ring covers the current slot and the eleven before it: 55 to 60 seconds. The owner of a ring also
stores its newest slot, the last one it was rolled to.
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
    """Return the sum over the slots that the ring covers at `slot`."""
    return sum(ring[known % SLOTS] for known in range(slot - SLOTS + 1, newest + 1))


def roll(ring: Ring, newest: int, slot: int) -> None:
    """Make `slot` the newest, and clear slots that are no longer covered."""
    for begun in range(max(newest, slot - SLOTS) + 1, slot + 1):
        ring[begun % SLOTS] = 0


def add(ring: Ring, slot: int, count: int) -> None:
    """Add to a slot that the ring covers."""
    ring[slot % SLOTS] += count
