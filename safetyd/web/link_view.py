"""The content of a decision link: one request, a set of them, or the list of a notification."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from safetyd.cards.request_card import RequestCard, request_card
from safetyd.cards.request_details import RequestDetails, short_digest
from safetyd.cards.set_card import SetCard, set_card
from safetyd.cards.similar_requests import set_ref
from safetyd.core.approvals.assurance import approvable, ended
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.messages.verdict import ALLOW
from safetyd.core.text.time_words import day_and_clock
from safetyd.notify.links.sent_links import SentLink
from safetyd.notify.links.tokens import Signer
from safetyd.operators.views.request_view import details
from safetyd.web.pages.change_view import ChangeView

MAX_LISTED: Final = 100
LISTED_CHARS: Final = 200

# The state of a request; "old": pending, but the link has expired; "forgotten": ended long ago;
# "test": the link of a test notification; "over": all requests of a set have ended.
Standing = Literal[
    "pending",
    "approved",
    "denied",
    "expired",
    "cancelled",
    "superseded",
    "old",
    "forgotten",
    "test",
    "over",
]


class LinkRow(NamedTuple):
    """A request in a list."""

    token: str
    card: RequestCard


class EndedRow(NamedTuple):
    """A request of a set that has ended: how, and the agent's words."""

    how: str
    words: str


class NextRequest(NamedTuple):
    """Another pending request of the same notification."""

    token: str
    agent: str
    type: str
    more: int  # other pending requests


class LinkView(msgspec.Struct, frozen=True, kw_only=True):
    """The current content of a link."""

    at: datetime
    zone: tzinfo
    link: SentLink
    standing: Standing
    known: RequestDetails | None = None
    change: ChangeView | None = None  # the changes of the action, after it ran
    by_link: bool = True  # True if a link may approve it
    held: str = ""  # why the approved action may not run yet
    holds: str = ""  # why the action could not run yet after an approval
    paired: bool = False  # the browser is paired with the recipient
    relayed: bool = False  # the page is for a relay
    next: NextRequest | None = None
    rows: tuple[LinkRow, ...] = ()  # pending requests of a list
    more: int = 0
    alike: SetCard | None = None  # the pending requests of a set, in the order of `rows`
    ended: tuple[EndedRow, ...] = ()  # how the other requests of the set ended
    shown: str = ""  # the name of the pending requests of a set

    @property
    def request(self) -> RequestDetails:
        """The request of the link, or None for a list."""
        if self.known is None:
            raise LookupError(self.link.request_id)
        return self.known


def look(
    engine: EngineState, moment: Moment, link: SentLink, signer: Signer, cookie: str = ""
) -> LinkView:
    """Return the content of a link. `cookie` is the pairing cookie of the browser."""
    zone = _zone(engine, link.recipient)
    if link.test:
        return LinkView(at=moment.at, zone=zone, link=link, standing="test")
    if not link.request_id:
        return _list(engine, moment, link, zone, signer)
    if link.members:
        return _set(engine, moment, link, signer, cookie)
    request, then = engine.approvals.find(link.request_id), _next(engine, moment, link, signer)
    if request is None:
        return LinkView(at=moment.at, zone=zone, link=link, standing="forgotten", next=then)
    return LinkView(
        at=moment.at,
        zone=zone,
        link=link,
        standing=standing(request, link, moment),
        known=details(engine, moment, request),
        by_link=approvable(request, link.via, engine.approve_via(request)),
        held=_held(engine, request),
        holds=_holds(engine, moment, request),
        paired=signer.device_of(cookie, moment.at) == link.recipient,
        next=then,
    )


def pending(engine: EngineState, moment: Moment, link: SentLink) -> tuple[Request, ...]:
    """Return the requests that a link can still answer: one, or those of its set."""
    return tuple(_waiting(engine, moment, link.members or (link.request_id,)))


def shown_name(link: SentLink, requests: Sequence[Request]) -> str:
    """Return the name of what a page or a button shows: a digest, or that of a set."""
    return set_ref(requests) if link.members else short_digest(requests[0].asked.digest)


def nonce_name(token_id: bytes, link: SentLink, shown: str) -> bytes:
    """Return the name that a nonce of the page depends on. For a set, it names what is shown."""
    return token_id + shown.encode() if link.members else token_id


def standing(request: Request, link: SentLink, moment: Moment) -> Standing:
    """Return "pending" if the link can answer the request, otherwise the reason why not."""
    if not request.pending:
        return request.state
    if ended(request, moment):
        return "expired"
    return "pending" if moment.at < link.expires else "old"


def _list(
    engine: EngineState, moment: Moment, link: SentLink, zone: tzinfo, signer: Signer
) -> LinkView:
    if moment.at >= link.expires:
        return LinkView(at=moment.at, zone=zone, link=link, standing="old")
    waiting = _waiting(engine, moment, link.listed)
    rows = tuple(_row(engine, moment, request, link, signer) for request in waiting[:MAX_LISTED])
    more = len(waiting) - len(rows)
    return LinkView(at=moment.at, zone=zone, link=link, standing="pending", rows=rows, more=more)


def _set(
    engine: EngineState, moment: Moment, link: SentLink, signer: Signer, cookie: str
) -> LinkView:
    """Return the pending requests of a set, and how the others ended."""
    zone = _zone(engine, link.recipient)
    found = [request for id_ in link.members if (request := engine.approvals.find(id_))]
    waiting = pending(engine, moment, link)
    ended_ = tuple(_end(each, zone) for each in found if each not in waiting)
    view = LinkView(
        at=moment.at,
        zone=zone,
        link=link,
        standing="over",
        ended=ended_,
        held=next(filter(None, (_held(engine, request) for request in found)), ""),
    )
    if moment.at >= link.expires:
        return msgspec.structs.replace(view, standing="old")
    if not waiting:
        return view
    cards = [_card(engine, moment, request, zone) for request in waiting]
    shown = shown_name(link, waiting)
    return msgspec.structs.replace(
        view,
        standing="pending",
        by_link=all(approvable(r, link.via, engine.approve_via(r)) for r in waiting),
        holds=_holds(engine, moment, waiting[0]),
        paired=signer.device_of(cookie, moment.at) == link.recipient,
        rows=tuple(
            LinkRow(signer.token(link.delivery, request.id, link.recipient), card)
            for request, card in zip(waiting, cards, strict=True)
        ),
        alike=set_card(cards, shown) if len(cards) > 1 else None,
        shown=shown,
    )


def _end(request: Request, zone: tzinfo) -> EndedRow:
    """Return how a request of a set ended."""
    given, proposal = request.answer, request.asked.proposal
    state = "expired" if request.pending else request.state
    by = f" by {given.by}, {day_and_clock(given.at.astimezone(zone))}" if given else ""
    words = proposal.text or ", ".join(proposal.paths) or proposal.description
    return EndedRow(f"{state.capitalize()}{by}", words[:LISTED_CHARS])


def _next(
    engine: EngineState, moment: Moment, link: SentLink, signer: Signer
) -> NextRequest | None:
    """Return the next pending request of the notification. After the last comes the first."""
    at = link.listed.index(link.request_id) if link.request_id in link.listed else 0
    others = (*link.listed[at + 1 :], *link.listed[:at])
    waiting = _waiting(engine, moment, others) if moment.at < link.expires else []
    if not waiting:
        return None
    first = waiting[0]
    token = signer.token(link.delivery, first.id, link.recipient)
    return NextRequest(token, first.agent, first.asked.type, len(waiting) - 1)


def _waiting(engine: EngineState, moment: Moment, ids: Iterable[str]) -> list[Request]:
    found = map(engine.approvals.find, ids)
    return [request for request in found if request and not ended(request, moment)]


def _row(
    engine: EngineState, moment: Moment, request: Request, link: SentLink, signer: Signer
) -> LinkRow:
    card = _card(engine, moment, request, _zone(engine, link.recipient))
    token = signer.token(link.delivery, request.id, link.recipient)
    return LinkRow(token, card.with_text(LISTED_CHARS))


def _card(engine: EngineState, moment: Moment, request: Request, zone: tzinfo) -> RequestCard:
    return request_card(details(engine, moment, request, grants=False), zone, moment.at)


def _held(engine: EngineState, request: Request) -> str:
    """Return why an approved action may not run yet, as in the agent's decision."""
    decision = engine.recall.last(request.agent, request.asked.id) if request.unused else None
    return decision.reason if decision is not None and decision.decision is not ALLOW else ""


def _holds(engine: EngineState, moment: Moment, request: Request) -> str:
    """Return the stops and pauses that would still block an action after its approval."""
    if not request.pending or request.own:
        return ""
    verdict = engine.holds_back(request.asked, moment)
    # Approving the request of a budget pause ends that pause.
    ended = {verdict.rule, *verdict.also} == {f"pause.{request.pauses}"}
    return "" if verdict.decision is ALLOW or ended else verdict.reason


def _zone(engine: EngineState, recipient: str) -> tzinfo:
    """Return the time zone of a recipient's quiet hours."""
    for known in engine.policy.telling.recipients:
        if known.name == recipient:
            return ZoneInfo(known.quiet.timezone)
    return UTC
