"""Renders answers to HTML: whole pages, and the parts of them that are pushed.

Parts are the same for all visitors with the same role, so one rendering serves many browsers. Only
the form token differs; it is inserted last.
"""

import secrets
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from jinja2 import Environment
from markupsafe import Markup, escape

from safetyd.html_templates import environment
from safetyd.operators.contract.decision_contract import Row
from safetyd.web.control_room.room_assets import RoomAssets
from safetyd.web.control_room.room_pages import FeedGap, News, Page, Shown
from safetyd.web.control_room.template_filters import FILTERS
from safetyd.web.control_room.web_sessions import Note

Context = Mapping[str, Any]

MAX_FEED_ROWS: Final = 2000  # cached as HTML

# An unguessable placeholder for the visitor's form token.
TOKEN: Final = f"token-{secrets.token_hex(16)}"

# The page loads only our files, runs nothing inline, cannot be framed, and posts only to us.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Reader(NamedTuple):
    """The visitor: an operator, or an observer, who cannot act."""

    name: str
    may_act: bool


class Parts(NamedTuple):
    """The parts of a page that are pushed. An empty part did not change.

    `rows` are added above the rows that a reader has; `main` already includes them.
    """

    bar: Markup
    main: Markup
    title: Markup
    rows: Markup | None = None


class RoomRendering:
    """`menu` lists the pages in the menu."""

    def __init__(self, assets: RoomAssets, menu: tuple[Page, ...]) -> None:
        self._assets = assets
        self._menu = menu
        self._environment = _environment()
        self._feed_rows: dict[int, Markup] = {}  # rendered rows by event number

    def parts(self, shown: Shown, bar: Context, content: Context, *, may_act: bool) -> Parts:
        """Render the changing parts of a page, for operators or for observers."""
        known = self._known(shown, bar, may_act=may_act)
        return Parts(
            bar=self._render("room/bar.html", **known),
            main=self._render(f"room/{shown.page.template}", **known, **content),
            title=escape(content.get("title") or shown.page.title),
        )

    def bar_alone(self, shown: Shown, bar: Context, *, may_act: bool) -> Parts:
        """Render only the top bar."""
        known = self._known(shown, bar, may_act=may_act)
        return Parts(self._render("room/bar.html", **known), Markup(""), Markup(""))

    def news(self, shown: Shown, bar: Context, news: News, *, may_act: bool, whole: bool) -> Parts:
        """Render new rows; with `whole`, also the page for readers that lack older rows."""
        here = news.content["here"]
        rows = Markup("").join(self._feed_row(row, here) for row in news.rows)
        if whole:
            parts = self.parts(shown, bar, news.content, may_act=may_act)
        else:
            parts = self.bar_alone(shown, bar, may_act=may_act)
        return parts._replace(rows=rows)

    def _known(self, shown: Shown, bar: Context, *, may_act: bool) -> dict[str, Any]:
        acts = may_act and not bar.get("standby")  # a standby accepts only stops
        known = {"may_act": acts, "may_stop": may_act, "address": shown.address, "bar": bar}
        return {**known, "feed_row": self._feed_row}

    def whole(self, shown: Shown, parts: Parts, reader: Reader, token: str, note: Note) -> str:
        """Render a whole page."""
        html = self._render(
            "room/frame.html",
            assets=self._assets,
            menu=self._menu,
            here=shown.page.path,
            address=shown.address,
            parts=parts,
            reader=reader,
            note=note,
        )
        return personal(html, token)

    def plain(self, title: str, body: str, **values: object) -> str:
        """Render a page for a visitor who is not signed in."""
        return self._render(
            "room/plain.html", assets=self._assets, title=title, body=body, **values
        )

    def _feed_row(self, row: Row | FeedGap, here: str = "") -> Markup:
        """Return a row of the feed, rendered once: committed events never change."""
        if isinstance(row, FeedGap):
            return self._render("room/feed_gap.html", gap=row, here=here)
        seq = row.seq
        if seq not in self._feed_rows:
            self._feed_rows[seq] = self._render("room/feed_row.html", row=row)
            if len(self._feed_rows) > MAX_FEED_ROWS:
                del self._feed_rows[next(iter(self._feed_rows))]
        return self._feed_rows[seq]

    def _render(self, template: str, **values: object) -> Markup:
        """Render a template to HTML that is not escaped again."""
        html = self._environment.get_template(template).render(values)
        return Markup(html)  # noqa: S704 - a template made it


@cache
def _environment() -> Environment:
    """Return the templates. They are compiled only once, because compiling takes a second."""
    made = environment("safetyd.web", begin="room/", **FILTERS)
    made.globals["token"] = TOKEN
    return made


def personal(html: str, token: str) -> str:
    """Insert the visitor's token into forms."""
    return html.replace(TOKEN, token)


def personal_bytes(html: bytes, token: str) -> bytes:
    return html.replace(TOKEN.encode(), token.encode())
