"""Finds the page of a URL in the control room, with its parameters."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from safetyd.operators.contract.decision_contract import Row
from safetyd.operators.contract.question import Question
from safetyd.operators.replies import CommandRefused, Done

Context = dict[str, Any]
Params = Mapping[str, str]  # the parameters in a URL's path and query
Answer = TypeVar("Answer", bound=Done)


class Ask(Protocol):
    """Sends a query on behalf of an operator."""

    async def __call__(self, question: Question[Answer], /) -> Answer: ...


Load = Callable[[Ask, Params], Awaitable[Context]]
# Loads the rows that are newer than some content, up to a number of rows. If it returns None,
# everything has to be loaded again.
LoadNews = Callable[[Ask, Params, Context, int], Awaitable["News | None"]]

MAX_ADDRESS: Final = 8000
MAX_FIELDS: Final = 300


class FeedGap(msgspec.Struct, frozen=True):
    """A gap in the feed: `count` rows are left out before the event with the number `before`."""

    count: int
    before: int


class News(NamedTuple):
    """The new rows of a page, and the content of the page including them.

    `crowded` is True if there were more new rows than anyone can read.
    """

    rows: Sequence[Row | FeedGap]
    content: Context
    crowded: bool = False


class Page(NamedTuple):
    """A page. `heading` is its name in the menu, if any; `news` loads only new rows.

    The menu of a daemon with an embedded bus has no `clustered` pages.
    """

    path: str
    template: str
    title: str
    load: Load
    heading: str = ""
    news: LoadNews | None = None
    clustered: bool = False


class Shown(NamedTuple):
    """A page with the parameters of its URL."""

    page: Page
    address: str
    params: Params


async def _no_page(_ask: Ask, _params: Params) -> Context:
    raise CommandRefused("not_found", "no page has this address")


NOWHERE: Final = Shown(Page("/nowhere", "refused.html", "Not found", _no_page), "/nowhere", {})


class RoomPages:
    def __init__(self, pages: Iterable[Page]) -> None:
        self.all = tuple(pages)
        self._patterns = [(_pattern(page.path), page) for page in self.all]

    def find(self, address: str) -> Shown:
        """Return the page at a URL, or `NOWHERE`."""
        if len(address) > MAX_ADDRESS:
            return NOWHERE
        try:
            parts = urlsplit(address)
            query = _joined(parse_qsl(parts.query, max_num_fields=MAX_FIELDS))
        except ValueError:
            return NOWHERE
        for pattern, page in self._patterns:
            if found := pattern.fullmatch(parts.path):
                named = {name: unquote(value) for name, value in found.groupdict().items()}
                return Shown(page, address, {**query, **named})
        return NOWHERE


def _joined(query: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the values of each parameter, joined by spaces."""
    found: dict[str, list[str]] = {}
    for name, value in query:
        found.setdefault(name, []).append(value)
    return {name: " ".join(values) for name, values in found.items()}


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path))
