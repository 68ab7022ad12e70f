"""Pages that update while they are open: rendered once for all readers, and pushed.

The whole feed is pushed once, and after that only its new rows. A reader who misses rows gets the
whole page again.

After every commit, and every second, all open pages are due to be loaded. A page whose content is
still the same is not rendered. The others are rendered one after the other, with pauses in
proportion to the work, so that the daemon has most of its time for agents, no matter how many
readers there are. Waiting for the engine's answer does not count as work.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import anyio
from markupsafe import Markup
from msgspec.structs import asdict

from safetyd.clock import uptime, worked
from safetyd.core.events.event import Event
from safetyd.core.token_bucket import Refill, TokenBucket
from safetyd.operators.replies import Done
from safetyd.web.control_room.room_pages import Context, News, Shown
from safetyd.web.control_room.room_rendering import Parts

SOONEST_S: Final = 0.1
RESTS: Final = 20.0  # the pause after a rendering, as a multiple of the rendering's duration
LATEST_S: Final = 1.0  # some values, such as rate limits, change without an event
CROWDED_S: Final = 0.25  # the pause between two pushes of rows, while there are too many to read
ROWS: Final = Refill(per_s=400.0, burst=100.0)  # limits the rows that are pushed
WHOLE: Final = ("bar", "main", "title")  # parts that are always sent whole
MAX_OPEN: Final = 256
MAX_OF_ONE: Final = 12  # open pages of one browser; more would delay the pages of others

log = logging.getLogger("safetyd.web")


class View(NamedTuple):
    """A page for operators, with buttons, or for observers. Several browsers share one view."""

    address: str
    may_act: bool


class LivePage:
    """The newest parts of a view, encoded for readers that wait for changes.

    `content` is reused if only new rows are loaded. `wanted` is True if a reader who has just
    joined or has missed rows needs the whole page.
    """

    def __init__(self, shown: Shown) -> None:
        self.shown = shown
        self.content: Context | None = None
        self.wanted = False
        self.rendered: tuple[Context, ...] = ()  # what it was rendered from
        self.edition = 0  # the version of the content
        self.rows = b""  # the rows that turn the previous edition into this one, if any
        self.messages: dict[str, bytes] = {}
        self.version = 0
        self.readers = 0
        self._html: dict[str, Markup] = {}
        self._rows = TokenBucket()
        self._rests_until = 0.0
        self._changed = anyio.Event()

    def take(self, news: News) -> None:
        """Store the new content and count its rows."""
        self.content = news.content
        self._rows.tokens -= len(news.rows)
        self._rests_until = uptime() + CROWDED_S if news.crowded else 0.0

    def differs(self, *contents: Context) -> bool:
        """Note what the page is rendered from. Return whether more than the time has changed."""
        before, self.rendered = self.rendered, tuple(map(_timeless, contents))
        return self.rendered != before

    @property
    def room(self) -> int:
        """The number of rows that may be pushed now."""
        return int(ROWS.fill(self._rows, uptime()))

    @property
    def rest_s(self) -> float:
        """Seconds until the next rows may be pushed."""
        return max(0.0, self._rests_until - uptime())

    def put(self, parts: Parts) -> None:
        said: dict[str, Markup] = {name: getattr(parts, name) for name in WHOLE}
        news = {name: html for name, html in said.items() if html and html != self._html.get(name)}
        if parts.rows or ("main" in news and parts.rows is None):
            self.edition += 1
            self.rows = message("rows", parts.rows) if parts.rows else b""
            self._html.pop("main", None)
            self.messages.pop("main", None)
        elif not news:
            return
        self._html |= news
        self.messages |= {name: message(name, html) for name, html in news.items()}
        self.wanted = self.wanted and "main" not in news
        self.version += 1
        self._changed.set()
        self._changed = anyio.Event()

    async def newer(self, version: int, within_s: float) -> bool:
        """Wait for a newer version. Return True if there is one."""
        if self.version == version:
            with anyio.move_on_after(within_s):
                await self._changed.wait()
        return self.version != version


class PageReader:
    """The parts of a page that one reader has received."""

    def __init__(self, page: LivePage) -> None:
        self._page = page
        self._version = 0
        self._edition = 0
        self._sent: dict[str, bytes] = {}

    async def news(self, within_s: float) -> tuple[bytes, ...]:
        """Wait for changes and return the messages that this reader lacks."""
        if not await self._page.newer(self._version, within_s):
            return ()
        self._version = self._page.version
        parts = (self._changed("bar"), self._content(), self._changed("title"))
        return tuple(part for part in parts if part)

    def _changed(self, name: str) -> bytes:
        said = self._page.messages.get(name, b"")
        if said is self._sent.get(name):
            return b""
        self._sent[name] = said
        return said

    def _content(self) -> bytes:
        page, had = self._page, self._edition
        if had == page.edition:
            return b""
        said = page.rows if had == page.edition - 1 else b""
        said = said or page.messages.get("main", b"")
        if said:
            self._edition = page.edition
        else:
            page.wanted = True
        return said


Make = Callable[[LivePage, bool], Awaitable[Callable[[], Parts] | None]]


class LivePages:
    """`make` loads the content of a page and returns a function that renders it.

    It returns None if the page is rendered already.
    """

    def __init__(self, make: Make) -> None:
        self._make = make
        self._worked_s = 0.0
        self._open: dict[View, LivePage] = {}
        self._due = anyio.Event()
        self._of: Counter[str] = Counter()  # pages of each browser

    def full(self, browser: str) -> bool:
        return self._of[browser] >= MAX_OF_ONE or self._of.total() >= MAX_OPEN

    def observe(self, _events: Sequence[Event]) -> None:
        """Mark open pages as due after a commit."""
        if self._open:
            self._due.set()

    def join(self, view: View, shown: Shown, browser: str) -> LivePage:
        """Return a page that is updated until the reader leaves."""
        self._of[browser] += 1
        page = self._open.setdefault(view, LivePage(shown))
        page.readers += 1
        page.wanted = "main" not in page.messages
        self._due.set()
        return page

    def leave(self, view: View, browser: str) -> None:
        self._of[browser] -= 1
        if not self._of[browser]:
            del self._of[browser]
        page = self._open[view]
        page.readers -= 1
        if not page.readers:
            del self._open[view]

    async def run(self) -> None:
        """Render due pages forever."""
        while True:
            with anyio.move_on_after(self._latest_s()):
                await self._due.wait()
            self._due = anyio.Event()
            self._worked_s = 0.0
            for view, page in tuple(self._open.items()):
                await self._renew(view, page)
            await anyio.sleep(max(SOONEST_S, RESTS * self._worked_s))

    def _latest_s(self) -> float | None:
        """Return the longest time between renderings; None if no page is open."""
        rests = [page.rest_s or LATEST_S for page in self._open.values()]
        return min(rests, default=None)

    async def _renew(self, view: View, page: LivePage) -> None:
        try:
            make = await self._make(page, view.may_act)
            if make is None:
                return
            begun = worked()
            page.put(make())
            self._worked_s += worked() - begun
        except Exception:  # a page that cannot be rendered must not end the daemon
            page.content, page.rendered = None, ()
            log.exception("%s cannot be shown", page.shown.page.path)


def _timeless(content: Context) -> Context:
    """Return the content of answers without the time when they were given."""
    found = {name: value for name, value in content.items() if name != "at"}
    answers = {name: asdict(value) for name, value in found.items() if isinstance(value, Done)}
    return found | {name: _timeless(answer) for name, answer in answers.items()}


def message(name: str, content: str) -> bytes:
    """Encode a part for sending: its name in the first line, then its content."""
    return f"{name}\n{content}".encode()
