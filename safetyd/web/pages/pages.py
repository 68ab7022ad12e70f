"""The pages behind links, but for the card of a request: pure functions to HTML."""

from datetime import datetime
from html import escape

from safetyd.web.link_view import Row, Sight
from safetyd.web.pages.page_frame import nonce_field, page, seen
from safetyd.web.pages.times import span


def list_page(sight: Sight) -> str:
    """Return what still waits of what a message told of."""
    count = len(sight.rows) + sight.more
    heading = {0: "Nothing waits any more", 1: "1 request waits"}.get(count)
    rows = "".join(f"<li>{_row(row, sight)}</li>" for row in sight.rows)
    more = (
        f"<p>And {sight.more} more: <code>safetyd list</code> has them.</p>" if sight.more else ""
    )
    body = f"<h1>{heading or f'{count} requests wait'}</h1><ul>{rows}</ul>{more}"
    return page("Requests that wait for you", body, sight.link.recipient)


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


def _row(row: Row, sight: Sight) -> str:
    left = "without an end" if row.deadline is None else _left(row.deadline, sight)
    return (
        f'<a href="{escape(row.token)}">{seen(row.agent)}: {seen(row.type)}</a> '
        f'<span class="tag {escape(row.urgency)}">{escape(row.urgency)} urgency</span>'
        f'<span class="tag {escape(row.risk)}">{escape(row.risk)} risk</span>'
        f'<span class="soft">{left}</span>'
        f'<p class="soft">{_terms(row)}</p>{_words(row)}'
    )


def _terms(row: Row) -> str:
    """Say whether it can be undone, and what stopped it."""
    known = row.reversibility != "unknown"
    undone = row.reversibility.replace("_", " ") if known else "nobody knows if it can be undone"
    return seen("; stopped by ".join(filter(None, (undone, row.stopped_by))))


def _words(row: Row) -> str:
    lack = f"<p>{seen(row.lack)}</p>" if row.lack else ""
    box = f"<pre>{seen(row.words)}</pre>" if row.words else ""
    return f"{lack}{box}"


def _left(deadline: datetime, sight: Sight) -> str:
    return f"{span((deadline - sight.at).total_seconds())} left"
