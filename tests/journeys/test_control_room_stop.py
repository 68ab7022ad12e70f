"""STOP and RESUME in the control room: they work, or they say in red that they did not."""

from collections.abc import Iterator
from typing import Final

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.control_room import PAGES, STOP, Room, hold, stops
from tests.journeys.people import control, query

pytestmark = pytest.mark.journey

TABS: Final = 7  # one more than the connections that a browser opens to a host
BACKGROUND: Final = "found => getComputedStyle(found).backgroundColor"


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


@pytest.fixture(scope="module")
def room(daemon: RunningDaemon, browser: Browser) -> Room:
    return Room(daemon, browser)


@pytest.fixture(autouse=True)
def resumed(daemon: RunningDaemon) -> Iterator[None]:
    """Resume after each test."""
    yield
    for stop in stops(daemon):
        control(daemon, "resume", agent=stop["agent"])


async def press(page: Page) -> None:
    """Hold STOP until the page says something about it."""
    await page.hover(STOP)
    await page.mouse.down()
    await page.wait_for_selector("#note p.failed")
    await page.mouse.up()


async def assert_red(note: Locator, page: Page) -> None:
    """Check that a note has the colour of the button that stops."""
    button = page.locator("details.stop form button")
    assert await note.evaluate(BACKGROUND) == await button.evaluate(BACKGROUND)


async def test_stop_works_with_seven_open_tabs(daemon: RunningDaemon, room: Room) -> None:
    async with room.visit() as page:
        tabs = [page] + [await page.context.new_page() for _ in range(TABS - 1)]
        for tab, path in zip(tabs, PAGES, strict=False):
            await tab.goto(path)
            await expect(tab.locator("#beat")).not_to_be_empty()
        await hold(tabs[-1], STOP)

        for tab in tabs:
            await expect(tab.locator("#bar .state strong")).to_have_text("STOPPED")

    assert len(stops(daemon)) == 1


async def test_stop_on_an_ended_session_says_that_nothing_was_stopped(
    daemon: RunningDaemon, room: Room
) -> None:
    async with room.visit("/money") as page:
        assert daemon.safetyd("sessions", "end", "--all").returncode == 0
        await press(page)

        note = page.locator("#note p")
        await expect(note).to_have_text(
            "NOT STOPPED: you are signed out. Run safetyd stop in a terminal."
        )
        await expect(note.locator("code")).to_have_text("safetyd stop")
        await assert_red(note, page)
        await expect(page.locator("#stale")).to_contain_text("You are signed out")

    assert stops(daemon) == []


async def test_stop_without_scripts_on_an_ended_session_says_that_nothing_was_stopped(
    daemon: RunningDaemon, room: Room
) -> None:
    async with room.visit("/money", java_script_enabled=False) as page:
        assert daemon.safetyd("sessions", "end", "--all").returncode == 0
        await page.click(STOP)
        red = await page.locator("details.stop form button").evaluate(BACKGROUND)
        await page.click("details.stop form button")

        note = page.locator("p.failed")
        await expect(note).to_contain_text("NOT STOPPED")
        await expect(note.locator("code")).to_have_text("safetyd stop")
        assert await note.evaluate(BACKGROUND) == red

    assert stops(daemon) == []


async def test_stop_works_in_a_tab_that_was_open_before_its_browser_signed_in_again(
    daemon: RunningDaemon, room: Room
) -> None:
    async with room.visit("/money") as page:
        await expect(page.locator("#beat")).not_to_be_empty()
        token = page.locator("details.stop input[name=token]")
        before = await token.input_value()
        signed_in = len(query(daemon, "sessions")["sessions"])
        again = await page.context.new_page()
        await again.goto(room.link())
        await again.wait_for_url("**/")
        await expect(token).not_to_have_value(before)
        await hold(page, STOP)

    assert len(stops(daemon)) == 1
    assert len(query(daemon, "sessions")["sessions"]) == signed_in


async def test_a_held_stop_that_the_pointer_leaves_does_not_stop(
    daemon: RunningDaemon, room: Room
) -> None:
    async with room.visit("/money") as page:
        await page.clock.install()
        await page.reload()
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.method))
        await page.hover(STOP)
        await page.mouse.down()
        await expect(page.locator(STOP)).to_have_class("held")
        await page.mouse.move(5, 300)
        await expect(page.locator(STOP)).not_to_have_class("held")
        await page.clock.fast_forward(5000)
        await page.mouse.up()

        await expect(page.locator("#bar .state strong")).to_have_text("NORMAL")

    assert "POST" not in sent
    assert stops(daemon) == []
