"""What somebody with a link is told: how a request stands, and what became of their answer."""

from http import HTTPStatus
from typing import Final, NamedTuple

from safetyd.web.link_view import Sight
from safetyd.web.pages.pages import list_page, told_page, trial_page
from safetyd.web.pages.request_page import Draft, about, approve_line, request_page
from safetyd.web.pages.times import ago, moment

NOBODY: Final = "This link opens nothing"
NEEDLESS: Final = "It needs no answer any more."

_ASKED: Final = {"approved": "Approve", "denied": "Deny"}


class Told(NamedTuple):
    """A page, and its status."""

    status: int
    html: str
    retry_s: float = 0.0  # when to try again


def looked(sight: Sight, nonce: str, focus: str = "") -> Told:
    """Return what a link shows to who only looks."""
    if sight.standing == "test":
        return Told(HTTPStatus.OK, trial_page(nonce))
    if sight.standing != "pending":
        return over(sight)
    if not sight.link.request_id:
        return Told(HTTPStatus.OK, list_page(sight))
    return Told(HTTPStatus.OK, request_page(sight, Draft(nonce, focus=focus)))


def recorded(sight: Sight) -> Told:
    """Return that an answer counts."""
    card = sight.card
    at = moment(card["answer"]["at"], sight.zone, sight.at)
    title = f"{str(card['state']).capitalize()} at {at}"
    if not sight.held:
        page = told_page(title, "The agent has been told.", tone="good", about=about(card))
        return Told(HTTPStatus.OK, page)
    until = moment(card["valid_until"], sight.zone, sight.at)
    return Told(
        HTTPStatus.OK,
        told_page(
            f"Recorded: {title[:1].lower()}{title[1:]}",
            f"But {sight.held.removeprefix('a person approved this, and yet: ')}.",
            f"It is released only after that, if the agent asks again before {until}.",
            tone="warn",
            about=about(card),
        ),
    )


def tested() -> Told:
    why = "safetyd knows now that its messages reach you, and your answers safetyd."
    return Told(HTTPStatus.OK, told_page("It works", why, tone="good"))


def over(sight: Sight, wanted: str = "") -> Told:
    """Return how a request ended; `wanted` is what somebody answered too late, if anything."""
    match sight.standing:
        case "approved" | "denied":
            return _decided(sight, wanted)
        case "superseded":
            why = "Open the new one: it comes in a message of its own. Nothing was recorded here."
            title = "The agent changed this request"
            return Told(
                HTTPStatus.CONFLICT, told_page(title, why, tone="warn", about=about(sight.card))
            )
        case "expired":
            return Told(HTTPStatus.GONE, _expired(sight))
        case "cancelled":
            card = sight.card
            when = moment(card["answer"]["at"], sight.zone, sight.at)
            page = told_page(f"Withdrawn at {when}", NEEDLESS, about=about(card))
            return Told(HTTPStatus.GONE, page)
        case "old":
            return Told(HTTPStatus.GONE, _old(sight))
        case _:
            why = "It ended long ago: the audit files have how."
            return Told(HTTPStatus.GONE, told_page("This request is over", why))


def again(sight: Sight, nonce: str, why: str, words: str) -> Told:
    """Return the request once more, because an answer to it was not taken."""
    draft = Draft(nonce, f"Not recorded. {why}", words, focus="a")
    return Told(HTTPStatus.FORBIDDEN, request_page(sight, draft))


def foreign() -> Told:
    """Return that an answer came from another site's page."""
    why = "An answer must come from the page that the link opens. Open the link and answer there."
    return Told(HTTPStatus.FORBIDDEN, told_page("Not recorded", why, tone="bad"))


def nobody() -> Told:
    """Return the same for every token that opens nothing, whatever is wrong with it."""
    why = "It may be mistyped, cut short or revoked. `safetyd list` has what waits."
    return Told(HTTPStatus.NOT_FOUND, told_page(NOBODY, why))


def too_often(wait_s: float) -> Told:
    why = "Too many tries. Wait a minute, then try again."
    page = told_page("Not now", why, tone="warn")
    return Told(HTTPStatus.TOO_MANY_REQUESTS, page, wait_s)


def malformed(status: HTTPStatus) -> Told:
    """Return that what was sent is no answer."""
    return Told(status, told_page("Not recorded", f"{status.phrase}.", tone="bad"))


def unavailable(*, under_way: bool) -> Told:
    """Return that nothing can be written down now."""
    title = "Not recorded. Try again."
    why = "safetyd cannot write anything down at the moment."
    if under_way:
        title = "Not certain"
        why = "safetyd has not written your answer down yet. Open the link again and look."
    page = told_page(title, why, tone="bad")
    return Told(HTTPStatus.SERVICE_UNAVAILABLE, page, 5.0)


def _decided(sight: Sight, wanted: str) -> Told:
    card, answer = sight.card, sight.card["answer"]
    state, by = str(card["state"]), str(answer["by"])
    who = "you" if by == sight.link.recipient else by
    at = moment(answer["at"], sight.zone, sight.at)
    title = f"Already {state} by {who} at {at}"
    how = f"It was answered via {answer['via']}."
    if not wanted or wanted == state:
        return Told(HTTPStatus.OK, told_page(title, how, tone="good", about=about(card)))
    lost = f"Your {_ASKED[wanted]} was NOT applied."
    hint, command = _remedy(sight)
    page = told_page(title, lost, how, hint, tone="bad", command=command, about=about(card))
    return Told(HTTPStatus.CONFLICT, page)


def _remedy(sight: Sight) -> tuple[str, str]:
    """Return what whoever disagrees can still do."""
    card = sight.card
    if card["state"] == "denied":
        return "It can be approved only if the agent asks again.", ""
    if card["used"]:
        return "The agent may have done it already.", ""
    return "To keep it from happening, stop the agent:", f"safetyd stop --agent {card['agent']}"


def _expired(sight: Sight) -> str:
    card = sight.card
    title = f"Expired {ago(card['deadline'] or card['answer']['at'], sight.at)} without an answer"
    hint = "If it is still wanted, the agent can ask again."
    return told_page(title, "It did not happen.", hint, about=about(card))


def _old(sight: Sight) -> str:
    title = "This link is too old"
    if not sight.card:
        return told_page(title, "What waits:", command="safetyd list")
    return told_page(title, "The request still waits:", command=approve_line(sight.card))
