"""Escalation: what happens to a request that nobody answers.

    low, normal   the next channel of each person, if they do not open the request; a last call
                  before the deadline. Reminders are sent in rounds.
    high          the next channel after 5 minutes; if the agent waits or has marked the request as
                  urgent, reminders after 15 and 60 minutes, which the backup receives as well

A step within two minutes of the deadline, or of the step before it, is skipped. Steps of several
requests that are planned close together take place together.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.core.messages.proposal import Urgency

APART: Final = timedelta(minutes=2)
LAST_CALL: Final = timedelta(hours=1)  # before the deadline
# A person is not notified again of a request that is not urgent within this time.
REPEATED: Final = timedelta(hours=4)

TOGETHER: Final = timedelta(hours=1)
TOGETHER_URGENT: Final = timedelta(minutes=5)
_URGENT: Final = tuple(timedelta(minutes=minutes) for minutes in (15, 60))


class EscalationStep(msgspec.Struct, frozen=True, gc=False, array_like=True):
    at: datetime
    kind: Literal["reminder", "last_call"] = "reminder"
    backup: bool = False  # also notify the recipients' backups
    next_channel: bool = False  # notify people on their next channel


class Unanswered(NamedTuple):
    """A pending request, and after which times next channels follow."""

    urgency: Urgency
    asked: datetime
    deadline: datetime | None
    next_channel: Sequence[timedelta]  # in order
    pressing: bool = True  # its agent waits, or has marked it as urgent


def next_step(request: Unanswered, after: datetime) -> EscalationStep | None:
    """Return the next step. `after` is the time of the last step or, if none, of the request."""
    earliest = after + APART
    latest = request.deadline and request.deadline - APART
    fitting = (
        step
        for step in _steps(request)
        if step.at >= earliest and (latest is None or step.at <= latest)
    )
    return min(fitting, key=_at, default=None)


def steps(request: Unanswered) -> Iterator[EscalationStep]:
    """Yield the steps that take place."""
    after = request.asked
    while (step := next_step(request, after)) is not None:
        yield step
        after = step.at


def _steps(request: Unanswered) -> Iterator[EscalationStep]:
    asked, deadline = request.asked, request.deadline
    for wait in request.next_channel:
        yield EscalationStep(asked + wait, next_channel=True)
    if request.urgency == "high" and request.pressing:
        first = max(request.next_channel, default=timedelta())
        yield from (EscalationStep(asked + wait, backup=True) for wait in _URGENT if wait > first)
    elif deadline is not None and deadline - asked >= LAST_CALL + REPEATED:
        yield EscalationStep(deadline - LAST_CALL, "last_call")


def _at(step: EscalationStep) -> datetime:
    return step.at
