"""The content of a decision link: one request, or the list of a notification's requests."""

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

# The state of a request; "old": pending, but the link has expired; "forgotten": ended long ago;
# "test": the link of a test notification.
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
    """A request in a list."""

    token: str
    card: RequestCard


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
    known = details(engine, moment, request, grants=False)
    card = request_card(known, _zone(engine, link.recipient), moment.at)
    token = signer.token(link.delivery, request.id, link.recipient)
    return LinkRow(token, card.with_text(LISTED_CHARS))


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
