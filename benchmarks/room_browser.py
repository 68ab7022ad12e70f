"""The control room in a real Chromium: frame times, and when rows are on screen."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

from playwright.async_api import Page

from benchmarks.rig import Daemon
from benchmarks.room_readers import sign_in_link
from tests.web.browser import chromium, visitor

# The time between two frames; a gap means that the page was busy.
_COUNT_FRAMES: Final = """() => {
  window.frames_ms = [];
  let last = performance.now();
  const frame = (now) => {
    window.frames_ms.push(now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""

# When each link first appeared, in Unix seconds.
_NOTE_LINKS: Final = """(selector) => {
  window.first_seen = {};
  const look = () => requestAnimationFrame((now) => {
    for (const link of document.querySelectorAll(selector))
      window.first_seen[link.getAttribute("href")] ??= (performance.timeOrigin + now) / 1000;
  });
  look();
  new MutationObserver(look).observe(document.getElementById("main"), {
    childList: true, subtree: true, attributes: true, attributeFilter: ["href"],
  });
}"""

_FIRST_PAINT: Final = """() => new Promise((done) => {
  const paints = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
  const wait = () => paints() === undefined ? setTimeout(wait, 5) : done(paints());
  wait();
})"""

_WEIGHT: Final = """() => {
  const loaded = [
    ...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource"),
  ].filter((entry) => !entry.name.includes("/live"));
  const sum = (name) => loaded.reduce((all, entry) => all + entry[name], 0);
  return [sum("transferSize"), sum("decodedBodySize")];
}"""


_COUNT_RENEWALS: Final = """() => {
  window.renewals = 0;
  let before = document.querySelector("#main tbody tr");
  new MutationObserver(() => {
    const now = document.querySelector("#main tbody tr");
    if (now !== before) window.renewals += 1;
    before = now;
  }).observe(document.getElementById("main"), { childList: true, subtree: true });
}"""


class Work(NamedTuple):
    """Processor time of the page's thread, and how often its content was refreshed."""

    seconds: float
    renewals: int


class Weight(NamedTuple):
    """Bytes of a page with its assets, compressed and uncompressed."""

    sent: int
    unpacked: int


class Screen:
    """A signed-in tab."""

    def __init__(self, page: Page, url: str) -> None:
        self._page = page
        self._url = url

    async def show(self, path: str) -> None:
        await self._page.goto(self._url + path, wait_until="load")
        await self._page.wait_for_selector("#beat:not(:empty)", state="attached")

    async def show_nothing(self) -> None:
        await self._page.goto("about:blank")

    async def count_frames(self) -> None:
        await self._page.evaluate(_COUNT_FRAMES)

    async def frames_ms(self) -> list[float]:
        return list(await self._page.evaluate("() => window.frames_ms.splice(0)"))

    async def count_work(self) -> None:
        """Start counting; on a busy machine only processor time is meaningful."""
        self._tools = await self._page.context.new_cdp_session(self._page)
        await self._tools.send("Performance.enable", {"timeDomain": "threadTicks"})
        await self._page.evaluate(_COUNT_RENEWALS)

    async def work(self) -> Work:
        told = await self._tools.send("Performance.getMetrics")
        (seconds,) = (m["value"] for m in told["metrics"] if m["name"] == "TaskDuration")
        return Work(seconds, int(await self._page.evaluate("() => window.renewals")))

    async def note_links(self, selector: str) -> None:
        await self._page.evaluate(_NOTE_LINKS, selector)

    async def first_seen(self) -> dict[str, float]:
        return dict(await self._page.evaluate("() => window.first_seen"))

    async def text(self, selector: str) -> str:
        return await self._page.inner_text(selector)

    async def first_paint_ms(self, path: str) -> float:
        await self._page.goto(self._url + path, wait_until="commit")
        return float(await self._page.evaluate(_FIRST_PAINT))

    async def weight(self, path: str) -> Weight:
        """Return what a browser with an empty cache loads."""
        async with visitor(_browser(self._page)) as empty:
            await empty.context.add_cookies(await self._cookies())
            await empty.goto(self._url + path, wait_until="load")
            return Weight(*await empty.evaluate(_WEIGHT))

    async def _cookies(self) -> Any:
        return await self._page.context.cookies()


def _browser(page: Page) -> Any:
    return page.context.browser


@contextlib.asynccontextmanager
async def screen(daemon: Daemon) -> AsyncIterator[Screen]:
    """Sign a browser in."""
    link = sign_in_link(daemon)
    async with chromium() as browser, visitor(browser) as page:
        await page.goto(link)
        await page.wait_for_selector("#main")
        yield Screen(page, link.partition("/signin/")[0])
