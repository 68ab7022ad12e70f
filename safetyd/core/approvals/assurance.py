"""Checks answers to requests, and returns the event to record.

An answer can arrive in several ways, such as by terminal, link or SMS. A request can be denied in
every way. It can be approved only in a way that is secure enough and shows the full request.
"""

from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.core.approvals.request import Request
from safetyd.core.events.event import Moment
from safetyd.core.events.request_events import Answered
from safetyd.core.messages.binding import is_all
from safetyd.core.messages.proposal import Proposal, Risk

# The ways of answering that use a terminal and an operator's key.
AT_A_TERMINAL: Final = frozenset({"cli", "tui"})
# Types about money and permissions, which are too sensitive to approve from a message.
TERMINAL_ONLY: Final = frozenset(
    {"purchase", "billing_change", "revoke_token", "modify_permissions"}
)
SMS_CHARS: Final = 60  # characters of text that fit into an SMS
DESKTOP_CHARS: Final = 240
SHORTEST_DIGEST: Final = 8  # minimum length of a digest prefix
_RISKS: Final[tuple[Risk, ...]] = ("low", "medium", "high", "prohibited")


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it was received."""

    answer: Literal["approved", "denied"]
    by: str
    via: str  # such as cli, tui, desktop, link:email or sms
    words: str = ""
    digest: str = ""  # digest of the request that the operator saw, or a prefix; empty: not checked
    assurance: str = ""
    delivery: str = ""
    peer: str = ""
    once: bool = False  # this denial does not apply to later requests


class NotTaken(NamedTuple):
    """The reason why an answer does not count, and what to do."""

    code: Literal["already_decided", "expired", "digest_mismatch", "elsewhere"]
    error: str


def taken(
    request: Request, given: Given, moment: Moment, approve_via: tuple[str, ...], *, waits: bool
) -> Answered | NotTaken:
    """Return the event to record for an answer, or the reason why it does not count.

    `approve_via` lists the ways that can approve this type; empty means all. `waits` is True if the
    agent waits for the answer.
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
    """Return the reason why a request can no longer be answered, or None."""
    if not request.pending:
        code: Literal["expired", "already_decided"]
        code = "expired" if request.state == "expired" else "already_decided"
        return NotTaken(code, f"The request is already {request.state}")
    # The request expires at the first tick after the deadline, which may be a little later.
    if request.over(moment.at, moment.t):
        return NotTaken("expired", "The request has expired")
    return None


def approvable(request: Request, via: str, approve_via: tuple[str, ...]) -> bool:
    """Return whether a request can be approved in this way, such as `cli`, `link:email` or `sms`.

    `approve_via` can only restrict the ways further. Prohibited actions and `TERMINAL_ONLY` types
    can be approved only at a terminal. A way with little room must show the whole request.
    """
    way = _way(via)
    if approve_via and way not in approve_via:
        return False
    if way not in AT_A_TERMINAL and _needs_terminal(request):
        return False
    return _shows_all(way, request)


def refusal(request: Request, via: str, approve_via: tuple[str, ...]) -> str:
    """Return why this way cannot approve a request, and which can. Empty if it can."""
    return "" if approvable(request, via, approve_via) else _where(request, via, approve_via)


def risk_within(risk: Risk, most: Risk) -> bool:
    """Return whether a risk is at most `most`."""
    return _RISKS.index(risk) <= _RISKS.index(most)


def says_all(proposal: Proposal) -> bool:
    """Return whether the text shows everything that would be done."""
    # Messages omit invisible characters.
    seen = proposal.text.replace("\n", "").isprintable()
    return bool(proposal.text) and seen and is_all(proposal)


def fits_sms(proposal: Proposal) -> bool:
    """Return whether an SMS can show everything that would be done."""
    text = proposal.text
    short = len(text) <= SMS_CHARS and text.isascii() and text.isprintable()
    # The SMS alphabet has all ASCII characters except this one.
    return short and "`" not in text and says_all(proposal)


def _shows_all(way: str, request: Request) -> bool:
    """Return whether this way shows everything that an approval would permit."""
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
    """Return a sentence that says which way can approve a request instead."""
    kind, way = request.asked.type, _way(via)
    if approve_via and way not in approve_via:
        return f"{kind} can be approved only by {' or '.join(approve_via)}, not by {way}"
    if _needs_terminal(request):
        return f"{kind} can be approved only at a terminal: safetyd approve {request.id}"
    return f"{way} cannot show all of this {kind}. See: safetyd show {request.id}"


def _way(via: str) -> str:
    return via.partition(":")[0]


def _names(digest: str, request: Request) -> bool:
    """Return whether a digest or prefix matches the request. An empty one matches."""
    if not digest:
        return True
    wanted = digest.removeprefix("sha256:")
    whole = request.asked.digest.removeprefix("sha256:")
    return len(wanted) >= SHORTEST_DIGEST and whole.startswith(wanted)
