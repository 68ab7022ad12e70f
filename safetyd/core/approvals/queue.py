"""The queue: pending requests, and approvals that can still be used."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import zip_longest
from typing import Final

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Actor, hearing, on
from safetyd.core.approvals.pending_limits import passed
from safetyd.core.approvals.request import (
    DENIED_FOR,
    MAX_JOINED,
    UNPAUSE,
    Answer,
    ApprovalsConfig,
    KeptChange,
    Request,
    State,
    unpause,
)
from safetyd.core.approvals.request_index import RequestIndex
from safetyd.core.events.daemon_events import ClockStepped
from safetyd.core.events.decision_events import Asking, Decided, Proposed
from safetyd.core.events.event import Event, Ticked, steady, wall
from safetyd.core.events.guard_events import Paused, Unpaused
from safetyd.core.events.history_events import Committed
from safetyd.core.events.request_events import (
    Allowed,
    Answered,
    Approved,
    Cancelled,
    Claimed,
    Deferred,
    DenialLifted,
    Dropped,
    EscalationDenied,
    Expired,
    Lapsed,
    Released,
    Superseded,
)
from safetyd.core.messages.binding import no_dearer
from safetyd.core.messages.verdict import ALLOW, Verdict

MAX_PER_TICK: Final = 64


class Approvals(RequestIndex, Actor):
    """All requests. If a pending action is proposed again, the new proposal joins the request."""

    name = "approvals"

    def __init__(self, config: ApprovalsConfig) -> None:
        super().__init__()
        self._config = config
        self._valid = timedelta(minutes=config.approved_valid_minutes)
        self.hears = hearing(
            on(Decided, self._decided),
            on(Answered, self._answered),
            on(Released, self._released),
            on(Paused, self._paused),
            on(Unpaused, self._unpaused),
            on(Deferred, self._deferred),
            on(DenialLifted, self._lifted),
            on(Expired, self._expired),
            on(Cancelled, self._cancelled),
            on(Superseded, self._superseded),
            on(Claimed, self._claimed),
            on(Lapsed, self._lapsed),
            on(Committed, self._committed),
            on(ClockStepped, self._stepped),
            on(Ticked, self._due),
        )

    def full(self, proposed: Proposed) -> Verdict | None:
        """Return a block if a limit on pending requests is reached."""
        return passed(proposed, self, self._config)

    def usable(self, proposed: Proposed, kind: Kind, action: bytes) -> Request | None:
        """Return an approval that a proposal can use: the one it names, or one for its action."""
        named = proposed.proposal.request_id
        if named is None:
            found = self.same_action(proposed.agent, action)
        else:
            found = self._of_type(named, proposed.agent, kind)
        return next((one for one in found if _may_use(proposed, action, one)), None)

    def joinable(self, proposed: Proposed, action: bytes) -> Request | None:
        """Return the pending request that covers a proposal."""
        found = self.same_action(proposed.agent, action)
        return next((r for r in found if r.pending and r.covers(action, proposed)), None)

    def denied(self, proposed: Proposed, action: bytes) -> Request | None:
        """Return the denial of the same action within the last day, if any."""
        last = self.last_answers.get((proposed.agent, action))
        return last if last is not None and _denies(last, proposed) else None

    def _of_type(self, request_id: str, agent: str, kind: Kind) -> Iterator[Request]:
        request = self.find(request_id)
        if request is not None and (request.agent, request.asked.type) == (agent, kind.type):
            yield request

    def _decided(self, event: Decided) -> None:
        if event.asks is not None:
            self._ask(event, event.asks)
        elif event.uses is not None:
            self._use(event.uses.request_id, event)

    def _ask(self, event: Decided, asks: Asking) -> None:
        known = self.find(asks.request_id)
        if known is not None:
            self._join(event, asks, known)
            return
        request = Request(
            id=asks.request_id,
            asked=event,
            action=asks.action,
            urgency=asks.urgency,
            deadline=asks.deadline,
            rule=asks.rule,
            ends_t=None if asks.deadline is None else steady(asks.deadline, event),
        )
        self.name_proposal(request, event.id)
        self.put(request)

    def _join(self, event: Decided, asks: Asking, known: Request) -> None:
        joined = known.joined
        if len(joined) < MAX_JOINED:
            known = self.name_proposal(known, event.id)
            id_, known = _taken_over(known, event.id) if asks.takes_over else (event.id, known)
            joined = (*joined, id_)
        known = self._change(known, repeats=known.repeats + 1, joined=joined)
        if asks.deadline is not None and asks.deadline != known.deadline:
            ends_t = steady(asks.deadline, event)
            self._change(known, deadline=asks.deadline, ends_t=ends_t, rule=asks.rule)

    def _use(self, request_id: str, event: Decided) -> None:
        request = self.find(request_id)
        if request is not None and request.unused:
            request = self.name_proposal(request, event.id)
            self._change(request, used=event.id, used_digest=event.digest)

    def _change(self, request: Request, **fields: object) -> Request:
        changed = msgspec.structs.replace(request, **fields)
        self.put(changed)
        return changed

    def _answered(self, event: Answered) -> Sequence[Event]:
        request = self.find(event.request_id)
        if request is None or not request.pending:
            return ()
        answer = Answer(by=event.by, via=event.via, at=event.at, words=event.words)
        if event.answer == "approved":
            until = event.at + self._valid
            ends = {"valid_until": until, "ends_t": steady(until, event)}
            request = self._change(request, state="approved", answer=answer, **ends)
            return self._approved(event, request)
        request = self._change(request, state="denied", answer=answer, once=event.once)
        return (_dropped(event, request), *_not_approved(event, request))

    def _approved(self, event: Answered, request: Request) -> Sequence[Event]:
        caused: list[Event] = []
        if source := request.pauses:
            caused.append(_unpaused(event, request, source))
        if request.own:
            self._change(request, used=request.asked.id)
        else:
            caused.append(
                Approved(
                    at=event.at,
                    t=event.t,
                    request_id=request.id,
                    waits=event.waits,
                    moved=event.moved,
                )
            )
        return caused

    def _paused(self, event: Paused) -> None:
        """If an anomaly caused the pause, request approval to end it."""
        if event.source != "anomaly":
            return
        request = unpause(event)
        known = next(self.same_action(event.agent, request.action), None)
        if known is not None:
            self._change(known, repeats=known.repeats + 1)
            return
        self.put(request)

    def _unpaused(self, event: Unpaused) -> Sequence[Event]:
        """Cancel the request to end a pause when the pause has ended."""
        request = next(self.same_action(event.agent, UNPAUSE.encode()), None)
        if request is None or "anomaly" not in event.sources:
            return ()
        return (
            Cancelled(
                at=event.at,
                t=event.t,
                request_id=request.id,
                by=event.by,
                via="unpause",
                reason=event.reason,
            ),
        )

    def _released(self, event: Released) -> Sequence[Event]:
        """Use the approval for the waiting agent, or leave it for the next proposal."""
        request = self.find(event.request_id)
        if request is None or not request.unused:
            return ()
        # A permission is used by a later proposal that names it, not by the waiting request.
        if event.verdicts or not event.waits or request.asked.permission:
            return (_dropped(event, request),)
        self._change(request, used=request.asked.id)
        return (_dropped(event, request), _allowed(event, request))

    def _deferred(self, event: Deferred) -> None:
        request = self.find(event.request_id)
        if request is None or not request.pending:
            return
        before = request.until or event.at
        deadline, ends_t = request.deadline, request.ends_t
        if deadline is not None and event.until > before:
            longer = event.until - before
            deadline += longer
            ends_t = None if ends_t is None else ends_t + longer.total_seconds()
        self._change(request, deadline=deadline, ends_t=ends_t, until=event.until)

    def _lifted(self, event: DenialLifted) -> None:
        request = self.find(event.request_id)
        if request is not None and request.state == "denied":
            self._change(request, once=True)

    def _expired(self, event: Expired) -> Sequence[Event]:
        caused: list[Event] = []
        for id_, reason in zip_longest(event.request_ids, event.reasons, fillvalue=""):
            answer = Answer(by="safetyd", via="time", at=event.at, words=reason)
            caused += self._end(event, id_, "expired", answer)
        return caused

    def _cancelled(self, event: Cancelled) -> Sequence[Event]:
        answer = Answer(by=event.by, via=event.via, at=event.at, words=event.reason)
        return self._end(event, event.request_id, "cancelled", answer)

    def _superseded(self, event: Superseded) -> Sequence[Event]:
        answer = Answer(by=event.agent, via="bus", at=event.at, words=event.by_id)
        return self._end(event, event.request_id, "superseded", answer)

    def _claimed(self, event: Claimed) -> Sequence[Event]:
        request = self.find(event.request_id)
        if request is None or request.claimant is not None:
            return ()
        request = self._change(request, claimant=event.claimant)
        if not request.unused:
            return ()
        self._change(request, used=event.id)
        return (_allowed(event, request),)

    def _lapsed(self, event: Lapsed) -> None:
        for id_ in event.request_ids:
            request = self.find(id_)
            if request is not None and request.unused:
                self._change(request, lapsed=True)

    def _committed(self, event: Committed) -> None:
        """Record the commit of an approved action."""
        if event.why != "after" or not event.commit:
            return
        request = self.of_proposal(event.agent, event.id)
        if request is not None and request.used == event.id:
            self._change(request, change=KeptChange(event.project, event.commit))

    def _stepped(self, event: ClockStepped) -> None:
        """Keep deadlines from moving later after the wall clock was set back."""
        for request in self.ending():
            before, ends_t = request.ends, request.ends_t
            if before is not None and ends_t is not None and wall(ends_t, event) < before:
                field = "deadline" if request.pending else "valid_until"
                self._change(request, **{field: wall(ends_t, event)})

    def _end(self, cause: Event, id_: str, state: State, answer: Answer) -> Sequence[Event]:
        request = self.find(id_)
        if request is None or not request.pending:
            return ()
        request = self._change(request, state=state, answer=answer)
        return (_dropped(cause, request), *_not_approved(cause, request))

    def _expiry(self, tick: Ticked, expired: Sequence[str]) -> Expired:
        found = map(self.find, expired)
        closed = [request for request in found if request is not None]
        return Expired(
            at=tick.at,
            t=tick.t,
            request_ids=tuple(expired),
            reasons=tuple(request.closing for request in closed),
            agents=tuple(request.agent for request in closed),
        )

    def _due(self, tick: Ticked) -> Sequence[Event]:
        """Return events for the requests and approvals that expired."""
        expired, lapsed = self.due(tick.at, MAX_PER_TICK)
        events: list[Event] = []
        if expired:
            events.append(self._expiry(tick, expired))
        if lapsed:
            events.append(Lapsed(at=tick.at, t=tick.t, request_ids=tuple(lapsed)))
        return events


def _taken_over(request: Request, id_: str) -> tuple[str, Request]:
    """Return the previous proposal id, and the request with a new proposal of the same content."""
    asked = request.asked
    proposal = msgspec.structs.replace(asked.proposal, id=id_)
    return asked.id, msgspec.structs.replace(
        request,
        asked=msgspec.structs.replace(asked, proposal=proposal),
        opened=request.opened or asked.id,
    )


def _may_use(proposed: Proposed, action: bytes, request: Request) -> bool:
    in_time = request.valid_until is not None and not request.over(proposed.at, proposed.t)
    # An anonymous agent does not inherit the approvals of a name whose key was revoked.
    same = request.asked.keyless or not proposed.keyless
    return request.unused and in_time and same and request.covers(action, proposed)


def _denies(request: Request, proposed: Proposed) -> bool:
    """Return whether a denial covers a proposal. It does not cover one that costs less."""
    until, asked = request.denied_until, request.asked
    if until is None or not until - 2 * DENIED_FOR < proposed.at < until:
        return False
    same = asked.keyless == proposed.keyless
    return same and no_dearer(proposed.proposal, asked.proposal)


def _allowed(cause: Event, request: Request) -> Allowed:
    decided = msgspec.structs.replace(
        request.asked, at=cause.at, t=cause.t, decision=ALLOW, verdicts=(), asks=None
    )
    return Allowed(at=cause.at, t=cause.t, decided=decided)


def _unpaused(cause: Answered, request: Request, source: str) -> Unpaused:
    return Unpaused(
        at=cause.at,
        t=cause.t,
        agent=request.agent,
        sources=(source,),
        by=cause.by,
        reason=cause.words,
        approved=True,
    )


def _not_approved(cause: Event, request: Request) -> Iterator[EscalationDenied]:
    """Yield an event if a request ended without an approval."""
    if request.state in {"denied", "expired"}:
        yield EscalationDenied(
            at=cause.at,
            t=cause.t,
            agent=request.agent,
            request_id=request.id,
            source=request.pauses,
            why=request.state,
        )


def _dropped(cause: Event, request: Request) -> Dropped:
    id_ = request.opened or request.asked.id
    return Dropped(at=cause.at, t=cause.t, agent=request.agent, id=id_)
