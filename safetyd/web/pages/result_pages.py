"""The pages behind links, but for the request itself: how it stands, what became of an answer."""

from datetime import datetime
from html import escape
from http import HTTPStatus
from typing import Final, NamedTuple

from safetyd.core.text.time_words import complete
from safetyd.operators.views.request_facts import facts_of_card, undone
from safetyd.web.link_view import LinkRow, LinkView
from safetyd.web.pages.page_frame import ago, moment, nonce_field, page, seen
from safetyd.web.pages.request_page import FormDraft, about, request_page

NOBODY: Final = "This link opens nothing"
NEEDLESS: Final = "It needs no answer any more."
_ASKED: Final = {"approved": "Approve", "denied": "Deny"}


def list_page(view: LinkView) -> str:
    """Return what still waits of what a message told of."""
    count = len(view.rows) + view.more
    heading = {0: "Nothing waits any more", 1: "1 request waits"}.get(count)
    rows = "".join(f"<li>{_row(row, view)}</li>" for row in view.rows)
    more = f"<p>And {view.more} more: <code>safetyd list</code> has them.</p>" if view.more else ""
    body = f"<h1>{heading or f'{count} requests wait'}</h1><ul>{rows}</ul>{more}"
    return page("Requests that wait for you", body, view.link.recipient)


def pairing_page(recipient: str, nonce: str) -> str:
    name = seen(recipient)
    body = (
        f"<h1>Let this browser answer for {name}?</h1>"
        f"<p>For 90 days it may approve what is sent to {name}, without the code of the message. "
        "Do this only in a browser that nobody else uses.</p>"
        f'<form method="post">{nonce_field(nonce)}<div class="buttons">'
        '<button class="yes" name="v" value="pair">Pair this browser</button></div></form>'
    )
    return page("Pair this browser", body)


def trial_page(nonce: str) -> str:
    body = (
        "<h1>The test message arrived</h1>"
        "<p>Its link opens this page. Press the button to show that answers come back as well.</p>"
        f'<form method="post">{nonce_field(nonce)}<div class="buttons">'
        '<button class="yes" name="v" value="test">It works</button></div></form>'
    )
    return page("A test of safetyd", body)


def told_page(title: str, *said: str, tone: str = "", command: str = "", about: str = "") -> str:
    """Return a page that only says something: paragraphs, a line for a terminal, agent's words."""
    paragraphs = "".join(f"<p>{seen(each)}</p>" for each in said if each)
    line = f'<code class="line">{seen(command)}</code>' if command else ""
    words = f"<h2>What it is about</h2><pre>{seen(about)}</pre>" if about else ""
    body = f'<h1 class="{escape(tone)}">{seen(title)}</h1>{paragraphs}{line}{words}'
    return page(title, body)


def _row(row: LinkRow, view: LinkView) -> str:
    left = "without an end" if row.deadline is None else _left(row.deadline, view)
    return (
        f'<a href="{escape(row.token)}">{seen(row.agent)}: {seen(row.type)}</a> '
        f'<span class="tag {escape(row.urgency)}">{escape(row.urgency)} urgency</span>'
        f'<span class="tag {escape(row.risk)}">{escape(row.risk)} risk</span>'
        f'<span class="soft">{left}</span>'
        f'<p class="soft">{_terms(row)}</p>{_words(row)}'
    )


def _terms(row: LinkRow) -> str:
    """Say whether it can be undone, and what stopped it."""
    said = (undone(row.reversibility), row.stopped_by)
    return seen("; stopped by ".join(filter(None, said)))


def _words(row: LinkRow) -> str:
    lack = f"<p>{seen(row.lack)}</p>" if row.lack else ""
    box = f"<pre>{seen(row.words)}</pre>" if row.words else ""
    return f"{lack}{box}"


def _left(deadline: datetime, view: LinkView) -> str:
    return f"{complete((deadline - view.at).total_seconds())} left"


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
    card = view.card
    at = moment(card["answer"]["at"], view.zone, view.at)
    title = f"{str(card['state']).capitalize()} at {at}"
    if not view.held:
        page = told_page(title, "The agent has been told.", tone="good", about=about(card))
        return ResultPage(HTTPStatus.OK, page)
    until = moment(card["valid_until"], view.zone, view.at)
    return ResultPage(
        HTTPStatus.OK,
        told_page(
            f"Recorded: {title[:1].lower()}{title[1:]}",
            f"But {view.held.removeprefix('a person approved this, and yet: ')}.",
            f"It is released only after that, if the agent asks again before {until}.",
            tone="warn",
            about=about(card),
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
            return ResultPage(
                HTTPStatus.CONFLICT, told_page(title, why, tone="warn", about=about(view.card))
            )
        case "expired":
            return ResultPage(HTTPStatus.GONE, _expired(view))
        case "cancelled":
            card = view.card
            when = moment(card["answer"]["at"], view.zone, view.at)
            page = told_page(f"Withdrawn at {when}", NEEDLESS, about=about(card))
            return ResultPage(HTTPStatus.GONE, page)
        case "old":
            return ResultPage(HTTPStatus.GONE, _old(view))
        case _:
            why = "It ended long ago: the audit files have how."
            return ResultPage(HTTPStatus.GONE, told_page("This request is over", why))


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
    why = "It may be mistyped, cut short or revoked. `safetyd list` has what waits."
    return ResultPage(HTTPStatus.NOT_FOUND, told_page(NOBODY, why))


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


def _decided(view: LinkView, wanted: str) -> ResultPage:
    card, answer = view.card, view.card["answer"]
    state, by = str(card["state"]), str(answer["by"])
    who = "you" if by == view.link.recipient else by
    at = moment(answer["at"], view.zone, view.at)
    title = f"Already {state} by {who} at {at}"
    how = f"It was answered via {answer['via']}."
    if not wanted or wanted == state:
        return ResultPage(HTTPStatus.OK, told_page(title, how, tone="good", about=about(card)))
    lost = f"Your {_ASKED[wanted]} was NOT applied."
    hint, command = _remedy(view)
    page = told_page(title, lost, how, hint, tone="bad", command=command, about=about(card))
    return ResultPage(HTTPStatus.CONFLICT, page)


def _remedy(view: LinkView) -> tuple[str, str]:
    """Return what whoever disagrees can still do."""
    card = view.card
    if card["state"] == "denied":
        return "It can be approved only if the agent asks again.", ""
    if card["used"]:
        return "The agent may have done it already.", ""
    return "To keep it from happening, stop the agent:", f"safetyd stop --agent {card['agent']}"


def _expired(view: LinkView) -> str:
    card = view.card
    title = f"Expired {ago(card['deadline'] or card['answer']['at'], view.at)} without an answer"
    hint = "If it is still wanted, the agent can ask again."
    return told_page(title, "It did not happen.", hint, about=about(card))


def _old(view: LinkView) -> str:
    title = "This link is too old"
    if not view.card:
        return told_page(title, "What waits:", command="safetyd list")
    approve, _ = facts_of_card(view.card).commands
    return told_page(title, "The request still waits:", command=approve)
