"""Helpers that sign in to the control room and read its pages."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from playwright.async_api import Browser, Locator, Page, Route, expect

from tests.journeys.control_room import origin
from tests.journeys.eventful_day import SECOND, Day
from tests.journeys.people import query
from tests.web.browser import WAIT_MS, visitor

# Whether each chart shows any data.
PAINTED: Final = """charts => charts.map(chart => {
  const canvas = chart.querySelector('canvas');
  const { width, height } = canvas;
  return canvas.getContext('2d').getImageData(0, 0, width, height).data.some(byte => byte);
})"""
# In one step, so that a live update cannot come between.
FILTERS: Final = """(form, wanted) => {
  for (const [name, value] of Object.entries(wanted)) form.elements[name].value = value;
  form.requestSubmit();
}"""
LEFT: Final = re.compile(r"(?:(\d+) min )?(\d+) s left")
PERSONS: Final = {"local": "operator.nk", SECOND: f"operators/{SECOND}.nk"}


@asynccontextmanager
async def signed_in(
    day: Day, browser: Browser, by: str = "local", **options: object
) -> AsyncIterator[Page]:
    """Open a browser that signed in with an operator's link."""
    key = day.daemon.data_dir / "keys" / PERSONS[by]
    link = query(day.daemon, "sign_in", by=by, key=key)["url"]
    async with visitor(browser, base_url=origin(link), **options) as page:
        await page.goto(link)
        await page.wait_for_url(f"{origin(link)}/")
        yield page


async def deafen(page: Page) -> None:
    """Cut a page off from live updates; its own requests still work."""

    async def hush(route: Route) -> None:
        if route.request.resource_type == "fetch":
            await route.abort()
        else:
            await route.fallback()

    await page.route_web_socket("**", lambda socket: socket.close())
    await page.route("**", hush)
    await page.reload()


async def assert_painted(page: Page, within: str = "main") -> None:
    charts = page.locator(f"{within} .chart")
    await expect(charts.first.locator("canvas")).to_be_visible()
    assert all(await charts.evaluate_all(PAINTED))


async def assert_runs_down(shown: Locator) -> None:
    """Wait until the displayed remaining time has decreased."""
    await expect(shown).to_contain_text(LEFT)
    found = LEFT.search(await shown.inner_text())
    assert found is not None
    left = 60 * int(found[1] or 0) + int(found[2])
    less = "|".join(_words(left - s) for s in range(1, min(left, WAIT_MS // 1000)))
    await expect(shown).to_contain_text(re.compile(rf"\b({less}) left"))


def _words(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
