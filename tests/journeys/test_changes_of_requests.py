"""Every view of a request shows what its approved action changed."""

import re
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from playwright.async_api import Browser, expect

from tests.conftest import RunningDaemon, StartDaemon
from tests.console.review.test_screen import reviewing
from tests.journeys.agents import until
from tests.journeys.asking_agent import Asker, review
from tests.journeys.control_room import Room, scrolls_sideways
from tests.journeys.delivery_targets import targets
from tests.journeys.people import query
from tests.web.axe_findings import grave_findings

pytestmark = pytest.mark.journey

CONFIG: Final = """
profile = "coding"
[notifications]
batch_interval_seconds = 0
quiet_start = "00:00"
quiet_end = "00:00"
[projects.shop]
root = "{root}"
agents = ["code"]
history = "shadow"
"""
LINES: Final = 500
HOSTILE: Final = "<script>window.ran = 1</script> \x1b]0;owned\x07"
SEEN: Final = "+<script>window.ran = 1</script> \\x1b]0;owned\\x07"


def changes_the_shop(daemon: RunningDaemon, cart: Path, told: Callable[[], object]) -> str:
    """Let an operator approve a change of a file, let the agent make it, and return the request."""
    action = {"type": "push", "text": "./release", "project": "shop"}
    with Asker(daemon) as agent:
        asked = agent.ask("propose", {**action, "id": "p1"})
        assert asked["status"] == "pending", asked
        told()
        assert review(daemon, "approve", asked["request_id"])["ok"]
        allowed = agent.ask("propose", {**action, "id": "p2"})
        assert allowed["decision"] == "allow", allowed
        cart.write_text(f"{HOSTILE}\n" + "line\n" * LINES)
        agent.ask("telemetry", {"type": "outcome", "id": "p2", "ok": True})
    request = str(asked["request_id"])
    until(lambda: "change" in query(daemon, "request", id=request)["request"])
    return request


class Changed(NamedTuple):
    """An approved request, its mail, and the commit of its change."""

    daemon: RunningDaemon
    mail: str
    request: str
    commit: str

    @property
    def whole(self) -> str:
        """Return the command that shows the whole change."""
        return f"safetyd history diff {self.commit} --project shop"


@pytest.fixture(scope="module")
def changed(
    start_module_daemon: StartDaemon, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Changed]:
    root, secrets = (tmp_path_factory.mktemp(name) for name in ("shop", "secrets"))
    (cart := root / "cart.py").write_text("before\n")
    with targets() as everywhere:
        daemon = start_module_daemon(CONFIG.format(root=root) + everywhere.configure(secrets))
        request = changes_the_shop(daemon, cart, lambda: everywhere.wait("email", 1))
        mail = everywhere.wait("email", 1)[0].words
        commit = query(daemon, "request", id=request)["request"]["change"]["commit"]
        yield Changed(daemon, mail, request, commit[:12])


def test_the_terminal_shows_what_an_approved_action_changed(changed: Changed) -> None:
    shown = changed.daemon.safetyd("show", changed.request).stdout

    assert f", commit {changed.commit} of shop" in shown
    assert f"\n  | {SEEN}\n" in shown
    assert changed.whole in shown
    assert "\x1b" not in shown
    assert changed.daemon.safetyd(*changed.whole.split()[1:]).stdout.count("+line") == LINES
    explained = changed.daemon.safetyd("explain", changed.request).stdout
    assert f"committed in shop ({changed.commit}" in explained


def test_the_link_page_shows_what_an_approved_action_changed(changed: Changed) -> None:
    found = re.search(r"http://\S+/d/[^\s?]+", changed.mail)
    assert found is not None, changed.mail

    with urllib.request.urlopen(found[0]) as response:
        page = response.read().decode()

    assert "Already approved by local" in page
    assert '<span class="line removed">-before' in page
    assert "+&lt;script&gt;" in page
    assert changed.whole in page


async def test_the_request_in_the_control_room_shows_what_was_changed(
    changed: Changed, browser: Browser
) -> None:
    async with Room(changed.daemon, browser).visit(f"/requests/{changed.request}") as page:
        change = page.locator(f"section:has(a[href^='/history/{changed.commit}'])").last
        await expect(change.locator(".removed").first).to_contain_text("-before")
        await expect(change.locator(".added").first).to_contain_text(
            "+<script>window.ran = 1</script>"
        )
        await expect(change).to_contain_text(changed.whole)
        assert await page.evaluate("window.ran") is None
        assert await grave_findings(page) == []
        assert not await scrolls_sideways(page)
        await change.locator("a").click()
        title = f"Commit {changed.commit} of shop"
        await expect(page.get_by_role("heading", name=title)).to_be_visible()


async def test_the_review_screen_shows_what_an_approved_action_changed(changed: Changed) -> None:
    async with reviewing(changed.daemon, (120, 30)) as reviewer:
        await reviewer.sees("0 pending")
        await reviewer.press("c")
        title = f"code: push ({changed.request}), approved by local"
        await reviewer.sees(title, "| -before", SEEN)
        await reviewer.press("c")
        await reviewer.sees_no("-before")
