"""Requests: the pending ones, one in detail, and the request log."""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from datetime import timedelta
from itertools import dropwhile, islice
from typing import Final, get_args

import msgspec
from msgspec import UNSET, UnsetType

from safetyd.cards.request_details import (
    ROW_CHARS,
    GrantOffer,
    RequestDetails,
    RequestEnded,
    RequestRow,
    Telling,
)
from safetyd.core.approvals.assurance import refusal, says_all
from safetyd.core.approvals.request import Request
from safetyd.core.approvals.session_offers import offered_to
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.messages.proposal import Proposal, Risk, Urgency
from safetyd.core.messages.verdict import strictest
from safetyd.core.outbox.deliveries import Delivery
from safetyd.operators.contract.grant_contract import RequestGrantTerms
from safetyd.operators.contract.request_contract import (
    HistoryAnswer,
    HistoryQuestion,
    PendingAnswer,
    PendingQuestion,
    RequestAnswer,
)
from safetyd.operators.grant_commands import from_request
from safetyd.operators.replies import Refusal, refused
from safetyd.operators.request_names import unnamed
from safetyd.operators.views.approval_gain import approval_gives
from safetyd.operators.views.grant_offer import OfferedGrants, offered
from safetyd.operators.views.paging import fitting

UNKNOWN: Final = "classify.unknown_type"
SLICE: Final = 250  # requests per slice, which takes less than a millisecond
MOST_NAMED: Final = 100  # maximum number of agents and types that are counted by name

_URGENCIES: Final = get_args(Urgency)
_RISKS: Final = get_args(Risk)

Offer = Callable[[Request], GrantOffer | None]


def pending(state: EngineState, moment: Moment, wanted: PendingQuestion) -> PendingAnswer:
    """Return pending requests after the request `after`, which may have been answered since."""
    waiting = state.approvals.pending(wanted.agent)
    last = state.approvals.find(wanted.after)
    if last is not None:
        waiting = (known for known in waiting if known.asked.seq > last.asked.seq)
    first = list(islice(waiting, wanted.limit + 1))
    offer = OfferedGrants(state) if wanted.grants else _no_offer
    page = fitting(_row(state, known, moment, offer) for known in first[: wanted.limit])
    return PendingAnswer(
        ok=True,
        requests=page,
        pending=state.approvals.pending_count(wanted.agent),
        channels=tuple(state.policy.telling.channels),
        more=len(page) < len(first),
    )


def reviewed(
    state: EngineState, moment: Moment, wanted: PendingQuestion
) -> Generator[None, Moment, PendingAnswer]:
    """Return a page of pending requests in the order in which operators review them."""
    queue = ReviewQueue(wanted)
    waiting = list(state.approvals.pending())
    around = state.approvals.find(wanted.around)
    if around is not None and not around.pending:
        insort(waiting, around, key=lambda one: one.asked.seq)  # where it was
    for number, one in enumerate(waiting):
        if number % SLICE == 0:
            yield
        queue.add(one)
    ordered: list[Request] = []
    for number, alike in enumerate(queue.kinds()):
        if number % (10 * SLICE) == 0:
            yield
        ordered += alike
    place = next((at for at, one in enumerate(ordered) if one is around), None)
    if place is not None and not ordered[place].pending:
        del ordered[place]
    offset = wanted.offset if place is None else place // wanted.limit * wanted.limit
    offset = min(offset, max(len(ordered) - 1, 0) // wanted.limit * wanted.limit)
    agents, types = queue.agents.most_common(MOST_NAMED), queue.types.most_common(MOST_NAMED)
    moment = yield
    offer = OfferedGrants(state) if wanted.grants else _no_offer
    shown = ordered[offset : offset + wanted.limit]
    page = fitting(_row(state, known, moment, offer) for known in shown)
    end = offset + len(page)
    return PendingAnswer(
        ok=True,
        requests=page,
        pending=len(ordered),
        channels=tuple(state.policy.telling.channels),
        more=end < len(ordered),
        offset=offset,
        place=place,
        previous=ordered[offset - 1].id if offset else "",
        next=ordered[end].id if end < len(ordered) else "",
        agents=dict(agents),
        types=dict(types),
    )


class ReviewQueue:
    """Requests sorted by urgency, then risk, then age, with similar ones together.

    A group is sorted by its newest request, so that answering the other requests does not move it.
    All pending requests are counted by agent and type; `wanted` selects the ones to sort.
    """

    def __init__(self, wanted: PendingQuestion) -> None:
        self.agents: Counter[str] = Counter()
        self.types: Counter[str] = Counter()
        self._wanted = wanted
        self._ranks: dict[tuple[int, int], dict[tuple[str, str], list[Request]]] = {}

    def add(self, one: Request) -> None:
        """Add a request that is newer than all others."""
        agent, type_ = one.agent, one.asked.type
        if one.pending:
            self.agents[agent] += 1
            self.types[type_] += 1
        if self._wanted.agent in {None, agent} and self._wanted.type in {None, type_}:
            rank = -_URGENCIES.index(one.urgency), -_RISKS.index(one.asked.risk)
            kinds = self._ranks.setdefault(rank, {})
            alike = kinds.pop((agent, type_), [])
            alike.append(one)
            kinds[agent, type_] = alike  # behind the others

    def kinds(self) -> Iterator[list[Request]]:
        for rank in sorted(self._ranks):
            yield from self._ranks[rank].values()


def request(state: EngineState, moment: Moment, named: str) -> RequestAnswer | Refusal:
    """Return the details of one request; its id may be shortened as long as it is unique."""
    found = state.approvals.named(named)
    if len(found) != 1:
        return refused("not_found", f"{named}: {unnamed(state, named, found)}")
    (known,) = found
    return RequestAnswer(ok=True, request=details(state, moment, known))


def history(state: EngineState, _moment: Moment, page: HistoryQuestion) -> HistoryAnswer:
    """Return finished requests after the request `after`."""
    ended = state.approvals.answered()
    if page.after:
        ended = list(dropwhile(lambda known: known.id != page.after, ended))[1:]
    rows = fitting(_ended(known) for known in ended[: page.limit])
    return HistoryAnswer(ok=True, history=rows, more=len(rows) < len(ended))


def details(
    state: EngineState, moment: Moment, known: Request, *, grants: bool = True
) -> RequestDetails:
    """Return the details of a request; without `grants`, leave out grant offers."""
    asked = known.asked
    offer = OfferedGrants(state) if grants else _no_offer
    gives = approval_gives(state, moment, known)
    return RequestDetails(
        **msgspec.structs.asdict(_row(state, known, moment, offer)),
        state=known.state,
        proposal=asked.proposal,
        verdicts=asked.verdicts,
        tier=asked.tier,
        reversibility=asked.reversibility,
        gives=gives.sentence if gives else known.gives,
        wish=gives.wish if gives else "",
        resolved=asked.resolved,
        answer=known.answer,
        valid_until=known.valid_until,
        denied_until=known.denied_until,
        used=known.used,
        claimant=known.claimant,
        before=tuple(map(_ended, _same_kind(state, known))),
        told=tuple(map(_told, state.outbox.told(known.id))),
        not_by_web=refusal(known, "web", state.approve_via(known)) if known.pending else "",
        not_granted=_not_granted(state, moment, known) if known.pending and grants else "",
        change=known.change or UNSET,
        similar=_similar(state, known) if known.pending else 0,
    )


def _similar(state: EngineState, known: Request) -> int:
    similar = offered_to(known, state.approvals, state.reader)
    return similar if similar and offered(state, known) is not None else 0


def _not_granted(state: EngineState, moment: Moment, known: Request) -> str:
    """Return why no grant can be made from a request, by trying to make one."""
    terms = RequestGrantTerms(uses=1, until=moment.at + timedelta(hours=1))
    made = from_request(state, moment, known, terms, by="", via="web")
    return made if isinstance(made, str) else ""


def _no_offer(_known: Request) -> None:
    return None


def _row(state: EngineState, known: Request, moment: Moment, offer: Offer) -> RequestRow:
    asked, proposal = known.asked, known.asked.proposal
    left_s = None if known.deadline is None else (known.deadline - moment.at).total_seconds()
    headline = strictest(asked.verdicts)
    return RequestRow(
        id=known.id,
        agent=asked.agent,
        type=asked.type,
        unknown=UNKNOWN in known.rules,
        text=proposal.text[:ROW_CHARS],
        description=proposal.description[:ROW_CHARS],
        whole=says_all(proposal) and len(proposal.text) <= ROW_CHARS and not known.gives,
        urgency=known.urgency,
        risk=asked.risk,
        path=_first_path(proposal),
        paths=len(proposal.paths) or UNSET,
        rule=headline.rule,
        reason=headline.reason,
        parts=tuple(part for verdict in asked.verdicts for part in verdict.parts) or UNSET,
        grant=offer(known) or UNSET,
        asked_at=asked.at,
        deadline=known.deadline,
        left_s=None if left_s is None else round(left_s, 1),
        until=known.until,
        repeats=known.repeats,
        digest=asked.digest,
        permission=asked.permission,
        undeliverable=state.outbox.undeliverable(known.id),
    )


def _first_path(proposal: Proposal) -> str | UnsetType:
    return proposal.paths[0][:ROW_CHARS] if proposal.paths else UNSET


def _told(delivery: Delivery) -> Telling:
    return Telling(
        delivery=delivery.id,
        recipient=delivery.recipient,
        channel=delivery.channel,
        state=delivery.state,
        at=delivery.told_at or delivery.at,
    )


def _same_kind(state: EngineState, known: Request, most: int = 5) -> Iterator[Request]:
    """Yield the last answers for the same agent, type and project."""
    wanted = _kind(known)
    alike = (r for r in state.approvals.answered() if r is not known and _kind(r) == wanted)
    return islice(alike, most)


def _kind(known: Request) -> tuple[str, str, str | None]:
    return known.agent, known.asked.type, known.asked.proposal.project


def _ended(known: Request) -> RequestEnded:
    answer = known.answer
    waited_s = None if answer is None else (answer.at - known.asked.at).total_seconds()
    return RequestEnded(
        request_id=known.id,
        agent=known.agent,
        action=known.asked.type,
        text=known.asked.proposal.text[:ROW_CHARS],
        path=_first_path(known.asked.proposal),
        paths=len(known.asked.proposal.paths) or UNSET,
        decision=known.state,
        decided_at=None if answer is None else answer.at,
        decided_via=None if answer is None else answer.via,
        decided_by=None if answer is None else answer.by,
        words="" if answer is None else answer.words,
        response_time_seconds=None if waited_s is None else round(waited_s, 3),
        used=known.used,
        change=known.change or UNSET,
    )
