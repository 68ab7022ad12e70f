"""Signing in to the control room, and STOP under all conditions."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, expect

from safetyd.client import SyncSafety
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.agents import until
from tests.journeys.asking_agent import Asker
from tests.journeys.control_room import (
    STOP,
    Room,
    cut_stream,
    hold,
    origin,
    stops,
)
from tests.journeys.people import control
from tests.journeys.processes import freeze, server_pid, thaw
from tests.web.browser import visitor

pytestmark = pytest.mark.journey


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


@pytest.fixture(scope="module")
def room(daemon: RunningDaemon, browser: Browser) -> Room:
    return Room(daemon, browser)


@pytest.fixture
def going_on(daemon: RunningDaemon) -> Iterator[None]:
    """Resume after a test that stops everything."""
    yield
    control(daemon, "resume")


async def test_printed_link_signs_in_once(daemon: RunningDaemon, browser: Browser) -> None:
    link = daemon.safetyd("open", "--print").stdout.strip()

    async with visitor(browser) as page, visitor(browser) as second:
        await page.goto(link)
        await page.wait_for_url(f"{origin(link)}/")
        await expect(page.locator("#bar")).to_contain_text("NORMAL")
        await second.goto(link)
        await expect(second.locator("h1")).to_have_text("Invalid sign-in link")
        await second.goto(origin(link))
        await expect(second.locator("#bar")).to_have_count(0)

    name, port = urlsplit(link).hostname, urlsplit(link).port
    assert re.fullmatch(r"[0-9a-f]{20}\.localhost", str(name))
    assert port == urlsplit(daemon.endpoint.web).port


@pytest.mark.usefixtures("going_on")
async def test_stop_is_held_for_a_second(daemon: RunningDaemon, room: Room) -> None:
    async with room.visit("/money") as page:
        await page.click(STOP, delay=300)
        await expect(page.locator("details.stop")).to_have_attribute("open", "")
        pressed = stops(daemon)
        await hold(page, STOP)

        await expect(page.locator("#bar .state strong")).to_have_text("STOPPED")
        await expect(page.locator("#bar .state")).to_contain_text("by local")

    assert pressed == []
    assert [stop["by"] for stop in stops(daemon)] == ["local"]


@pytest.mark.usefixtures("going_on")
async def test_stop_takes_enter_twice(daemon: RunningDaemon, room: Room) -> None:
    async with room.visit("/health") as page:
        await page.focus(STOP)
        await page.keyboard.press("Enter")
        await expect(page.locator("details.stop")).to_have_attribute("open", "")
        once = stops(daemon)
        await page.focus(STOP)
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/stopped")

    assert (once, len(stops(daemon))) == ([], 1)


@pytest.mark.usefixtures("going_on")
async def test_stop_works_without_scripts(daemon: RunningDaemon, room: Room) -> None:
    async with room.visit("/agents", java_script_enabled=False) as page:
        await page.click(STOP)
        await page.fill("details.stop input[name=reason]", "it deletes the wrong bucket")
        await page.click("text=Stop everything now")

        await expect(page.locator("main")).to_contain_text("it deletes the wrong bucket")

    assert [stop["reason"] for stop in stops(daemon)] == ["it deletes the wrong bucket"]


@pytest.mark.usefixtures("going_on")
async def test_without_scripts_a_page_offers_only_what_works(
    daemon: RunningDaemon, room: Room
) -> None:
    async with room.visit("/agents", java_script_enabled=False) as page:
        await expect(page.locator(".hold-hint")).to_be_hidden()
        control(daemon, "stop", reason="drill")
        await page.goto("/stopped")
        await expect(page.locator("text=RESUME needs JavaScript or a terminal")).to_be_visible()
        await expect(page.locator("text=Resuming here needs JavaScript")).to_be_visible()
        for hidden in (".button.yes", "form[action^='/resume']"):
            await expect(page.locator(hidden)).to_be_hidden()

    async with room.visit("/stopped") as page:
        await expect(page.locator("form[action^='/resume']")).to_be_visible()
        await expect(page.locator(".button.yes")).to_be_visible()
        for other in await page.locator(".without-script").all():
            await expect(other).to_be_hidden()


@pytest.mark.usefixtures("going_on")
async def test_scripts_that_do_not_come_are_as_none(room: Room) -> None:
    async with room.visit("/agents") as page:
        await page.route("**/*.js", lambda route: route.abort())
        await page.reload()

        await expect(page.locator(".hold-hint")).to_be_hidden()


@pytest.mark.usefixtures("going_on")
async def test_stop_works_while_the_event_stream_is_down(daemon: RunningDaemon, room: Room) -> None:
    async with room.visit("/feed") as page:
        await cut_stream(page)

        await hold(page, STOP)

    assert len(stops(daemon)) == 1


@pytest.mark.usefixtures("going_on")
async def test_stop_works_while_the_journal_cannot_be_written(
    daemon: RunningDaemon, room: Room
) -> None:
    server = server_pid(daemon)
    async with room.visit() as page:
        freeze(server)
        try:
            await hold(page, STOP)
            await expect(page.locator("#bar .state strong")).to_have_text("STOPPED")
        finally:
            thaw(server)

    until(lambda: len(stops(daemon)) == 1)


@pytest.mark.usefixtures("going_on")
async def test_stopped_page_says_who_obeys_and_resume_wants_a_reason(
    daemon: RunningDaemon, room: Room
) -> None:
    with (
        SyncSafety("scribe", data_dir=daemon.data_dir) as scribe,
        Asker(daemon, "mute") as mute,
    ):
        scribe.propose("read_file", text="README.md")
        mute.ask("propose", {"type": "read_file", "text": "notes.txt", "id": "m1"})
        async with room.visit() as page:
            await hold(page, STOP)

            answers = page.locator("#main dl")
            await expect(answers).to_contain_text("Acknowledgedscribe")
            await expect(answers).to_contain_text("Not acknowledgedmute")
            await expect(page.locator("main")).to_contain_text("scribe: 1 running")

            await page.click("form[action^='/resume'] button")
            assert stops(daemon)
            await page.fill("form[action^='/resume'] input[name=reason]", "it was a drill")
            await page.click("form[action^='/resume'] button")
            await expect(page.locator("#note")).to_have_text("Resumed.")
            await expect(page.locator("#bar .state strong")).to_have_text("NORMAL")

    assert stops(daemon) == []
