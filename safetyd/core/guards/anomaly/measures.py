"""The numbers that detectors compare, to be shown and drawn."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

MAX_VALUES: Final = 100  # of one series
_DIGITS: Final = 9  # after the point: whole nano-dollars

Unit = Literal[
    "times", "actions", "outcomes", "rounds", "usd", "files", "ratio", "s", "tokens", "h"
]


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """One number that a detector watches: how it is now, what is usual, and how far it may go.

    `values` are what came before, oldest first, and `ages_s` how long ago each was; a series whose
    times are not kept has none.
    """

    detector: str
    unit: Unit
    now: float
    most: float | None = None  # more than this is unusual; null: not enough is known yet
    least: float | None = None  # and less than this
    usual: float | None = None  # the mean
    deviation: float | None = None  # from it, as a rule
    agent: str | None = None
    model: str | None = None  # that it is about; "": calls that named none
    breaker: str | None = None
    values: tuple[float, ...] = ()
    ages_s: tuple[float, ...] = ()


def values(numbers: Sequence[float]) -> tuple[float, ...]:
    """Return the newest of a series, as they are shown."""
    return tuple(round(number, _DIGITS) for number in numbers[-MAX_VALUES:])


def ages(times: Iterable[float], t: float) -> tuple[float, ...]:
    return tuple(round(t - time, 1) for time in times)
