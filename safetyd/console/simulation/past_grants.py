"""Finds the past requests that a grant would have covered, in the audit files."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from safetyd.console.failure import Failure
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.decision_events import Asking, Decided
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.request_events import Answered, Granted
from safetyd.core.messages.verdict import BLOCK
from safetyd.core.simulation.trials import (
    EndState,
    GrantCoverage,
    GrantTrial,
    PastRequest,
    counted,
)
from safetyd.journal.audit_reading import lines_after, read_event
from safetyd.operators.contract.grant_contract import GrantCommand, RequestGrantTerms
from safetyd.operators.grant_commands import from_request, grant_add
from safetyd.operators.replies import Refusal

EXAMPLES: Final = 5
TEXT_CHARS: Final = 120
_WANTED: Final = (b'{"event":"decided",', b'{"event":"answered",')


class CoveredExample(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    id: str
    type: str
    text: str
    state: EndState


class PastGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A grant, and the requests after `since` that it would have covered."""

    agent: str
    uses: int | None  # None if --uses was not given
    since: datetime
    covered: GrantCoverage
    spent_at: datetime | None  # when the grant would have been used up
    examples: tuple[CoveredExample, ...]  # the newest


class PastRequests:
    """The requests and blocked proposals of one agent, from the audit files."""

    def __init__(self, where: Path, agent: str) -> None:
        self._agent = agent
        self._asked: dict[str, Decided] = {}
        self._answers: dict[str, Answered] = {}
        self._blocked: list[Decided] = []
        self.keyless = False  # whether its last proposal was anonymous
        for event in _events(where):
            self._take(event)

    def since(self, moment: datetime) -> Iterator[PastRequest]:
        """Yield proposals that were blocked, requested or answered at this time or later."""
        for id_, asked in self._asked.items():
            answer = self._answers.get(id_)
            if (asked if answer is None else answer).at >= moment:
                yield PastRequest(asked, "pending" if answer is None else answer.answer)
        for blocked in self._blocked:
            if blocked.at >= moment:
                yield PastRequest(blocked, "blocked")

    def _take(self, event: Event) -> None:
        if isinstance(event, Answered) and event.request_id in self._asked:
            self._answers[event.request_id] = event
        elif isinstance(event, Decided) and event.agent == self._agent:
            self.keyless = event.keyless
            if event.asks is not None and not event.asks.joins:
                self._asked[event.asks.request_id] = event
            elif event.first and event.decision is BLOCK:
                self._blocked.append(event)


def past_request(where: Path, id_: str) -> Request:
    """Return the request whose id starts with `id_`."""
    found: dict[str, Request] = {}
    for event in _events(where):
        match event:
            case Decided(asks=Asking(joins=False) as asks) if asks.request_id.startswith(id_):
                found[asks.request_id] = Request(
                    id=asks.request_id,
                    asked=event,
                    action=asks.action,
                    urgency=asks.urgency,
                    deadline=asks.deadline,
                )
    if len(found) != 1:
        error = f"{len(found)} requests have this prefix" if found else "no request has this id"
        raise Failure(f"{id_}: {error}", "not_found")
    return next(iter(found.values()))


def of_command(state: EngineState, command: GrantCommand, moment: Moment) -> Granted:
    """Return the grant that a command would create now."""
    carried = grant_add("safetyd", command)(state, moment)
    if isinstance(carried.answer, Refusal):
        raise Failure(carried.answer.error, carried.answer.code)
    return next(event for event in carried.events if isinstance(event, Granted))


def of_request(state: EngineState, request: Request, terms: RequestGrantTerms) -> Granted:
    """Return the grant that `safetyd approve --grant` would have created for a request."""
    moment = Moment(request.asked.at, request.asked.t)
    granted = from_request(state, moment, request, terms, "safetyd", "cli")
    if isinstance(granted, str):
        raise Failure(f"{request.id}: {granted}", "not_grantable")
    return granted


def cover(
    state: EngineState,
    granted: Granted,
    past: Iterator[PastRequest],
    since: datetime,
    uses: int | None,
) -> PastGrant:
    """Return which of the past requests a grant would have covered."""
    covered = GrantTrial(state, granted).covered(past)
    covered.sort(key=lambda one: one.asked.at)
    return PastGrant(
        agent=granted.agent,
        uses=uses,
        since=since,
        covered=counted(covered),
        spent_at=covered[uses - 1].asked.at if uses and len(covered) >= uses else None,
        examples=_examples(covered),
    )


def _events(where: Path) -> Iterator[Event]:
    for line in lines_after(where, 0):
        if line.startswith(_WANTED) and (event := read_event(line)) is not None:
            yield event


def _examples(covered: Sequence[PastRequest]) -> tuple[CoveredExample, ...]:
    return tuple(
        CoveredExample(
            at=one.asked.at,
            id=one.asked.id,
            type=one.asked.type,
            text=(one.asked.proposal.text or one.asked.proposal.description)[:TEXT_CHARS],
            state=one.state,
        )
        for one in covered[-EXAMPLES:]
    )
