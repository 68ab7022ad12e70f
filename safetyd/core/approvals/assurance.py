"""Which answers of people count. Whatever the way they come, they are judged and recorded here.

Every way may deny. Some are not sure enough to approve, and none approves what it cannot show.
"""

from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.core.approvals.request import Request
from safetyd.core.events.event import Moment
from safetyd.core.events.request_events import Answered
from safetyd.core.messages.binding import is_all
from safetyd.core.messages.proposal import Proposal, Risk

# What a person does at a terminal of safetyd, with an operator's key.
AT_A_TERMINAL: Final = frozenset({"cli", "tui"})
# Money, and who may do what: nobody should approve these by what a message carries.
TERMINAL_ONLY: Final = frozenset(
    {"purchase", "billing_change", "revoke_token", "modify_permissions"}
)
SMS_CHARS: Final = 60  # of a text, beside all else that an SMS says
DESKTOP_CHARS: Final = 240
SHORTEST_DIGEST: Final = 8  # letters of a digest that name it
_RISKS: Final[tuple[Risk, ...]] = ("low", "medium", "high", "prohibited")


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it came."""

    answer: Literal["approved", "denied"]
    by: str
    via: str  # cli, tui, desktop, link:email, sms and so on
    words: str = ""
    digest: str = ""  # of what the person saw, or its beginning; empty: of what waits
    assurance: str = ""
    delivery: str = ""
    peer: str = ""
    once: bool = False  # a denial that is not remembered


class NotTaken(NamedTuple):
    """Why an answer does not count, and in words what to do."""

    code: Literal["already_decided", "expired", "digest_mismatch", "elsewhere"]
    error: str


def taken(
    request: Request, given: Given, moment: Moment, approve_via: tuple[str, ...], *, waits: bool
) -> Answered | NotTaken:
    """Return what is recorded of an answer, or why nothing is.

    `approve_via` are the ways that the request's type permits, all if it is empty; `waits` says
    whether the agent waits for the answer.
    """
    if over := ended(request, moment):
        return over
    if given.answer == "approved":
        if not _names(given.digest, request):
            error = "The request has changed since it was shown. Review it again"
            return NotTaken("digest_mismatch", error)
        if why := refusal(request, given.via, approve_via):
            return NotTaken("elsewhere", why)
    return Answered(
        at=moment.at,
        t=moment.t,
        request_id=request.id,
        agent=request.agent,
        id=request.asked.id,
        answer=given.answer,
        by=given.by,
        via=given.via,
        words=given.words,
        digest=request.asked.digest,
        waits=waits,
        assurance=given.assurance,
        delivery=given.delivery,
        peer=given.peer,
        once=given.once,
    )


def ended(request: Request, moment: Moment) -> NotTaken | None:
    """Return that a request cannot be answered any more, if so."""
    if not request.pending:
        code: Literal["expired", "already_decided"]
        code = "expired" if request.state == "expired" else "already_decided"
        return NotTaken(code, f"The request is already {request.state}")
    # The tick that says so may come a little later than the deadline.
    if request.over(moment.at, moment.t):
        return NotTaken("expired", "The request has expired")
    return None


def approvable(request: Request, via: str, approve_via: tuple[str, ...]) -> bool:
    """Say whether a request may be approved this way: `cli`, `tui`, `link:email`, `sms` and so on.

    `approve_via` only restricts: what is prohibited, or of the types above, is approved at a
    terminal or not at all, and a way that has little room only approves what it shows whole.
    """
    way = _way(via)
    if approve_via and way not in approve_via:
        return False
    if way not in AT_A_TERMINAL and _needs_terminal(request):
        return False
    return _shows_all(way, request)


def refusal(request: Request, via: str, approve_via: tuple[str, ...]) -> str:
    """Return why a request cannot be approved this way and which can, nothing if it can."""
    return "" if approvable(request, via, approve_via) else _where(request, via, approve_via)


def risk_within(risk: Risk, most: Risk) -> bool:
    """Say whether a risk is no higher than the highest that is permitted."""
    return _RISKS.index(risk) <= _RISKS.index(most)


def says_all(proposal: Proposal) -> bool:
    """Say whether its text is all that would be done, so that who reads it has read everything."""
    # Messages leave out what cannot be seen.
    seen = proposal.text.replace("\n", "").isprintable()
    return bool(proposal.text) and seen and is_all(proposal)


def fits_sms(proposal: Proposal) -> bool:
    """Say whether an SMS can show all that would be done."""
    text = proposal.text
    short = len(text) <= SMS_CHARS and text.isascii() and text.isprintable()
    # The alphabet of SMS has all of ASCII but this one.
    return short and "`" not in text and says_all(proposal)


def _shows_all(way: str, request: Request) -> bool:
    """Say whether who answers this way can have seen all that an approval would permit."""
    proposal = request.asked.proposal
    if way == "sms":
        return fits_sms(proposal) and not request.gives
    if way == "desktop":
        short = len(proposal.text) <= DESKTOP_CHARS and not request.gives
        return short and says_all(proposal)
    return True


def _needs_terminal(request: Request) -> bool:
    return request.asked.risk == "prohibited" or request.asked.type in TERMINAL_ONLY


def _where(request: Request, via: str, approve_via: tuple[str, ...]) -> str:
    """Say why a way cannot approve a request, and which can."""
    kind, way = request.asked.type, _way(via)
    if approve_via and way not in approve_via:
        return f"{kind} can be approved only by {' or '.join(approve_via)}, not by {way}"
    if _needs_terminal(request):
        return f"{kind} can be approved only at a terminal: safetyd approve {request.id}"
    return f"{way} cannot show all of this {kind}. See: safetyd show {request.id}"


def _way(via: str) -> str:
    return via.partition(":")[0]


def _names(digest: str, request: Request) -> bool:
    """Say whether a digest, or its beginning, is the request's; none given is taken for it."""
    if not digest:
        return True
    wanted = digest.removeprefix("sha256:")
    whole = request.asked.digest.removeprefix("sha256:")
    return len(wanted) >= SHORTEST_DIGEST and whole.startswith(wanted)
