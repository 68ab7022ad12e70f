"""Live pages: what is pushed to which reader."""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
import anyio
import pytest
from markupsafe import Markup

from safetyd.operators.contract.session_contract import SessionEndCommand
from safetyd.web.control_room import live_pages
from safetyd.web.control_room.live_pages import LivePage, LivePages, PageReader, View, message
from safetyd.web.control_room.page_content import PAGES
from safetyd.web.control_room.room_pages import Context, RoomPages, Shown
from safetyd.web.control_room.room_rendering import Parts
from tests.servers import until
from tests.web.control_room.room_site import Browser, Pushed, RoomSite

NAMES = ["bar", "main", "title", "beat"]


def names(pushed: list[Pushed]) -> list[str]:
    return [each.name for each in pushed]


async def refusal(browser: Browser, page: str, **headers: str) -> int:
    """Return the status with which a stream is refused."""
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with browser.live(page, **headers):
            pass
    return refused.value.status


async def test_the_first_push_has_all_parts_and_then_there_are_beats(
    site: RoomSite, alice: Browser
) -> None:
    page = await alice.get("/agents")
    async with alice.live("/agents") as stream:
        first = [await stream.next() for _ in NAMES]
        beat = await stream.next()

    told = {each.name: each.content for each in first if each is not None}
    assert [*told] == NAMES
    assert told["bar"] in page.bar
    assert told["main"].strip() in page.main
    assert told["title"] == "Agents"
    assert beat == Pushed("beat", site.clock.now().at.isoformat())


async def test_a_change_is_pushed_and_what_is_the_same_is_not_sent_again(
    site: RoomSite, alice: Browser
) -> None:
    async with alice.live("/breakers") as stream:
        await stream.until("beat")
        site.asks()
        told = await stream.until("bar", "1 pending")
        told += await stream.until("beat")

    assert set(names(told)) == {"bar", "beat"}


async def test_the_answer_of_one_person_is_pushed_to_another(
    site: RoomSite, alice: Browser
) -> None:
    ref = site.asks()
    async with site.browser("bob") as bob, bob.live(f"/requests/{ref}") as stream:
        await stream.until("main", "answer-")
        await alice.post("/requests", do="deny", id=ref)
        told = await stream.until("main", "Denied by alice via web")

    assert "answer-" not in told[-1].content


async def test_tokens_are_everybodys_own(site: RoomSite, alice: Browser) -> None:
    site.asks()
    async with (
        site.browser("bob") as bob,
        alice.live("/safe-mode") as own,
        bob.live("/safe-mode") as other,
    ):
        for stream, mine, not_mine in ((own, alice, bob), (other, bob, alice)):
            told = await stream.until("main")
            assert f'name="token" value="{mine.token}"' in told[-1].content
            assert not any(not_mine.token in each.content for each in told)
            assert not any("token-" in each.content for each in told)


async def test_an_observer_is_pushed_no_forms(site: RoomSite, alice: Browser, eve: Browser) -> None:
    async with alice.live("/safe-mode") as acting, eve.live("/safe-mode") as looking:
        acts = await acting.until("main")
        looks = await looking.until("main")

    assert any("<form" in each.content for each in acts)
    assert not any("<form" in each.content for each in looks)


@pytest.mark.parametrize("how", ["session", "key", "role", "signed out"])
async def test_a_stream_ends_with_what_permits_it(site: RoomSite, alice: Browser, how: str) -> None:
    async with alice.live("/") as stream:
        await stream.until("beat")
        match how:
            case "session":
                site.entrance.end("bob", SessionEndCommand(operator="alice"))
            case "key":
                del site.people["alice"]
            case "role":
                site.people["alice"] = "observer"
            case _:
                await alice.send("/signout", {"token": alice.token}, {})
        await stream.end()


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://x"}])
async def test_pages_of_others_are_pushed_nothing(
    site: RoomSite, alice: Browser, headers: dict[str, str]
) -> None:
    assert await refusal(alice, "/", **headers) == 403


@pytest.mark.parametrize("page", ["", "/nowhere", "/" + "x" * 8000, "http://[", "/metrics"])
async def test_an_address_without_a_page_is_pushed_the_bar_alone(
    site: RoomSite, alice: Browser, page: str
) -> None:
    async with alice.live(page) as stream:
        told = await stream.until("beat")
        site.asks()
        told += await stream.until("bar", "1 pending")

    assert {pushed.name for pushed in told} <= {"bar", "beat"}


async def test_a_page_is_pushed_over_a_websocket_only(site: RoomSite, alice: Browser) -> None:
    assert (await alice.get("/live?page=/")).status == 426


async def test_only_so_many_pages_are_open(
    site: RoomSite, alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_pages, "MAX_OPEN", 2)
    async with alice.live("/") as first, alice.live("/") as second:
        await first.until("beat")
        await second.until("beat")
        assert await refusal(alice, "/") == 503
    async with alice.live("/") as again:
        await again.until("beat")


async def test_words_of_an_agent_in_a_title_are_no_html(site: RoomSite, alice: Browser) -> None:
    evil = '<img/src="/stop">'
    ref = site.asks(type=evil)
    page = await alice.get(f"/requests/{ref}")
    async with alice.live(f"/requests/{ref}") as stream:
        told = await stream.until("title")

    assert "&lt;img/src=" in told[-1].content
    assert not any(evil in each.content for each in told)
    assert evil not in page.text
    assert "<title>&lt;img/src=" in page.text


async def test_a_page_that_is_not_there_keeps_its_content_and_its_bar_is_live(
    site: RoomSite, alice: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    async with alice.live("/agents/nobody") as stream:
        told = await stream.until("beat")
        site.asks()
        told += await stream.until("bar", "1 pending")

    assert set(names(told)) == {"bar", "beat"}
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("address", ["/", "/feed", "/agents", "/requests"])
async def test_an_idle_page_is_never_rendered_again(
    site: RoomSite, alice: Browser, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    loaded, rendered = Counter[str](), Counter[str]()
    differs, put = LivePage.differs, LivePage.put

    def load(page: LivePage, *contexts: Context) -> bool:
        loaded[address] += 1
        return differs(page, *contexts)

    def render(page: LivePage, parts: Parts) -> None:
        rendered[address] += 1
        put(page, parts)

    monkeypatch.setattr(LivePage, "differs", load)
    monkeypatch.setattr(LivePage, "put", render)
    monkeypatch.setattr(live_pages, "LATEST_S", 0.02)
    monkeypatch.setattr(live_pages, "SOONEST_S", 0.01)
    site.asks()
    async with alice.live(address) as stream:
        await stream.until("beat")
        before, seen = rendered.total(), loaded.total()
        await until(lambda: loaded.total() > seen + 10)
        idle = rendered.total() - before
        site.asks("p2")
        await stream.until("bar", "2 pending")

    assert before
    assert not idle


async def test_while_the_journal_cannot_be_written_pages_say_so_and_come_back(
    site: RoomSite, alice: Browser
) -> None:
    async with alice.live("/agents") as stream:
        await stream.until("beat")
        site.problem = "the journal cannot be written"
        await stream.until("main", "the journal cannot be written")
        site.problem = ""
        await stream.until("main", "No agent has connected yet")


def shown(address: str) -> Shown:
    found = RoomPages(PAGES).find(address)
    assert found is not None
    return found


class Made:
    """Makes parts that say how often they were made; `fails` names a page that cannot be."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.fails = ""
        self.pages = LivePages(self.make)

    async def make(
        self,
        page: LivePage,
        may_act: bool,  # noqa: FBT001 - of a view
    ) -> Callable[[], Parts]:
        self.made.append(page.shown.address)
        if page.shown.address == self.fails:
            raise ZeroDivisionError
        parts = Parts(Markup("bar"), Markup(str(len(self.made))), Markup(may_act))
        return lambda: parts

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator["Made"]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.pages.run)
            yield self
            tasks.cancel_scope.cancel()


async def test_a_view_of_many_readers_is_made_once() -> None:
    made = Made()
    view = View("/", may_act=True)
    pages = [made.pages.join(view, shown("/"), "web_1") for _ in range(200)]
    other = made.pages.join(View("/", may_act=False), shown("/"), "web_1")
    async with made.at_work():
        await until(lambda: other.version)

    assert made.made == ["/", "/"]
    assert len(set(map(id, pages))) == 1
    assert pages[0] is not other


async def test_a_view_that_nobody_looks_at_is_not_made() -> None:
    made = Made()
    view = View("/", may_act=True)
    made.pages.join(view, shown("/"), "web_1")
    made.pages.join(view, shown("/"), "web_1")
    made.pages.leave(view, "web_1")
    full = made.pages._open.copy()
    made.pages.leave(view, "web_1")
    money = made.pages.join(View("/money", may_act=True), shown("/money"), "web_1")
    async with made.at_work():
        await until(lambda: money.version)

    assert len(full) == 1
    assert made.made == ["/money"]


async def test_events_without_readers_make_nothing_due() -> None:
    made = Made()
    made.pages.observe([])

    assert not made.pages._due.is_set()


async def test_a_page_that_cannot_be_made_does_not_end_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = Made()
    made.fails = "/"
    broken = made.pages.join(View("/", may_act=True), shown("/"), "web_1")
    money = made.pages.join(View("/money", may_act=True), shown("/money"), "web_1")
    async with made.at_work():
        await until(lambda: money.version == 2)
        made.fails = ""
        made.pages.observe([])
        await until(lambda: broken.version)

    assert "/ cannot be shown" in caplog.text


FIRST = Parts(Markup("bar"), Markup("main"), Markup("title"))


def rows(name: str, main: str = "") -> Parts:
    return Parts(Markup("bar"), Markup(main), Markup("title"), Markup(name))


async def test_rows_are_encoded_once_for_all_who_have_what_they_come_on_top_of() -> None:
    page = LivePage(shown("/feed"))
    page.put(FIRST)
    readers = [PageReader(page) for _ in range(3)]
    before = {await reader.news(0.0) for reader in readers}
    page.put(rows("1"))
    after = [await reader.news(0.0) for reader in readers]

    assert before == {(message("bar", "bar"), message("main", "main"), message("title", "title"))}
    assert after == [(page.rows,)] * 3
    assert page.rows == message("rows", "1")
    assert not page.wanted


async def test_a_reader_that_lags_behind_gets_the_whole_page_again() -> None:
    page = LivePage(shown("/feed"))
    page.put(FIRST)
    slow, quick = PageReader(page), PageReader(page)
    await slow.news(0.0), await quick.news(0.0)
    told = []
    for number in ("1", "2"):
        page.put(rows(number))
        told.append(await quick.news(0.0))
    missed, wanted = await slow.news(0.0), page.wanted
    page.put(rows("", main="whole"))

    assert told == [(message("rows", "1"),), (message("rows", "2"),)]
    assert (missed, wanted) == ((), True)
    assert await slow.news(0.0) == (message("main", "whole"),)
    assert await quick.news(0.0) == ()
    assert not page.wanted
    page.put(rows("3"))
    assert await slow.news(0.0) == await quick.news(0.0) == (message("rows", "3"),)


async def test_new_readers_get_the_page_and_others_only_new_rows() -> None:
    page = LivePage(shown("/feed"))
    page.put(FIRST)
    had, joins = PageReader(page), PageReader(page)
    await had.news(0.0)
    page.put(rows("1", main="1 main"))

    assert await had.news(0.0) == (message("rows", "1"),)
    assert message("main", "1 main") in await joins.news(0.0)


async def test_a_page_that_could_not_be_made_is_asked_for_anew() -> None:
    made = Made()
    page = made.pages.join(View("/feed", may_act=True), shown("/feed"), "web_1")
    page.content = {"rows": []}
    made.fails = "/feed"
    async with made.at_work():
        await until(lambda: page.content is None)


async def test_parts_that_are_the_same_are_no_news() -> None:
    page = Made().pages.join(View("/", may_act=True), shown("/"), "web_1")
    parts = Parts(Markup("bar"), Markup("main"), Markup("title"))
    page.put(parts)
    page.put(Parts(*parts))

    assert page.version == 1
    assert await page.newer(0, 0.0)
    assert not await page.newer(1, 0.0)
