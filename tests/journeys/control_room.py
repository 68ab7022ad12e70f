"""The control room of a running daemon, opened in a real browser."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from playwright.async_api import Browser, Page, ViewportSize, expect

from tests.conftest import RunningDaemon
from tests.journeys.agents import until
from tests.journeys.people import Reply, query
from tests.web.browser import PHONE, WAIT_MS, visitor

expect.set_options(timeout=WAIT_MS)

STOP: Final = "details.stop > summary"
ON_A_PHONE: Final[ViewportSize] = {"width": PHONE[0], "height": PHONE[1]}
# Every page that the menu leads to, and the one that a stop leads to.
PAGES: Final = (
    *("/", "/requests", "/agents", "/safe-mode", "/feed", "/history", "/money", "/breakers"),
    *("/limits", "/anomalies", "/messages", "/health", "/stopped"),
)


class Room:
    """Whoever visits is the local operator, signed in by a link of their own."""

    def __init__(self, daemon: RunningDaemon, browser: Browser) -> None:
        self.daemon = daemon
        self.browser = browser

    @property
    def url(self) -> str:
        """Where links that sign in lead since the last start."""
        return origin(self.link())

    def link(self) -> str:
        """Return a link once it is this operator's turn: their open pages ask a lot."""
        answer: Reply = {}

        def given() -> bool:
            answer.update(query(self.daemon, "sign_in"))
            assert answer.get("code", "rate_limit") == "rate_limit", answer
            return "url" in answer

        until(given)
        return str(answer["url"])

    @asynccontextmanager
    async def visit(self, path: str = "/", **options: object) -> AsyncIterator[Page]:
        """Open a page in a browser that shares nothing with any other."""
        link = self.link()
        async with visitor(self.browser, base_url=origin(link), **options) as page:
            await page.goto(link)
            if options.get("java_script_enabled", True):
                await page.wait_for_url(f"{origin(link)}/")
            else:
                await page.click("#sign-in button")
            if path != "/" or not options.get("java_script_enabled", True):
                await page.goto(path)
            yield page


def origin(link: str) -> str:
    return link.partition("/signin/")[0]


async def cut_stream(page: Page) -> None:
    """Reload the page without its live stream."""
    await page.route_web_socket(re.compile(r"/live\?"), lambda socket: socket.close())
    await page.reload()


async def scrolls_sideways(page: Page) -> bool:
    wide: bool = await page.evaluate(
        "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    return wide


def stops(daemon: RunningDaemon) -> list[dict[str, str]]:
    """Return the stops that are in force."""
    found: list[dict[str, str]] = query(daemon, "top_bar")["standstill"]["stops"]
    return found


async def hold(page: Page, selector: str) -> None:
    """Press and hold until the page is another one."""
    await page.hover(selector)
    await page.mouse.down()
    await page.wait_for_url("**/stopped")
    await page.mouse.up()
