"""The control room in a real browser: overview, keyboard review, phone layout."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
from playwright.async_api import Browser, Page, expect

from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import Paused, SafeModeEntered
from safetyd.core.events.request_events import Answered
from safetyd.operators.contract.status_contract import StatusQuestion
from safetyd.web.control_room.page_content import ROWS
from tests.story import at, stop
from tests.web.browser import PHONE, WAIT_MS, chromium, visitor
from tests.web.control_room.room_site import RoomSite
from tests.web.control_room.test_pages import much_happens

expect.set_options(timeout=WAIT_MS)

# The red, green and blue of an element's background, from 0 to 255.
COLOUR: Final = "e => getComputedStyle(e).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
# Whether a part of an element is hidden behind the edge of the window or below another element.
IN_SIGHT: Final = """e => {
  const {left, top, bottom} = e.getBoundingClientRect();
  const seen = document.elementFromPoint(left + 4, (top + bottom) / 2);
  return top >= 0 && bottom <= innerHeight && (e === seen || e.contains(seen));
}"""
# The distance from the end of an element to the end of the window.
BELOW: Final = "e => innerHeight - e.getBoundingClientRect().bottom"
ROW_PX: Final = 60  # of a request in the list

# Approves something else than what is shown; at once, before the page is renewed.
ANOTHER_DIGEST: Final = """() => {
  document.querySelector("[name=digest]").value = "sha256:other";
  document.querySelector("button[value=approve]").click();
}"""


@pytest.fixture(scope="module")
async def chrome() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@asynccontextmanager
async def looking(
    site: RoomSite, chrome: Browser, path: str = "/", **options: object
) -> AsyncIterator[Page]:
    """Open a page as alice."""
    async with visitor(chrome, base_url=site.url, **options) as page:
        await page.goto(site.link("alice"))
        await page.wait_for_url(f"{site.url}/")
        if path != "/":
            await page.goto(path)
        yield page


async def test_overview_shows_the_numbers_of_status_and_how_to_end_what_is_held(
    site: RoomSite, chrome: Browser
) -> None:
    much_happens(site)
    site.asks("urgent", agent="ops-2", urgency="high")
    status = await site.gateway.ask("bob", StatusQuestion())

    async with looking(site, chrome) as page:

        async def big(tile: str) -> str:
            return await page.locator(f"#tile-{tile} .big").inner_text()

        assert await big("requests") == str(status.requests.pending)
        assert await big("agents") == str(status.agents)
        assert await big("money") == f"${status.today.spent:,.2f}"
        assert await big("breakers") == f"{status.tripped} open"
        assert await big("anomalies") == str(status.found)
        states = await page.locator("#tile-agents span").all_inner_texts()
        assert states == [
            f"{count} {state.replace('_', ' ')}" for state, count in status.agent_states.items()
        ]
        assert sum(status.agent_states.values()) == status.agents
        urgencies = [(row.urgency, row.pending) for row in status.requests.by_urgency]
        assert urgencies == [("high", 1), ("normal", status.requests.pending - 1)]
        await expect(page.locator("#tile-requests")).to_contain_text("1 high")
        trouble = page.locator(".trouble")
        await expect(trouble).to_contain_text("1 urgent request")
        await trouble.get_by_text("Leave safe mode…").click()
        await page.wait_for_url("**/safe-mode")
        await page.go_back()
        await page.locator("#tile-breakers").click()
        await page.wait_for_url("**/breakers")


async def test_keyboard_review_answers_the_whole_list_in_the_order_that_is_shown(
    site: RoomSite, chrome: Browser
) -> None:
    """Also those that are beyond the first page of the list."""
    shown: list[str] = []
    for number in range(ROWS + 10):
        urgency = "high" if number % 7 == 0 else "normal"
        site.asks(f"p{number}", agent=f"a{number % 30}", urgency=urgency)

    async with looking(site, chrome, "/requests") as page:
        listed = page.locator("[data-rows] li[id^=row-]")
        shown += await listed.evaluate_all("rows => rows.map(row => row.id.slice(4))")
        await page.keyboard.press("j")
        for number in range(ROWS + 10):
            await expect(page.locator(".place")).to_contain_text(f" of {ROWS + 10 - number}")
            answer = page.locator("form.answer")
            request = (await answer.get_attribute("id") or "").removeprefix("answer-")
            if number >= ROWS:
                shown.append(request)
            await expect(page.locator("li.open")).to_be_in_viewport(ratio=0.9)
            if number % 2:
                await page.keyboard.press("a")
                await page.keyboard.press("Enter")
            else:
                await page.keyboard.press("d")
            await expect(page.locator("#note .done")).to_contain_text(request)
        await expect(page.locator("h1")).to_have_text("No pending requests")

    answers = site.journalled(Answered)
    assert [answer.request_id for answer in answers] == shown
    assert {answer.answer for answer in answers[1::2]} == {"approved"}
    assert {answer.answer for answer in answers[::2]} == {"denied"}


async def test_each_j_opens_the_next_request_also_past_the_end_of_a_page(
    site: RoomSite, chrome: Browser
) -> None:
    count = 2 * ROWS + 2
    for number in range(count):
        site.asks(f"p{number}", agent=f"a{number % 30}")

    async with looking(site, chrome, "/requests") as page:
        for number in range(1, count + 1):
            await page.keyboard.press("j")
            await expect(page.locator(".place")).to_contain_text(f" {number} of {count}")
        for number in range(count - 1, count - 5, -1):
            await page.keyboard.press("k")
            await expect(page.locator(".place")).to_contain_text(f" {number} of {count}")


async def test_the_list_ends_where_the_window_ends(site: RoomSite, chrome: Browser) -> None:
    for number in range(ROWS):
        site.asks(f"p{number}")

    async with looking(site, chrome, "/requests") as page:
        without_note = await page.locator(".list").evaluate(BELOW)
        await page.keyboard.press("j")
        await expect(page.locator("form.answer")).to_be_visible()
        await page.keyboard.press("d")
        await expect(page.locator("#note .done")).to_be_visible()
        await expect(page.locator(".place")).to_contain_text(f" of {ROWS - 1}")
        with_note = await page.locator(".list").evaluate(BELOW)

    assert 0 < without_note < ROW_PX / 2
    assert 0 < with_note < ROW_PX / 2


async def test_bar_and_title_write_large_numbers_as_the_page_does(
    site: RoomSite, chrome: Browser
) -> None:
    for number in range(1001):
        site.asks(f"p{number}", agent=f"a{number % 30}")

    async with looking(site, chrome, "/requests") as page:
        await expect(page.locator("main h1")).to_have_text("1,001 pending requests")
        await expect(page.locator("#bar .pending")).to_contain_text("1,001 pending")
        await expect(page).to_have_title("(1,001) Requests · safetyd")


async def test_a_page_that_was_just_opened_is_not_stale(site: RoomSite, chrome: Browser) -> None:
    async with looking(site, chrome) as page:
        await page.route_web_socket(re.compile(r"/live\?"), lambda _silent: None)
        await page.reload()
        await page.route(
            "**/*", lambda r: r.abort() if r.request.resource_type == "fetch" else r.continue_()
        )
        await expect(page.locator("body")).to_have_class("stale")
        await page.locator("nav").get_by_text("Requests").click()
        await expect(page.locator("h1")).to_have_text("No pending requests")
        await expect(page.locator("body")).not_to_have_class("stale")


async def test_phone_shows_price_recipient_and_folder_before_approve(
    site: RoomSite, chrome: Browser
) -> None:
    request = site.asks(
        text="\n".join(f"line {number} of a long text" for number in range(200)),
        cost_usd=8.0,
        context={"to": "billing@example.com"},
        cwd="/srv/shop",
    )
    width, height = PHONE
    async with looking(
        site, chrome, f"/requests/{request}", viewport={"width": width, "height": height}
    ) as page:
        approve = page.locator("button[value=approve]")
        facts = [page.locator(".fact", has_text=fact) for fact in ("$8.00", "billing", "/srv")]
        for fact in facts:
            assert await fact.evaluate(IN_SIGHT)
        await expect(approve).not_to_be_in_viewport()
        await page.locator(".to-answer").click()
        assert await approve.evaluate(IN_SIGHT)
        below = await approve.evaluate("e => e.getBoundingClientRect().top")
        for fact in (*facts, page.locator(".request-card")):
            assert await fact.evaluate("e => e.getBoundingClientRect().top") < below
        await expect(page.locator("nav ul")).to_be_hidden()
        await page.locator(".menu-open").click()
        await page.locator("nav ul").get_by_text("Agents").click()
        await page.wait_for_url("**/agents")
        await expect(page.locator("nav ul")).to_be_hidden()
        await expect(page.locator(".oldest")).to_be_visible()


async def test_the_whole_bar_has_the_colour_of_the_state_and_counts_who_is_held(
    site: RoomSite, chrome: Browser
) -> None:
    t = site.clock.t
    for name in ("one", "two"):
        site.proposes(name, agent=name)
    happening: tuple[tuple[tuple[Event, ...], str], ...] = (
        ((), "NORMAL"),
        ((Paused(at=at(t), t=t, agent="two", source="operator", by="bob"),), "1 agent paused"),
        ((SafeModeEntered(at=at(t), t=t, by="bob", agent="one"),), "1 agent in safe mode"),
        ((SafeModeEntered(at=at(t), t=t, by="bob"),), "SAFE MODE"),
        ((stop(t),), "STOPPED"),
    )
    colours = []
    async with looking(site, chrome) as page:
        for events, says in happening:
            site.happens(*events)
            await expect(page.locator("#bar strong")).to_have_text(says)
            colours.append(await page.locator("#bar .bar").evaluate(COLOUR))

    normal, paused, partly, safe, stopped = colours
    assert normal[1] == max(normal)
    assert paused == partly
    assert len({tuple(colour) for colour in (normal, partly, safe, stopped)}) == 4
    assert stopped[0] > 2 * max(stopped[1:])


async def test_failure_is_red_and_success_green_and_an_error_page_keeps_stop(
    site: RoomSite, chrome: Browser
) -> None:
    first, second = site.asks("p1"), site.asks("p2")
    async with looking(site, chrome, f"/requests/{first}") as page:
        await page.keyboard.press("d")
        await expect(page.locator("#note .done")).to_contain_text("Denied")
        green = await page.locator("#note .done").evaluate(COLOUR)
        await page.evaluate(ANOTHER_DIGEST)
        await expect(page.locator("#note .failed")).to_contain_text("Not recorded")
        red = await page.locator("#note .failed").evaluate(COLOUR)
        assert green[1] == max(green)
        assert red[0] == max(red)
        assert site.state(second) == "pending"

        await page.evaluate("htmx.ajax('GET', '/agents/nobody', {target: 'body'})")
        await expect(page.locator("h1")).to_have_text("Not found")
        site.proposes("something", agent="new")  # what happens is pushed to open pages
        await expect(page.locator("#beat")).not_to_be_empty()
        await expect(page.locator("h1")).to_have_text("Not found")
        await page.hover("details.stop > summary")
        await page.mouse.down()
        await page.wait_for_url(re.compile("/stopped$"))
        await expect(page.locator("#bar strong")).to_have_text("STOPPED")
