"""Escalation: the reminders about a request that nobody answers.

    low      a reminder after half the time to the deadline
    normal   reminders after 15 minutes, 1 hour, 4 hours, then every morning at 08:00Z; a last call
             before the deadline
    high     reminders after 5, 15, 30, 60 and 90 minutes; the backup is notified as well, starting
             with the second reminder

A step within two minutes of the deadline, or of the step before it, is skipped.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from safetyd.core.messages.proposal import Urgency

APART: Final = timedelta(minutes=2)

_DAY: Final = timedelta(days=1)
_HALF_A_DAY: Final = timedelta(hours=12)
_MORNING_HOUR: Final = 8  # UTC
_REMINDERS: Final = (timedelta(minutes=15), timedelta(hours=1), timedelta(hours=4))
_URGENT: Final = tuple(timedelta(minutes=minutes) for minutes in (5, 15, 30, 60, 90))
_LAST_CALL: Final = timedelta(minutes=10)
_EARLY_LAST_CALL: Final = timedelta(
    hours=1
)  # used if the deadline is more than a day after the request


class EscalationStep(msgspec.Struct, frozen=True, gc=False, array_like=True):
    at: datetime
    kind: Literal["reminder", "last_call"] = "reminder"
    backup: bool = False  # also notify the recipients' backups


def next_step(
    urgency: Urgency, asked: datetime, deadline: datetime | None, after: datetime
) -> EscalationStep | None:
    """Return the next step. `after` is the time of the last step or, if none, of the request."""
    earliest = after + APART
    match urgency:
        case "low":
            step = _low(asked, deadline, earliest)
        case "normal":
            step = _normal(asked, deadline, earliest)
        case _:
            step = _high(asked, earliest)
    late = step is not None and deadline is not None and step.at > deadline - APART
    return None if late else step


def steps(urgency: Urgency, asked: datetime, deadline: datetime | None) -> Iterator[EscalationStep]:
    """Yield all steps. Without a deadline there may be infinitely many."""
    after = asked
    while (step := next_step(urgency, asked, deadline, after)) is not None:
        yield step
        after = step.at


def _low(asked: datetime, deadline: datetime | None, earliest: datetime) -> EscalationStep | None:
    if deadline is None:
        return None
    half = asked + (deadline - asked) / 2
    return EscalationStep(half) if half >= earliest else None


def _normal(
    asked: datetime, deadline: datetime | None, earliest: datetime
) -> EscalationStep | None:
    reminder = _reminder(asked, earliest)
    if deadline is None:
        return EscalationStep(reminder)
    early = deadline - asked > _DAY
    last_call = deadline - (_EARLY_LAST_CALL if early else _LAST_CALL)
    if reminder < last_call:
        return EscalationStep(reminder)
    return EscalationStep(last_call, "last_call") if last_call >= earliest else None


def _reminder(asked: datetime, earliest: datetime) -> datetime:
    for wait in _REMINDERS:
        if asked + wait >= earliest:
            return asked + wait
    return _next_morning(max(earliest, asked + _REMINDERS[-1] + _HALF_A_DAY))


def _next_morning(earliest: datetime) -> datetime:
    """Return the next morning. All requests use the same time, so reminders share a message."""
    morning = earliest.replace(hour=_MORNING_HOUR, minute=0, second=0, microsecond=0)
    return morning if morning >= earliest else morning + _DAY


def _high(asked: datetime, earliest: datetime) -> EscalationStep | None:
    for wait in _URGENT:
        if asked + wait >= earliest:
            return EscalationStep(asked + wait, backup=wait > _URGENT[0])
    return None
