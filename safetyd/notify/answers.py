"""Check and record answers that operators give on a channel."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from safetyd.core.approvals.assurance import Given, NotTaken, taken
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.events.request_events import Answered, Cancelled, Expired, Superseded
from safetyd.journal.mailbox import Carried

Outcome = Literal["approved", "denied", "held", "too_late", "elsewhere"]


def answer(
    state: EngineState,
    moment: Moment,
    request: Request,
    given: Given,
    waits: Callable[[Request], bool],
    *,
    may_approve: bool = True,
) -> Carried[Outcome]:
    """Return the events that record an answer, and its outcome.

    `may_approve` is True if the operator has seen everything that an approval covers.
    """
    ways, approves = state.approve_via(request), given.answer == "approved"
    answered = taken(request, given, moment, ways, waits=waits(request))
    if isinstance(answered, NotTaken):
        return Carried((), "elsewhere" if answered.code == "elsewhere" else "too_late")
    if approves and not may_approve:
        return Carried((), "elsewhere")
    seen = PersonSeen(at=moment.at, t=moment.t, by=given.by, how=given.via)
    held = approves and state.holds_back(request.asked, moment).decision != "allow"
    return Carried((seen, answered), "held" if held else given.answer)


def answer_all(
    state: EngineState,
    moment: Moment,
    requests: Sequence[Request],
    given: Given,
    waits: Callable[[Request], bool],
    *,
    may_approve: bool = True,
) -> Carried[Outcome]:
    """Return the events that record one answer to several requests. All are answered, or none."""
    done = [
        answer(state, moment, request, given, waits, may_approve=may_approve)
        for request in requests
    ]
    refused = [one for one in done if not one.events]
    if refused:
        return refused[0]
    seen, *_ = done[0].events
    answered = (event for one in done for event in one.events[1:])
    held = any(one.answer == "held" for one in done)
    return Carried((seen, *answered), "held" if held else given.answer)


def ended(events: Sequence[Event]) -> Iterator[tuple[str, str]]:
    """Yield each request that ended, and the channel of its answer (`cli`, `sms`, …), if any."""
    for event in events:
        match event:
            case Answered():
                yield event.request_id, event.via
            case Cancelled() | Superseded():
                yield event.request_id, ""
            case Expired():
                yield from ((request_id, "") for request_id in event.request_ids)
