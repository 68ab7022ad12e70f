"""The pages behind links, but for the request itself: how it stands, what became of an answer."""

from http import HTTPStatus
from typing import Final, NamedTuple

from safetyd.cards.request_card import commands
from safetyd.web.link_view import LinkView
from safetyd.web.pages.change_view import ChangeView
from safetyd.web.pages.page_frame import page
from safetyd.web.pages.request_page import FormDraft, NextLink, about, next_link, request_page
from safetyd.web.pages.shown_time import ago, moment

NOBODY: Final = "This link opens nothing"
NEEDLESS: Final = "It needs no answer any more."
_ASKED: Final = {"approved": "Approve", "denied": "Deny"}


def list_page(view: LinkView) -> str:
    """Return what still waits of what a message told of."""
    count = len(view.rows) + view.more
    heading = {0: "Nothing waits any more", 1: "1 request waits"}.get(count)
    return page(
        "link_list.html",
        "Requests that wait for you",
        view.link.recipient,
        heading=heading or f"{count} requests wait",
        rows=view.rows,
        more=view.more,
    )


def pairing_page(recipient: str, nonce: str) -> str:
    said = (
        f"For 90 days it may approve what is sent to {recipient}, without the code of the message. "
        "Do this only in a browser that nobody else uses."
    )
    return page(
        "link_button.html",
        "Pair this browser",
        heading=f"Let this browser answer for {recipient}?",
        said=said,
        nonce=nonce,
        value="pair",
        label="Pair this browser",
    )


def trial_page(nonce: str) -> str:
    return page(
        "link_button.html",
        "A test of safetyd",
        heading="The test message arrived",
        said="Its link opens this page. Press the button to show that answers come back as well.",
        nonce=nonce,
        value="test",
        label="It works",
    )


def told_page(
    title: str,
    *said: str,
    tone: str = "",
    command: str = "",
    about: str = "",
    then: NextLink | None = None,
    change: ChangeView | None = None,
) -> str:
    """Return a page that only says something: paragraphs, a line for a terminal, agent's words.

    `then` leads to what its reader may do next.
    """
    return page(
        "link_told.html",
        title,
        said=[each for each in said if each],
        tone=tone,
        command=command,
        about=about,
        next=then,
        change=change,
    )


def _told_of(view: LinkView, title: str, *said: str, tone: str = "", command: str = "") -> str:
    """Return a page that says something of a request, and leads to the next of its message."""
    words = about(view.known) if view.known else ""
    then = next_link(view.next)
    return told_page(
        title, *said, tone=tone, command=command, about=words, then=then, change=view.change
    )


class ResultPage(NamedTuple):
    """A page, and its status."""

    status: int
    html: str
    retry_s: float = 0.0  # when to try again


def looked(view: LinkView, nonce: str, focus: str = "") -> ResultPage:
    """Return what a link shows to who only looks."""
    if view.standing == "test":
        return ResultPage(HTTPStatus.OK, trial_page(nonce))
    if view.standing != "pending":
        return over(view)
    if not view.link.request_id:
        return ResultPage(HTTPStatus.OK, list_page(view))
    return ResultPage(HTTPStatus.OK, request_page(view, FormDraft(nonce, focus=focus)))


def recorded(view: LinkView) -> ResultPage:
    """Return that an answer counts."""
    request = view.request
    title = f"{request.state.capitalize()} at {_answered_at(view)}"
    if not view.held:
        page = _told_of(view, title, "The agent has been told.", tone="good")
        return ResultPage(HTTPStatus.OK, page)
    until = moment(request.valid_until or view.at, view.zone, view.at)
    return ResultPage(
        HTTPStatus.OK,
        _told_of(
            view,
            f"Recorded: {title[:1].lower()}{title[1:]}",
            f"{view.held.rstrip('.')}.",
            f"It is released only after that, if the agent asks again before {until}.",
            tone="warn",
        ),
    )


def tested() -> ResultPage:
    why = "safetyd knows now that its messages reach you, and your answers safetyd."
    return ResultPage(HTTPStatus.OK, told_page("It works", why, tone="good"))


def over(view: LinkView, wanted: str = "") -> ResultPage:
    """Return how a request ended; `wanted` is what somebody answered too late, if anything."""
    match view.standing:
        case "approved" | "denied":
            return _decided(view, wanted)
        case "superseded":
            why = "Open the new one: it comes in a message of its own. Nothing was recorded here."
            title = "The agent changed this request"
            return ResultPage(HTTPStatus.CONFLICT, _told_of(view, title, why, tone="warn"))
        case "expired":
            return ResultPage(HTTPStatus.GONE, _expired(view))
        case "cancelled":
            title = f"Withdrawn at {_answered_at(view)}"
            return ResultPage(HTTPStatus.GONE, _told_of(view, title, NEEDLESS))
        case "old":
            return ResultPage(HTTPStatus.GONE, _old(view))
        case _:
            why = "It ended long ago: the audit files have how."
            return ResultPage(HTTPStatus.GONE, _told_of(view, "This request is over", why))


def again(view: LinkView, nonce: str, why: str, words: str) -> ResultPage:
    """Return the request once more, because an answer to it was not taken."""
    draft = FormDraft(nonce, f"Not recorded. {why}", words, focus="a")
    return ResultPage(HTTPStatus.FORBIDDEN, request_page(view, draft))


def foreign() -> ResultPage:
    """Return that an answer came from another site's page."""
    why = "An answer must come from the page that the link opens. Open the link and answer there."
    return ResultPage(HTTPStatus.FORBIDDEN, told_page("Not recorded", why, tone="bad"))


def nobody() -> ResultPage:
    """Return the same for every token that opens nothing, whatever is wrong with it."""
    why = "It may be mistyped, cut off or revoked. To list pending requests:"
    return ResultPage(HTTPStatus.NOT_FOUND, told_page(NOBODY, why, command="safetyd list"))


def too_often(wait_s: float) -> ResultPage:
    why = "Too many tries. Wait a minute, then try again."
    page = told_page("Not now", why, tone="warn")
    return ResultPage(HTTPStatus.TOO_MANY_REQUESTS, page, wait_s)


def malformed(status: HTTPStatus) -> ResultPage:
    """Return that what was sent is no answer."""
    return ResultPage(status, told_page("Not recorded", f"{status.phrase}.", tone="bad"))


def unavailable(*, under_way: bool) -> ResultPage:
    """Return that nothing can be written down now."""
    title = "Not recorded. Try again."
    why = "safetyd cannot write anything down at the moment."
    if under_way:
        title = "Not certain"
        why = "safetyd has not written your answer down yet. Open the link again and look."
    page = told_page(title, why, tone="bad")
    return ResultPage(HTTPStatus.SERVICE_UNAVAILABLE, page, 5.0)


def _answered_at(view: LinkView) -> str:
    answer = view.request.answer
    return "" if answer is None else moment(answer.at, view.zone, view.at)


def _decided(view: LinkView, wanted: str) -> ResultPage:
    state, answer = view.request.state, view.request.answer
    by, via = ("", "") if answer is None else (answer.by, answer.via)
    who = "you" if by == view.link.recipient else by
    title = f"Already {state} by {who} at {_answered_at(view)}"
    how = f"It was answered via {via}."
    if not wanted or wanted == state:
        return ResultPage(HTTPStatus.OK, _told_of(view, title, how, tone="good"))
    lost = f"Your {_ASKED[wanted]} was NOT applied."
    hint, command = _remedy(view)
    page = _told_of(view, title, lost, how, hint, tone="bad", command=command)
    return ResultPage(HTTPStatus.CONFLICT, page)


def _remedy(view: LinkView) -> tuple[str, str]:
    """Return what whoever disagrees can still do."""
    request = view.request
    if request.state == "denied":
        return "It can be approved only if the agent asks again.", ""
    if request.used:
        return "The agent may have done it already.", ""
    return "To keep it from happening, stop the agent:", f"safetyd stop --agent {request.agent}"


def _expired(view: LinkView) -> str:
    request = view.request
    ended = request.deadline or (request.answer.at if request.answer else view.at)
    title = f"Expired {ago(ended, view.at)} without an answer"
    hint = "If it is still wanted, the agent can ask again."
    return _told_of(view, title, "It did not happen.", hint)


def _old(view: LinkView) -> str:
    title = "This link is too old"
    if not view.known:
        return told_page(title, "What waits:", command="safetyd list")
    return told_page(title, "The request still waits:", command=commands(view.known)[0])
