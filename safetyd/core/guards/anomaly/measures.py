"""The numbers that detectors compare, for tables and charts."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

MAX_VALUES: Final = 100  # of one series
_DIGITS: Final = 9  # number of decimals; with 9, dollar amounts are exact to the nano-dollar

Unit = Literal[
    "times", "actions", "outcomes", "rounds", "usd", "files", "ratio", "s", "tokens", "h"
]


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """A number that a detector watches: its current value, the usual value and the limits.

    `values` are earlier values, oldest first. `ages_s` are their ages, if times are recorded.
    """

    detector: str
    unit: Unit
    now: float
    # Values above this are unusual; null if there are not enough samples.
    most: float | None = None
    least: float | None = None  # Values below this are unusual.
    usual: float | None = None  # the mean
    deviation: float | None = None  # standard deviation
    agent: str | None = None
    model: str | None = None  # The model; empty for calls without a model.
    breaker: str | None = None
    values: tuple[float, ...] = ()
    ages_s: tuple[float, ...] = ()


def values(numbers: Sequence[float]) -> tuple[float, ...]:
    """Return the newest values of a series, rounded."""
    return tuple(round(number, _DIGITS) for number in numbers[-MAX_VALUES:])


def ages(times: Iterable[float], t: float) -> tuple[float, ...]:
    return tuple(round(t - time, 1) for time in times)
