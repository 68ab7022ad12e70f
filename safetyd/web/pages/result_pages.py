"""The pages that links open, except the request itself: lists, results of answers, errors."""

from datetime import datetime, tzinfo
from http import HTTPStatus
from typing import Final, NamedTuple

from safetyd.cards.request_card import commands
from safetyd.core.text.time_words import complete, near
from safetyd.web.link_view import LinkView
from safetyd.web.pages.change_view import ChangeView
from safetyd.web.pages.page_frame import page
from safetyd.web.pages.request_page import (
    FormDraft,
    NextLink,
    about,
    next_link,
    request_page,
    set_page,
)

NOBODY: Final = "Invalid link"
NEEDLESS: Final = "No answer is needed."
_ANSWERS: Final = {"approved": "approval", "denied": "denial"}


def list_page(view: LinkView) -> str:
    """Return the pending requests of a notification."""
    count = len(view.rows) + view.more
    heading = {0: "No pending requests", 1: "1 pending request"}.get(count)
    return page(
        "link_list.html",
        "Pending requests",
        view.link.recipient,
        heading=heading or f"{count} pending requests",
        rows=view.rows,
        more=view.more,
    )


def pairing_page(recipient: str, nonce: str) -> str:
    said = (
        f"For 90 days this browser can approve requests sent to {recipient} without the code from "
        "the notification. Pair only a browser that nobody else uses."
    )
    return page(
        "link_button.html",
        "Pair this browser",
        heading=f"Pair this browser for {recipient}?",
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
        said="Press the button to check that answers reach safetyd too.",
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
    """Return a page without a form: paragraphs, a command, the agent's words.

    `then` links to the next request.
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
    """Return a page about a request, with a link to the next one of its notification."""
    words = about(view.known) if view.known else ""
    then = next_link(view.next)
    return told_page(
        title, *said, tone=tone, command=command, about=words, then=then, change=view.change
    )


class ResultPage(NamedTuple):
    """A page, and its HTTP status."""

    status: int
    html: str
    retry_s: float = 0.0  # seconds until the client may try again


def looked(view: LinkView, nonce: str, focus: str = "") -> ResultPage:
    """Return the page that a link opens."""
    if view.standing == "test":
        return ResultPage(HTTPStatus.OK, trial_page(nonce))
    if view.standing != "pending":
        return over(view)
    if not view.link.request_id:
        return ResultPage(HTTPStatus.OK, list_page(view))
    return ResultPage(HTTPStatus.OK, _answer_page(view, FormDraft(nonce, focus=focus)))


def recorded(view: LinkView) -> ResultPage:
    """Return the page after an answer was recorded."""
    request = view.request
    title = f"{request.state.capitalize()} at {_answered_at(view)}"
    if not view.held:
        page = _told_of(view, title, "The agent has received your answer.", tone="good")
        return ResultPage(HTTPStatus.OK, page)
    until = moment(request.valid_until or view.at, view.zone, view.at)
    return ResultPage(
        HTTPStatus.OK,
        _told_of(
            view,
            f"Recorded: {title[:1].lower()}{title[1:]}",
            f"{view.held.rstrip('.')}.",
            f"Once this ends, the action may run if the agent proposes it again before {until}.",
            tone="warn",
        ),
    )


def set_recorded(view: LinkView, said: str, count: int, token: str) -> ResultPage:
    """Return the page after `count` requests of a set were answered."""
    what = "1 request" if count == 1 else f"{count} requests"
    left = len(view.rows)
    then = NextLink(token, f"Answer the other {left}" if left > 1 else "Answer the other one")
    held = f"{view.held.rstrip('.')}. Until this ends, no action may run." if view.held else ""
    page = told_page(
        f"{said.capitalize()}: {what}",
        held or "The agent has received your answer.",
        tone="warn" if held else "good",
        then=then if left else None,
    )
    return ResultPage(HTTPStatus.OK, page)


def tested() -> ResultPage:
    why = "Notifications reach you, and your answers reach safetyd."
    return ResultPage(HTTPStatus.OK, told_page("It works", why, tone="good"))


def over(view: LinkView, wanted: str = "") -> ResultPage:  # noqa: PLR0911 - one for each end
    """Return a page that says how a request ended. `wanted` is an answer that came too late."""
    if view.link.members and view.standing == "over":
        return ResultPage(HTTPStatus.CONFLICT if wanted else HTTPStatus.OK, _set_over(view))
    match view.standing:
        case "approved" | "denied":
            return _decided(view, wanted)
        case "superseded":
            why = "The changed request is in a new notification. Nothing was recorded here."
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
            why = "It ended long ago. The audit files contain the result."
            return ResultPage(HTTPStatus.GONE, _told_of(view, "This request has ended", why))


def again(view: LinkView, nonce: str, why: str, words: str) -> ResultPage:
    """Return the request again, with the reason why an answer was refused."""
    draft = FormDraft(nonce, f"Not recorded. {why}", words, focus="a")
    return ResultPage(HTTPStatus.FORBIDDEN, _answer_page(view, draft))


def _answer_page(view: LinkView, draft: FormDraft) -> str:
    return set_page(view, draft) if view.link.members else request_page(view, draft)


def foreign() -> ResultPage:
    """Return the page for an answer from another site's page."""
    why = "Answers must come from the page that the link opens. Open the link and answer there."
    return ResultPage(HTTPStatus.FORBIDDEN, told_page("Not recorded", why, tone="bad"))


def nobody() -> ResultPage:
    """Return the page for every invalid token. The page does not say what is wrong."""
    why = "The link may be mistyped, cut off or revoked. To list pending requests:"
    return ResultPage(HTTPStatus.NOT_FOUND, told_page(NOBODY, why, command="safetyd list"))


def too_often(wait_s: float) -> ResultPage:
    why = "Wait a minute, then try again."
    page = told_page("Too many attempts", why, tone="warn")
    return ResultPage(HTTPStatus.TOO_MANY_REQUESTS, page, wait_s)


def malformed(status: HTTPStatus) -> ResultPage:
    """Return the page for a malformed answer."""
    return ResultPage(status, told_page("Not recorded", f"{status.phrase}.", tone="bad"))


def unavailable(*, under_way: bool) -> ResultPage:
    """Return the page while the journal cannot be written."""
    title = "Not recorded. Try again."
    why = "safetyd cannot write to its journal at the moment."
    if under_way:
        title = "Result unknown"
        why = "Your answer is not stored yet. Open the link again to check."
    page = told_page(title, why, tone="bad")
    return ResultPage(HTTPStatus.SERVICE_UNAVAILABLE, page, 5.0)


def unreachable(token: str, *, under_way: bool) -> ResultPage:
    """Return the page of a relay that gets no answer from a daemon."""
    title = "Result unknown" if under_way else "safetyd does not answer"
    said = (
        "Your answer may be recorded. Open the link again to check."
        if under_way
        else "Nothing was recorded. Try again in a few seconds."
    )
    deadline = "A request without an answer expires at its deadline, and the action is not allowed."
    page = told_page(title, said, deadline, tone="bad", then=NextLink(token, "Try again"))
    return ResultPage(HTTPStatus.SERVICE_UNAVAILABLE, page, 5.0)


def _set_over(view: LinkView) -> str:
    """Return how the requests of a set ended, each with its words."""
    about = "\n".join(f"{row.how}: {row.words}" for row in view.ended)
    why = "No answer is recorded now. This is how each of them ended:"
    return told_page("These requests have ended", why, about=about)


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
    lost = f"Your {_ANSWERS[wanted]} was NOT applied."
    hint, command = _remedy(view)
    page = _told_of(view, title, lost, how, hint, tone="bad", command=command)
    return ResultPage(HTTPStatus.CONFLICT, page)


def _remedy(view: LinkView) -> tuple[str, str]:
    """Return what the reader can still do if they disagree, and the command for it."""
    request = view.request
    if request.state == "denied":
        if request.denied_until is not None and request.denied_until > view.at:
            until = moment(request.denied_until, view.zone, view.at)
            held = f"Until {until} the same action is denied without asking. To lift this denial:"
            return held, f"safetyd deny {request.id} --once"
        return "The action can be approved only if the agent proposes it again.", ""
    if request.used:
        return "The agent may already have performed the action.", ""
    return "To prevent the action, stop the agent:", f"safetyd stop --agent {request.agent}"


def _expired(view: LinkView) -> str:
    request = view.request
    ended = request.deadline or (request.answer.at if request.answer else view.at)
    title = f"Expired {ago(ended, view.at)} without an answer"
    hint = "The agent can propose it again."
    return _told_of(view, title, "The action was not allowed.", hint)


def _old(view: LinkView) -> str:
    title = "This link has expired"
    if not view.known:
        return told_page(title, "To list pending requests:", command="safetyd list")
    pending = "The request is still pending. To approve it:"
    return told_page(title, pending, command=commands(view.known)[0])


def moment(at: datetime, zone: tzinfo, now: datetime) -> str:
    """Return a time in a zone, with its day if that is not today."""
    there = at.astimezone(zone)
    return f"{near(there, now.astimezone(zone))} {there:%Z}"


def ago(at: datetime, now: datetime) -> str:
    return f"{complete((now - at).total_seconds())} ago"
