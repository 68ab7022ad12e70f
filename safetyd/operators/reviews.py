"""Applies answers to one or several requests: approve, deny, defer or cancel.

The first answer counts. The result of a later answer says who answered, when and how.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from safetyd.clock import uptime
from safetyd.core.approvals.assurance import Given, NotTaken, ended, taken
from safetyd.core.approvals.request import Request
from safetyd.core.approvals.request_deadline import MAX_ASKED_S
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.events.request_events import Cancelled, Deferred, DenialLifted, Granted
from safetyd.core.messages.verdict import strictest
from safetyd.journal.mailbox import FAILED, Effects, Envelope
from safetyd.operators.contract.request_contract import (
    ApproveCommand,
    CancelCommand,
    DeferCommand,
    DenyCommand,
    RefusalCode,
    ReviewDone,
    ReviewResult,
)
from safetyd.operators.grant_commands import from_request
from safetyd.operators.request_names import unnamed

_LONGEST: Final = timedelta(seconds=MAX_ASKED_S)  # the longest time a request can be deferred


log = logging.getLogger("safetyd.operators")


ReviewCommand = ApproveCommand | DenyCommand | DeferCommand | CancelCommand


class Review:
    """An operator's answers to several requests. The reply is sent when all are durable.

    Each request has its own envelope, so that not all of them have to fit into one batch.
    """

    def __init__(
        self,
        by: str,
        command: ReviewCommand,
        waits: Callable[[Request], bool],
        told: Callable[[ReviewDone], None],
    ) -> None:
        self._by = by
        self._command = command
        self._waits = waits
        self._told = told
        self._undelivered = len(command.ids)
        self._results: list[ReviewResult] = []
        # the last answered request, and its grant
        self._answered: tuple[Request, str | None] | None = None
        self._granted: dict[object, str] = {}  # one grant for all requests of a kind

    def envelopes(self) -> "list[ReviewEnvelope]":
        return [ReviewEnvelope(self, id_) for id_ in self._command.ids]

    def answer(self, state: EngineState, moment: Moment, id_: str) -> Sequence[Event]:
        """Answer one request. The first answer also records that an operator is present."""
        seen = PersonSeen(at=moment.at, t=moment.t, by=self._by, how=self._command.via)
        events = () if self._results else (seen,)
        try:
            return *events, *self._settle(state, moment, id_)
        except Exception:
            log.exception("answering request %s failed", id_)
            self._results.append(_no(id_, "internal", FAILED))
            return ()

    def note(self, state: EngineState, effects: Effects) -> None:
        """Store the result of the request that was answered last."""
        if self._answered is not None:
            request, grant = self._answered
            self._answered = None
            request = state.approvals.find(request.id) or request
            self._results.append(_result(request, effects.events, grant))

    def delivered(self) -> None:
        self._undelivered -= 1
        if not self._undelivered:
            self._told(ReviewDone(ok=True, results=tuple(self._results)))

    def _settle(self, state: EngineState, moment: Moment, id_: str) -> Sequence[Event]:
        found = state.approvals.named(id_)
        if len(found) != 1:
            self._results.append(_no(id_, "not_found", unnamed(state, id_, found)))
            return ()
        (request,) = found
        answer = self._event(state, request, moment)
        if not isinstance(answer, Event):
            self._results.append(_refusal(request, answer))
            return ()
        granted = self._grant(state, request, moment)
        if isinstance(granted, str):
            self._results.append(_no(request.id, "not_grantable", granted))
            return ()
        made = None if granted is None else self._one_of_its_kind(granted)
        self._answered = request, made
        return (answer,) if granted is None or granted.id != made else (answer, granted)

    def _grant(self, state: EngineState, request: Request, moment: Moment) -> Granted | str | None:
        """Return the grant of an approval (None if it has none), or why it cannot be made."""
        command = self._command
        if not isinstance(command, ApproveCommand) or command.grant is None:
            return None
        return from_request(state, moment, request, command.grant, self._by, command.via)

    def _one_of_its_kind(self, granted: Granted) -> str:
        """Return the id of the grant that covers this request and similar ones."""
        seen = None if granted.seen is None else granted.seen.action
        kind = granted.agent, granted.type, granted.project, granted.rules, granted.paths, seen
        return self._granted.setdefault(kind, granted.id)

    def _event(
        self, state: EngineState, request: Request, moment: Moment
    ) -> Event | NotTaken | str:
        """Return the event that answers a request, or why there is none."""
        command, at, t = self._command, moment.at, moment.t
        match command:
            case DeferCommand() if not at < command.until <= at + _LONGEST:
                return f"`until` must be in the future, and within {_LONGEST.days} days"
            case DeferCommand():
                event = Deferred(
                    at=at, t=t, request_id=request.id, by=self._by, until=command.until
                )
                return ended(request, moment) or event
            case CancelCommand():
                cancelled = Cancelled(
                    at=at, t=t, request_id=request.id, by=self._by, via=command.via
                )
                return ended(request, moment) or cancelled
            case DenyCommand(once=True) if request.denied_until is not None:
                return DenialLifted(
                    at=at, t=t, request_id=request.id, agent=request.agent, by=self._by
                )
            case _:
                ways, waits = state.approve_via(request), self._waits(request)
                return taken(request, _given(command, self._by), moment, ways, waits=waits)


class ReviewEnvelope(Envelope):
    """The answer to one request."""

    def __init__(self, review: Review, id_: str) -> None:
        self.received = uptime()
        self._review = review
        self._id = id_

    def open(self, state: EngineState, moment: Moment) -> Sequence[Event]:
        return self._review.answer(state, moment, self._id)

    def note(self, state: EngineState, effects: Effects) -> None:
        self._review.note(state, effects)

    def deliver(self, *, late: bool) -> None:  # noqa: ARG002 - what was answered stays so
        self._review.delivered()


def _given(command: ApproveCommand | DenyCommand, by: str) -> Given:
    if isinstance(command, ApproveCommand):
        words, digest = command.message, command.digest
        return Given(answer="approved", by=by, via=command.via, words=words, digest=digest)
    words, once = command.reason, command.once
    return Given(answer="denied", by=by, via=command.via, words=words, once=once)


def _refusal(request: Request, why: NotTaken | str) -> ReviewResult:
    if isinstance(why, str):
        return _no(request.id, "invalid", why)
    if not request.pending:
        return _with_answer(ReviewResult(id=request.id, ok=False, code=why.code), request)
    return _no(request.id, why.code, why.error)


def _no(id_: str, code: RefusalCode, error: str) -> ReviewResult:
    return ReviewResult(id=id_, ok=False, code=code, error=error)


def _result(request: Request, events: Sequence[Event], grant: str | None) -> ReviewResult:
    held = next(_held(reversed(events)), None)
    made = (event for event in events if isinstance(event, Granted))
    grant = grant or next((one.id for one in made if one.request_id == request.id), None)
    result = ReviewResult(id=request.id, ok=True, decision=request.state, held=held, grant=grant)
    return _with_answer(result, request)


def _held(events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        verdicts = getattr(event, "verdicts", ())
        if verdicts:
            yield strictest(verdicts).cause


def _with_answer(result: ReviewResult, request: Request) -> ReviewResult:
    """Add the earlier answer to a request, if there was one."""
    answer = request.answer
    if answer is None:
        return result
    return msgspec.structs.replace(
        result, decision=request.state, by=answer.by, via=answer.via, at=answer.at
    )
