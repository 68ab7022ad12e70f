"""A program that had the port before the daemon sees no sign-in link and can permit nothing.

Its service worker in a browser sees all requests to its origin, forever.
"""

import socket
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Page, expect

from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.asking_agent import Asker
from tests.journeys.control_room import Room, origin
from tests.journeys.impostor import impostor, meet, seen_by_worker
from tests.journeys.people import query
from tests.web.browser import visitor

pytestmark = pytest.mark.journey


async def approve(page: Page, daemon: RunningDaemon, link: str, proposal: str) -> None:
    """Sign in with a link and approve an agent's request."""
    with Asker(daemon, "release") as agent:
        asked = agent.propose(proposal, text=f"git push origin {proposal}")
    await page.goto(link)
    await page.wait_for_url(f"{origin(link)}/")
    await page.goto(f"{origin(link)}/requests/{asked['request_id']}")
    await page.click("button[value=approve]")
    await expect(page.locator("#note")).to_contain_text("Approved")


async def test_worker_of_who_had_the_port_before_a_start_sees_no_link_and_no_page(
    start_daemon: StartDaemon, browser: Browser
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"

    async with visitor(browser) as page:
        with impostor(port):
            await meet(page, address)
        daemon = start_daemon(f"[web]\nport = {port}\n")
        room = Room(daemon, browser)
        first = room.link()
        await approve(page, daemon, first, "before-1")
        assert await seen_by_worker(page, address) == []
        numeric = query(daemon, "sign_in", numeric=True)["url"]
        await page.goto(numeric)
        assert await seen_by_worker(page, address) == [numeric]

        daemon.kill()
        with impostor(port):
            await meet(page, origin(first))
        daemon.start()
        second = room.link()
        await approve(page, daemon, second, "between-1")
        assert await seen_by_worker(page, origin(first)) == []

    assert {urlsplit(link).port for link in (first, second, numeric)} == {port}
