"""File history in the control room: commits, diffs, rollback."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from safetyd.client import SyncSafety
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.agents import until
from tests.journeys.control_room import ON_A_PHONE, Room, scrolls_sideways
from tests.journeys.people import query
from tests.web.axe_findings import grave_findings, grave_in_the_dark

pytestmark = pytest.mark.journey

CONFIG = """
profile = "coding"
[projects.shop]
root = "{root}"
history = "shadow"
errors_in_a_row = 2
"""


class History:
    """A shop whose cart was changed twice well and twice badly."""

    def __init__(self, daemon: RunningDaemon, root: Path) -> None:
        self.daemon = daemon
        self.cart = root / "cart.py"
        with SyncSafety("code", url=daemon.endpoint.bus) as code:
            for id_, text, ok in (
                ("good-1", "total = 1\n", True),
                ("good-2", "total = 2\n", True),
                ("bad-1", "<b>bad</b>\n", False),
                ("bad-2", "worse\n", False),
            ):
                made = code.propose("edit_file", paths=[str(self.cart)], text=text, id=id_)
                assert made.allowed, made
                self.cart.write_text(text)
                code.report(id_, ok=ok)
                until(lambda id_=id_: self.commits()[:1] == [id_])  # type: ignore[misc]

    def commits(self) -> list[str]:
        return [row["id"] for row in query(self.daemon, "commits")["commits"]]


@pytest.fixture(scope="module")
def history(start_module_daemon: StartDaemon, tmp_path_factory: pytest.TempPathFactory) -> History:
    root = tmp_path_factory.mktemp("shop")
    return History(start_module_daemon(CONFIG.format(root=root)), root)


@pytest.fixture
async def page(history: History, browser: Browser) -> AsyncIterator[Page]:
    async with Room(history.daemon, browser).visit("/history") as page:
        yield page


async def test_a_decision_shows_what_it_changed_and_leads_to_its_commit(page: Page) -> None:
    await expect(page.locator("tbody tr")).to_have_count(4)
    await page.click("tbody tr:nth-child(3) td:last-child a")
    await page.wait_for_url("**/decisions/good-2")
    changed = page.locator("section[aria-label='Changes']")
    await expect(changed.locator(".added")).to_contain_text("+total = 2")
    await expect(changed.locator(".removed")).to_contain_text("-total = 1")
    await expect(page.locator(".steps")).to_contain_text("committed in shop")
    await changed.locator("a").click()
    await expect(page.locator("h1")).to_contain_text("of shop")
    await expect(page.locator("main")).to_contain_text("Safetyd-Proposal: good-2")


async def test_an_offered_rollback_is_made_by_a_button(history: History, page: Page) -> None:
    before = history.cart.read_text()
    await page.goto("/feed")
    await page.click("text=Review and roll back")
    await page.click("#rollback summary")
    await expect(page.locator("#rollback option")).to_have_count(2)
    await page.click("#rollback button")  # without a reason nothing is sent
    assert history.cart.read_text() == before
    await page.fill("#rollback input[name=reason]", "it got worse")
    await page.click("#rollback button")

    await expect(page.locator("#note")).to_contain_text("Files: 1 restored.")
    assert (before, history.cart.read_text()) == ("worse\n", "total = 2\n")
    await page.goto("/feed?what=events")
    await expect(page.locator("tbody")).to_contain_text("rolled back")


async def test_pages_are_readable_light_dark_and_on_a_phone(
    history: History, browser: Browser, page: Page
) -> None:
    commit = query(history.daemon, "commits")["commits"][0]["commit"]
    addresses = ("/history", f"/history/{commit}", "/decisions/good-2")
    for address in addresses:
        await page.goto(address)
        assert await grave_findings(page) == []
        assert await grave_in_the_dark(page) == []
    async with Room(history.daemon, browser).visit(viewport=ON_A_PHONE) as phone:
        for address in addresses:
            await phone.goto(address)
            assert not await scrolls_sideways(phone)
