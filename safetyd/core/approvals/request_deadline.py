"""When a request is closed if nobody answers, and by which rule."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from safetyd.core.action_types import Kind
from safetyd.core.events.decision_events import DeadlineRule
from safetyd.core.messages.proposal import Proposal
from safetyd.core.recipients import QuietHours, all_quiet
from safetyd.core.text.time_words import exact

Minutes = Annotated[float, Meta(ge=0, le=525_600)]

MAX_ASKED_S: Final = 30 * 86_400.0
# The same for actions that may be irreversible, and for requests that their agent renews.
MAX_RISKY_S: Final = 7 * 86_400.0
URGENT_SHARE: Final = 4  # an urgent request has this part of the time of others

_UNDOABLE: Final = frozenset({"read_only", "reversible"})
_WHY: Final[dict[DeadlineRule, str]] = {
    "stated": "the time that the agent stated (timeout_s)",
    "waiting": "the time for an agent that waits (approvals.timeout_minutes)",
    "queued": (
        "the time for an agent that does not wait (approvals.queued_timeout_minutes, and the quiet "
        "hours of one night)"
    ),
    "urgent": (
        "the time for an urgent request of an agent that does not wait (a quarter of "
        "approvals.queued_timeout_minutes, and the quiet hours of one night)"
    ),
    "longest": "the longest time for such an action",
    "renewed": "the longest time for a request that its agent renews",
}


class RequestDeadline(NamedTuple):
    at: datetime
    rule: DeadlineRule


class DeadlineTerms(NamedTuple):
    """The configured times in minutes. 0 means the longest time."""

    waiting: float
    queued: float


def deadline_of(
    proposal: Proposal,
    kind: Kind,
    at: datetime,
    terms: DeadlineTerms,
    quiet: Sequence[QuietHours] = (),
    *,
    waits: bool,
) -> RequestDeadline:
    """Return the deadline of a request: the agent's own timeout, else the configured one.

    If the agent does not wait, the first time at which everybody in `quiet` has quiet hours does
    not count. A timeout of 0 means the longest time.
    """
    longest_s = MAX_ASKED_S if kind.reversibility in _UNDOABLE else MAX_RISKY_S
    rule: DeadlineRule
    if proposal.timeout_s is not None:
        rule, seconds = "stated", max(proposal.timeout_s, 1.0) if proposal.timeout_s else 0.0
    elif waits:
        rule, seconds = "waiting", terms.waiting * 60
    else:
        urgent = proposal.urgency == "high"
        rule = "urgent" if urgent else "queued"
        seconds = (_urgent(terms) if urgent else terms.queued) * 60
    if not seconds or (seconds > longest_s and rule == "stated"):
        return RequestDeadline(at + timedelta(seconds=longest_s), "longest")
    until = at + timedelta(seconds=seconds)
    night = all_quiet(quiet, at, until) if rule in {"queued", "urgent"} else None
    return RequestDeadline(until if night is None else until + (night[1] - night[0]), rule)


def renewed(asked_at: datetime, known: RequestDeadline, wished: RequestDeadline) -> RequestDeadline:
    """Return the deadline of a pending request whose action was proposed again.

    It never becomes earlier, and by renewals not later than a week after the first proposal.
    """
    latest = asked_at + timedelta(seconds=MAX_RISKY_S)
    found = wished if wished.at <= latest else RequestDeadline(latest, "renewed")
    return found if found.at > known.at else known


def closing(rule: DeadlineRule, seconds: float, *, deferred: bool) -> str:
    """Return why a request was closed that nobody answered, and how to ask again."""
    if not rule:
        return "nobody answered in time"
    also = ", which an operator extended" if deferred else ""
    return (
        f"nobody answered within {exact(seconds)}, {_WHY[rule]}{also}. "
        "To ask again, propose the same action again"
    )


def _urgent(terms: DeadlineTerms) -> float:
    """Return the minutes for an urgent request: not less than an agent would wait for it."""
    return max(terms.queued / URGENT_SHARE, min(terms.waiting or terms.queued, terms.queued))
