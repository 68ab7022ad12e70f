"""The feed: a new reader gets the whole page, then new rows; gaps are counted."""

import re
from contextlib import AsyncExitStack
from functools import partial
from html import unescape

import pytest

from safetyd.operators.contract.decision_contract import DecisionRow
from safetyd.web.control_room import live_pages
from safetyd.web.control_room.live_pages import CROWDED_S, ROWS, LivePage
from safetyd.web.control_room.page_content import CROWDED, FED, feed, feed_news
from safetyd.web.control_room.room_pages import FeedGap, News
from tests.web.control_room.room_site import Browser, LiveStream, Pushed, RoomSite
from tests.web.control_room.test_live import names, shown

BURST = 500


def ids(html: str) -> list[str]:
    """Return the decisions of rows, in their order."""
    return re.findall(r'href="/decisions/(\w+)"', html)


def numbers(first: int, last: int) -> list[str]:
    """Return the ids of proposals, newest first."""
    return [f"d{number}" for number in range(last, first - 1, -1)]


def gap(html: str) -> tuple[int, str]:
    """Return the count and the address of a gap."""
    ((address, count),) = re.findall(r'class="gap"><td[^>]*><a href="([^"]*)">([\d,]+) more', html)
    return int(count.replace(",", "")), unescape(address)


def happen(site: RoomSite, first: int, last: int, **fields: object) -> None:
    """Make so many decisions before anything is pushed."""
    for number in range(first, last + 1):
        site.proposes(f"d{number}", **fields)


async def content(stream: LiveStream) -> list[Pushed]:
    """Return the messages up to the next beat, without the bar and title."""
    told = await stream.until("beat")
    return [each for each in told if each.name not in {"beat", "bar", "title"}]


async def test_a_new_reader_gets_the_whole_feed_and_then_new_rows(
    site: RoomSite, alice: Browser
) -> None:
    happen(site, 1, 3)
    async with alice.live("/feed?what=decisions") as stream:
        (whole,) = await content(stream)
        happen(site, 4, 5)
        told = await stream.until("rows")
        happen(site, 6, 6)
        told += await stream.until("rows")

    assert (whole.name, ids(whole.content)) == ("main", numbers(1, 3))
    assert [ids(each.content) for each in told if each.name == "rows"] == [["d5", "d4"], ["d6"]]
    assert "main" not in names(told)


async def test_a_later_reader_gets_the_whole_feed_and_others_do_not(
    site: RoomSite, alice: Browser
) -> None:
    happen(site, 1, 1)
    async with alice.live("/feed?what=decisions") as first, site.browser("bob") as bob:
        await content(first)
        happen(site, 2, 2)
        await first.until("rows")
        async with bob.live("/feed?what=decisions") as second:
            whole = (await second.until("main"))[-1]
            happen(site, 3, 3)
            later = await second.until("rows")
            told = await first.until("rows")

    assert ids(whole.content) == numbers(1, 2)
    assert ids(later[-1].content) == ids(told[-1].content) == ["d3"]
    assert "main" not in names(told)


async def test_too_many_rows_are_counted_and_linked(site: RoomSite, alice: Browser) -> None:
    happen(site, 0, 0)
    async with alice.live("/feed?agent=code&what=decisions") as stream:
        await content(stream)
        happen(site, 1, BURST)
        happen(site, BURST + 1, 2 * BURST, agent="other")
        rows = (await stream.until("rows"))[-1].content
    count, address = gap(rows)
    found = ids(rows)
    behind = await alice.get(address)

    assert len(found) == CROWDED
    assert found == numbers(BURST - len(found) + 1, BURST)
    assert count == BURST - len(found)
    assert ids(behind.main) == numbers(count - FED + 1, count)
    assert "agent=code" in address


async def test_the_whole_feed_has_the_gaps_of_its_readers_and_goes_on_where_it_ends(
    site: RoomSite, alice: Browser
) -> None:
    happen(site, 1, FED)
    async with alice.live("/feed?what=decisions") as stream, AsyncExitStack() as later:
        await content(stream)
        happen(site, FED + 1, FED + BURST)
        rows = (await stream.until("rows"))[-1].content
        other = await later.enter_async_context(alice.live("/feed?what=decisions"))
        whole = (await other.until("main"))[-1].content
    above = ids(whole)
    older = unescape(re.findall(r'<p id="older"><a href="([^"]*)"', whole)[0])
    below = ids((await alice.get(older)).main)

    assert gap(whole) == gap(rows)
    assert above == ids(rows) + numbers(CROWDED + 2, FED)
    assert len(re.findall("<tr id=", whole)) == FED
    assert below[0] == f"d{int(above[-1][1:]) - 1}"


@pytest.mark.parametrize(
    ("count", "room", "rows"),
    [(CROWDED, 0, CROWDED), (CROWDED + 1, 0, CROWDED), (FED, FED, FED), (FED + 1, FED, CROWDED)],
)
async def test_rows_are_left_out_only_if_there_is_no_room_for_all(
    site: RoomSite, alice: Browser, count: int, room: int, rows: int
) -> None:
    ask = partial(site.gateway.ask, "alice")
    params = {"what": "decisions"}
    happen(site, 0, 0)
    before = await feed(ask, params)
    happen(site, 1, count)

    news = await feed_news(ask, params, before, room)

    assert news is not None
    assert [row.id for row in news.rows[:rows] if isinstance(row, DecisionRow)] == numbers(
        count - rows + 1, count
    )
    assert [row.count for row in news.rows[rows:] if isinstance(row, FeedGap)] == [count - rows] * (
        rows < count
    )
    assert news.crowded is (rows < count)


async def test_the_first_row_of_an_empty_feed_comes_with_its_table(
    site: RoomSite, alice: Browser
) -> None:
    happen(site, 1, 2, agent="other")
    async with alice.live("/feed?agent=code&what=decisions") as stream:
        (empty,) = await content(stream)
        happen(site, 3, 3, agent="other")
        happen(site, 4, 5)
        told = await stream.until("main")

    assert "No matching events" in empty.content
    assert ids(told[-1].content) == ["d5", "d4"]
    assert "<table" in told[-1].content
    assert "rows" not in names(told)


async def test_older_rows_of_the_feed_do_not_change(site: RoomSite, alice: Browser) -> None:
    happen(site, 1, 5)
    seq = re.findall(r'id="seq-(\d+)"', (await alice.get("/feed?what=decisions")).main)[2]
    async with alice.live(f"/feed?before={seq}") as stream:
        (whole,) = await content(stream)
        happen(site, 6, 6)
        site.asks("p7")
        told = await stream.until("bar", "1 pending")
        told += await stream.until("beat")

    assert ids(whole.content) == ["d2", "d1"]
    assert set(names(told)) == {"bar", "beat"}


async def test_after_a_problem_the_whole_feed_comes_back(site: RoomSite, alice: Browser) -> None:
    happen(site, 1, 1)
    async with alice.live("/feed?what=decisions") as stream:
        await content(stream)
        site.problem = "the journal cannot be written"
        await stream.until("main", "the journal cannot be written")
        happen(site, 2, 2)
        site.problem = ""
        told = await stream.until("main", "<table")

    assert ids(told[-1].content) == ["d2", "d1"]
    assert "rows" not in names(told)


async def test_more_than_is_kept_in_memory_is_shown_whole(
    site: RoomSite, alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.monitoring.recent_events.MAX_EVENTS", 2 * FED)
    monkeypatch.setattr("safetyd.monitoring.recent_events._SLACK", 0)
    happen(site, 1, 1)
    async with alice.live("/feed?what=decisions") as stream:
        await content(stream)
        happen(site, 2, BURST)
        told = await stream.until("main")

    assert ids(told[-1].content) == numbers(BURST - FED + 1, BURST)
    assert "rows" not in names(told)


def test_as_many_rows_are_pushed_as_a_reader_can_take_in(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(live_pages, "uptime", lambda: now)
    page = LivePage(shown("/feed"))
    at_once = page.room
    page.take(News([FeedGap(1, 1)] * FED, {}))
    then = page.room
    now = 0.1

    assert (at_once, then) == (FED, 0)
    assert page.room == ROWS.per_s / 10
    assert page.rest_s == 0.0


def test_after_more_than_anybody_can_read_the_next_rows_take_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(live_pages, "uptime", lambda: now)
    page = LivePage(shown("/feed"))
    page.take(News((), {}, crowded=True))
    rests = page.rest_s
    now = CROWDED_S

    assert rests == CROWDED_S
    assert page.rest_s == 0.0


async def test_the_last_rows_of_a_crowd_are_not_kept_back(site: RoomSite, alice: Browser) -> None:
    happen(site, 1, 1)
    async with alice.live("/feed?what=decisions") as stream:
        await content(stream)
        happen(site, 2, BURST)
        await stream.until("rows")
        happen(site, BURST + 1, BURST + 2)
        told = await stream.until("rows")

    assert ids(told[-1].content) == numbers(BURST + 1, BURST + 2)
