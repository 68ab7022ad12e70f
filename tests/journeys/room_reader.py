"""Somebody who reads the pages of the control room: what they see, and how they come in."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from playwright.async_api import Browser, Locator, Page, Route, expect

from tests.journeys.control_room import origin
from tests.journeys.eventful_day import SECOND, Day
from tests.journeys.people import query
from tests.web.browser import WAIT_MS, visitor

# Whether each chart has something on it.
PAINTED: Final = """charts => charts.map(chart => {
  const canvas = chart.querySelector('canvas');
  const { width, height } = canvas;
  return canvas.getContext('2d').getImageData(0, 0, width, height).data.some(byte => byte);
})"""
# All at once, so that the page does not change by itself meanwhile.
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
    """Open a browser of a person, who came in by a link of their own."""
    key = day.daemon.data_dir / "keys" / PERSONS[by]
    link = query(day.daemon, "sign_in", by=by, key=key)["url"]
    async with visitor(browser, base_url=origin(link), **options) as page:
        await page.goto(link)
        await page.wait_for_url(f"{origin(link)}/")
        yield page


async def deafen(page: Page) -> None:
    """Let a page hear nothing more of what happens; what its reader sends goes on."""

    async def hush(route: Route) -> None:
        if route.request.resource_type == "fetch":
            await route.abort()
        else:
            await route.fallback()

    await page.route_web_socket("**", lambda socket: socket.close())
    await page.route("**", hush)
    await page.reload()


async def filter_by(page: Page, **wanted: str) -> None:
    """Fill in the form that filters, and send it."""
    await page.locator("main form").evaluate(FILTERS, wanted)


async def assert_painted(page: Page, within: str = "main") -> None:
    charts = page.locator(f"{within} .chart")
    await expect(charts.first.locator("canvas")).to_be_visible()
    assert all(await charts.evaluate_all(PAINTED))


async def assert_runs_down(shown: Locator) -> None:
    """Wait until less is left, as somebody reads it, than there was."""
    await expect(shown).to_contain_text(LEFT)
    found = LEFT.search(await shown.inner_text())
    assert found is not None
    left = 60 * int(found[1] or 0) + int(found[2])
    less = "|".join(_words(left - s) for s in range(1, min(left, WAIT_MS // 1000)))
    await expect(shown).to_contain_text(re.compile(rf"\b({less}) left"))


def _words(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
