"""What a link shows: one request, or the list of a message. Looking changes nothing."""

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from typing import Final, Literal, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from safetyd.cards.request_card import RequestCard, request_card
from safetyd.cards.request_details import RequestDetails
from safetyd.core.approvals.assurance import approvable, ended
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.messages.verdict import ALLOW
from safetyd.notify.links.sent_links import SentLink
from safetyd.notify.links.tokens import Signer
from safetyd.operators.views.request_view import details
from safetyd.web.pages.change_view import ChangeView

MAX_LISTED: Final = 100
LISTED_CHARS: Final = 200

# What became of a request; "old": it waits, and the link is dead; "forgotten": it is long over;
# "test": it is none.
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
]


class LinkRow(NamedTuple):
    """One request of a list."""

    token: str
    card: RequestCard


class NextRequest(NamedTuple):
    """Another request of the same message that waits for the same person."""

    token: str
    agent: str
    type: str
    more: int  # that wait besides


class LinkView(msgspec.Struct, frozen=True, kw_only=True):
    """What can be seen through a link now."""

    at: datetime
    zone: tzinfo
    link: SentLink
    standing: Standing
    known: RequestDetails | None = None
    change: ChangeView | None = None  # what the action changed, once it has happened
    by_link: bool = True  # it may be approved here
    held: str = ""  # why what was approved may not be done yet
    holds: str = ""  # why it could not be done yet if it were approved now
    paired: bool = False  # the browser may answer for the recipient
    next: NextRequest | None = None
    rows: tuple[LinkRow, ...] = ()  # of a list: what still waits
    more: int = 0

    @property
    def request(self) -> RequestDetails:
        """The request that the link leads to; a list has none."""
        if self.known is None:
            raise LookupError(self.link.request_id)
        return self.known


def look(
    engine: EngineState, moment: Moment, link: SentLink, signer: Signer, cookie: str = ""
) -> LinkView:
    """Return what a link shows to a browser; `cookie` is what it was given when it was paired."""
    zone = _zone(engine, link.recipient)
    if link.test:
        return LinkView(at=moment.at, zone=zone, link=link, standing="test")
    if not link.request_id:
        return _list(engine, moment, link, zone, signer)
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


def standing(request: Request, link: SentLink, moment: Moment) -> Standing:
    """Return whether a link can still answer a request and, if not, why."""
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


def _next(
    engine: EngineState, moment: Moment, link: SentLink, signer: Signer
) -> NextRequest | None:
    """Return which request of a message comes after this one; after the last, the first."""
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
    known = details(engine, moment, request, grants=False)
    card = request_card(known, _zone(engine, link.recipient), moment.at)
    token = signer.token(link.delivery, request.id, link.recipient)
    return LinkRow(token, card.with_text(LISTED_CHARS))


def _held(engine: EngineState, request: Request) -> str:
    """Return what keeps an approved action from being done, as the agent was told."""
    decision = engine.recall.last(request.agent, request.asked.id) if request.unused else None
    return decision.reason if decision is not None and decision.decision is not ALLOW else ""


def _holds(engine: EngineState, moment: Moment, request: Request) -> str:
    """Return what would keep an action from being done although a person approves it."""
    if not request.pending or request.own:
        return ""
    verdict = engine.holds_back(request.asked, moment)
    # The approval of what a budget paused ends that very pause.
    ended = {verdict.rule, *verdict.also} == {f"pause.{request.pauses}"}
    return "" if verdict.decision is ALLOW or ended else verdict.reason


def _zone(engine: EngineState, recipient: str) -> tzinfo:
    """Return the zone that somebody's quiet hours are in."""
    for known in engine.policy.telling.recipients:
        if known.name == recipient:
            return ZoneInfo(known.quiet.timezone)
    return UTC
