"""How every page looks: in light and dark, on a desk and a phone, empty, busy, with long texts."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import Browser

from safetyd.core.events.guard_events import (
    AnomalyFound,
    BreakerMoved,
    Paused,
    SafeModeEntered,
    Stopped,
)
from safetyd.operators.contract.status_contract import HealthCheck
from tests.story import at
from tests.web.axe_findings import grave_findings, grave_in_the_dark
from tests.web.browser import PHONE, chromium, visitor
from tests.web.control_room.room_site import RoomSite, addresses, room_site
from tests.web.control_room.test_pages import MAIL, much_happens
from tests.web.control_room.test_room_browser import looking

SIZES: Final = {"desk": (1280, 800), "tablet": (820, 1180), "phone": PHONE}
NAME: Final = "a" * 64
LONG: Final = f"{'x' * 300} {'/srv/very/long/path' * 30}"
FOLDER: Final = f"/srv/{'deep/' * 40}"

# What is wider than its place, and what the bar lacks.
UGLY: Final = """() => {
  const root = document.documentElement;
  const found = [...document.querySelectorAll(".wide, main p, main td, main dd, main li, h1, h2")]
    .filter((e) => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline")
    .map((e) => `cut off: ${e.outerHTML.slice(0, 120)}`);
  if (root.scrollWidth > root.clientWidth) found.push("the page scrolls sideways");
  const [button, ...more] = document.querySelectorAll("#bar .stop > summary, #bar .button.yes");
  const box = button?.getBoundingClientRect();
  const shown = box && box.width > 40 && box.right <= innerWidth && box.bottom < innerHeight / 3;
  if (!shown || more.length) found.push("STOP or RESUME is not in sight");
  return found;
}"""


def empty(_site: RoomSite) -> list[str]:
    named = ("req", "code", "p1", "answers")
    paths = [path for path in addresses("req") if path.split("/")[-1] not in named]
    return [path for path in paths if "answers" not in path]


def busy(site: RoomSite) -> list[str]:
    ref = much_happens(site)
    for n in range(30):
        site.asks(f"q{n}", agent=f"a{n % 5}", urgency="high" if n % 9 == 0 else "normal")
    site.wired.passes()
    lost = ["/nowhere", "/agents/nobody", "/feed?text=no-such-words"]
    return [*addresses(ref, decision="p0"), *lost]


def long_texts(site: RoomSite) -> list[str]:
    t = site.clock.t
    ref = site.asks(
        agent=NAME,
        text=LONG,
        description="words " * 200,
        rationale=LONG,
        context={"to": f"{'b' * 200}@example.com"},
        cwd=FOLDER,
        paths=[f"{FOLDER}{n}" for n in range(20)],
    )
    site.asks("p2")
    names = {"dependency": "d" * 60, "session": "s" * 60, "model": "m" * 60}
    site.proposes("p0", agent=NAME, text=LONG, **names)
    site.happens(
        BreakerMoved(at=at(t), t=t, breaker="db" * 30, state="open", reason=LONG),
        AnomalyFound(at=at(t), t=t, rule="anomaly.x", severity="high", message=LONG, agent=NAME),
        Paused(at=at(t), t=t, agent=NAME, source="operator", by="bob", reason=LONG),
        SafeModeEntered(at=at(t), t=t, by="alice", agent=NAME, reason=LONG),
        Stopped(at=at(t), t=t, source="operator", by=NAME, reason=LONG, agent=NAME, epoch=1),
        Stopped(at=at(t), t=t, source="operator", by="bob", reason=LONG, epoch=2),
    )
    site.checks = (HealthCheck(name="journal", state="bad", says=LONG, fix=f"run `{LONG}`"),)
    site.wired.passes()
    several = f"/answers?id={ref}"
    return [*addresses(ref, agent=NAME, decision="p0"), several]


def closed(site: RoomSite) -> list[str]:
    site.problem = "the journal cannot be written: no space left on device"
    return ["/", "/requests"]


@pytest.fixture(scope="module")
async def chrome() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


async def test_pages_before_signing_in_fit_and_can_be_read(site: RoomSite, chrome: Browser) -> None:
    width, height = PHONE
    size = {"width": width, "height": height}
    ugly: list[str] = []
    async with visitor(chrome, base_url=site.url, viewport=size, bypass_csp=True) as page:
        await page.route("**/sign_in*.js", lambda route: route.abort())
        for path in (site.link(), "/agents", "/signin/used"):
            await page.goto(path)
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            ugly += [*await grave_findings(page), *await grave_in_the_dark(page)]

    assert ugly == []


@pytest.mark.parametrize("world", [empty, busy, long_texts, closed])
async def test_every_page_fits_can_be_read_and_has_stop_in_sight(
    tmp_path: Path, chrome: Browser, world: Callable[[RoomSite], list[str]]
) -> None:
    ugly: dict[str, Any] = {}
    async with room_site(tmp_path, MAIL) as site, looking(site, chrome, bypass_csp=True) as page:
        for path in world(site):
            await page.goto(path)
            for look, (width, height) in SIZES.items():
                await page.set_viewport_size({"width": width, "height": height})
                ugly[f"{path} {look}"] = await page.evaluate(UGLY)
            ugly[path] = [*await grave_findings(page), *await grave_in_the_dark(page)]

    assert {place: found for place, found in ugly.items() if found} == {}
    assert ugly
