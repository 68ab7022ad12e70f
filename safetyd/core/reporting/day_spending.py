"""Spending of the current UTC day in steps of a quarter of an hour, for operators."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.events.decision_events import Overdue, Settled
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import NameForgotten
from safetyd.core.guards.budget.budget import Budget

QUARTER_S: Final = 900


class DaySpendingState(msgspec.Struct):
    day: int = 0  # the day number of the budget
    # Total in nano-dollars at the end of each quarter of an hour, up to the last change.
    spent: list[int] = []


class DaySpending(Actor):
    """Stores at most 96 totals, and resets them when the budget's day ends at midnight UTC."""

    name = "spending"
    _state: DaySpendingState

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._state = DaySpendingState()
        self.hears = hearing(
            on(Settled, self._spent), on(Overdue, self._spent), on(NameForgotten, self._spent)
        )

    def series(self, at: datetime) -> Sequence[int]:
        """Return the total at the end of each quarter of an hour, and the current total last."""
        day, spent = self._budget.spent_today(at)
        known = self._state.spent if day == self._state.day else []
        return [*_filled(known, _quarter(at, day))[:-1], spent]

    def _spent(self, event: Event) -> None:
        """Record the budget's current total."""
        day, spent = self._budget.spent_today(event.at)
        state = self._state
        if day != state.day:
            state.day, state.spent = day, []
        if spent != (state.spent[-1] if state.spent else 0):
            quarter = _quarter(event.at, day)
            if quarter >= len(state.spent):
                state.spent = _filled(state.spent, quarter)
            state.spent[-1] = spent


def _quarter(at: datetime, day: int) -> int:
    """Return the index of the quarter of an hour, or 0 if the clock shows another day."""
    return (at.hour * 60 + at.minute) // 15 if at.toordinal() == day else 0


def _filled(spent: list[int], quarter: int) -> list[int]:
    """Extend the series to the given quarter by repeating its last value."""
    before = spent[-1] if spent else 0
    return spent + [before] * (quarter + 1 - len(spent))
