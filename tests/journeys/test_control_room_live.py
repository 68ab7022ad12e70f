"""Pages of the control room change by themselves, and say so when they cannot."""

import re
import socket
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import urlsplit

import anyio
import pytest
from playwright.async_api import Browser, Page, Route, expect

from safetyd.client import SyncSafety
from tests.conftest import RunningDaemon, StartDaemon
from tests.journeys.agents import until
from tests.journeys.asking_agent import Asker, review
from tests.journeys.control_room import STOP, Room, cut_stream
from tests.journeys.people import control, query
from tests.web.browser import WAIT_MS

pytestmark = pytest.mark.journey

PANEL: Final = "#safe-mode-panel"
NOT_STOPPED: Final = "NOT STOPPED: {}. Run safetyd stop in a terminal."


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return start_module_daemon(f"[web]\nport = {port}\n[safe_mode]\ncooldown_ms = 2000\n")


@pytest.fixture(scope="module")
def room(daemon: RunningDaemon, browser: Browser) -> Room:
    return Room(daemon, browser)


Agents = Callable[[str], SyncSafety]


@pytest.fixture
def agents(daemon: RunningDaemon) -> Iterator[Agents]:
    """Return a function that opens a client under a name."""
    opened: list[SyncSafety] = []

    def client(name: str) -> SyncSafety:
        opened.append(SyncSafety(name, data_dir=daemon.data_dir))
        return opened[-1]

    yield client
    for safety in opened:
        safety.close()


def fails(safety: SyncSafety) -> None:
    """Do something that fails; a daemon that is late for a moment allows nothing meanwhile."""

    def tried() -> bool:
        decision = safety.propose("read_file", text="notes.txt")
        return decision.allowed and safety.report(decision.id, ok=False, error="it broke")

    until(tried)


async def leave(page: Page, agent: str) -> None:
    """End an agent's safe mode on the page."""
    await page.press(f"#exit-{agent} > summary", "Enter")  # wherever it moves to
    await page.fill(f"#exit-{agent} input[name=reason]", "fixed")
    await page.check(f"#exit-{agent} input[name=sure]")
    await page.click(f"#exit-{agent} button")


@pytest.mark.req("S0.18")
@pytest.mark.req("S0.20")
async def test_safe_mode_panel_shows_every_error_and_the_change(room: Room, agents: Agents) -> None:
    weak = agents("weak")

    async with room.visit("/safe-mode") as page:
        panel = page.locator(PANEL)
        await page.evaluate("window.loaded = 1")
        await expect(panel).to_contain_text("Stateready")
        for errors in range(1, 3):
            fails(weak)
            await expect(panel).to_contain_text(f"{errors} of 3")
        fails(weak)

        await expect(panel).to_contain_text("safe mode")
        await expect(panel).to_contain_text("3 of 3")
        await expect(panel).to_contain_text("weak")
        await expect(page.locator("#bar .state strong")).to_have_text("1 agent in safe mode")
        assert await page.evaluate("window.loaded") == 1
        await expect(panel).to_contain_text("Cooldownover")
        await leave(page, "weak")
        await expect(page.locator("#note")).to_have_text("weak: left safe mode.")


@pytest.mark.req("S0.18")
async def test_safe_mode_panel_asks_every_3_seconds_where_the_stream_is_not_to_be_had(
    room: Room, agents: Agents
) -> None:
    slow = agents("slow")

    async with room.visit("/safe-mode") as page:
        await cut_stream(page)
        await page.evaluate("window.loaded = 1")
        for _ in range(3):
            fails(slow)

        await expect(page.locator(PANEL)).to_contain_text("slow")
        assert await page.evaluate("window.loaded") == 1
        await expect(page.locator("body.stale")).to_have_count(0)
        await expect(page.locator(PANEL)).to_contain_text("Cooldownover")
        await leave(page, "slow")
        await expect(page.locator("#note")).to_have_text("slow: left safe mode.")


@pytest.mark.req("S0.19")
async def test_leaving_safe_mode_asks_first(daemon: RunningDaemon, room: Room) -> None:
    control(daemon, "safe_mode_enter", agent="held", reason="drill")

    async with room.visit("/safe-mode") as page:
        await expect(page.locator("#exit-held button")).to_be_hidden()
        await page.press("#exit-held > summary", "Enter")
        await page.click("#exit-held button")
        assert query(daemon, "safe_mode")["agents"] == ["held"]
        await expect(page.locator(PANEL)).to_contain_text("Cooldownover")
        await page.check("#exit-held input[name=sure]")
        await page.click("#exit-held button")
        assert query(daemon, "safe_mode")["agents"] == ["held"]
        await page.fill("#exit-held input[name=reason]", "fixed")
        await page.click("#exit-held button")
        await expect(page.locator("#note")).to_have_text("held: left safe mode.")

    assert query(daemon, "safe_mode")["agents"] == []


async def test_selections_survive_updates_of_the_page(room: Room, agents: Agents) -> None:
    async with room.visit("/agents") as page:
        await page.select_option("select[name=state]", "paused")
        agents("newcomer").propose("read_file", text="notes.txt")

        await expect(page.locator("#agent-newcomer")).to_be_visible()
        await expect(page.locator("select[name=state]")).to_have_value("paused")


async def test_killed_daemon_turns_the_page_grey_and_it_comes_back_with_what_was_missed(
    daemon: RunningDaemon, room: Room
) -> None:
    async with room.visit("/requests") as page:
        await expect(page.locator("h1")).to_have_text("No pending requests")
        await expect(page.locator("#beat")).not_to_be_empty()
        daemon.kill()
        await page.wait_for_selector("body.stale", state="attached")
        await expect(page.locator("#stale")).to_contain_text("No connection since")
        daemon.start()
        with Asker(daemon, "patient") as agent:
            asked = agent.propose("missed-1")

        await expect(page.locator("body.stale")).to_have_count(0)
        await expect(page.locator("#stale")).to_be_hidden()
        await expect(page.locator(f"#row-{asked['request_id']}")).to_be_visible()
        review(daemon, "deny", asked["request_id"])


async def test_a_page_behind_a_link_of_another_page_changes_by_itself(
    daemon: RunningDaemon, room: Room
) -> None:
    with Asker(daemon, "linked") as agent:
        agent.ask("propose", {"type": "read_file", "text": "first.txt", "id": "linked-1"})
        async with room.visit("/agents") as page:
            await page.click("main a[href='/agents/linked']")
            await page.wait_for_url("**/agents/linked")
            await expect(page.locator("main")).to_contain_text("first.txt")
            agent.ask("propose", {"type": "read_file", "text": "second.txt", "id": "linked-2"})

            await expect(page.locator("main")).to_contain_text("second.txt")
            await expect(page).to_have_title("linked · safetyd")


async def test_stop_that_nobody_hears_says_so_and_what_to_type(
    daemon: RunningDaemon, room: Room
) -> None:
    unreachable = NOT_STOPPED.format("safetyd cannot be reached")
    async with room.visit("/feed", viewport={"width": 700, "height": 300}) as page:
        await expect(page.locator("#beat")).not_to_be_empty()
        daemon.kill()
        await page.hover(STOP)
        await page.mouse.down()
        await expect(page.locator("#note")).to_have_text(unreachable)
        await page.mouse.up()
        await expect(page.locator("#note p")).to_be_in_viewport()
        await expect(page.locator("#stale")).to_contain_text("safetyd stop stops everything")
        await page.evaluate("document.getElementById('note').replaceChildren()")
        if not await page.locator("details.stop form").is_visible():
            await page.click(STOP)
        await page.click("details.stop form button")
        await expect(page.locator("#note")).to_have_text(unreachable)
        daemon.start()

        await expect(page.locator("body.stale")).to_have_count(0)
        await expect(page.locator("#bar .state strong")).to_have_text("NORMAL")
        await expect(page.locator("#note")).to_have_text(unreachable)


@pytest.mark.parametrize("status", [200, 403, 503])
async def test_stop_that_is_answered_by_anything_else_than_stopped_says_so(
    room: Room, status: int
) -> None:
    async with room.visit("/money") as page:
        await page.route("**/stop", lambda route: route.fulfill(status=status, body="no"))
        await page.click(STOP, delay=50)
        await page.click("details.stop form button")

        why = f"unexpected answer (HTTP {status})"
        await expect(page.locator("#note")).to_have_text(NOT_STOPPED.format(why))
        await expect(page.locator("h1")).to_have_text("Spending today (UTC)")


async def test_stop_that_gets_no_answer_says_so(room: Room) -> None:
    async with room.visit("/money") as page:
        await page.route("**/stop", lambda _route: None)
        await page.click(STOP, delay=50)
        await page.click("details.stop form button")

        why = NOT_STOPPED.format("no answer within 5 s")
        await expect(page.locator("#note")).to_have_text(why)


async def test_button_that_nobody_hears_says_so(room: Room) -> None:
    async with room.visit("/safe-mode") as page:
        await page.route(re.compile("/safe-mode[?]from"), lambda route: route.abort())
        await page.click("button[value=safe_mode_enter]")

        await expect(page.locator("#note")).to_have_text("Not done: no answer from safetyd.")


async def test_click_while_the_daemon_dies_answers_nothing_twice(
    daemon: RunningDaemon, room: Room
) -> None:
    with Asker(daemon, "hasty") as agent:
        asked = agent.propose("click-1")
    request_id = asked["request_id"]
    sent = anyio.Event()

    async def lose_the_answer(route: Route) -> None:
        """Deliver the form, then kill the daemon before the page gets a response."""
        asked = urlsplit(route.request.url)
        # What asks here is no browser, and does not find names below localhost.
        address = asked._replace(netloc=f"127.0.0.1:{asked.port}").geturl()
        headers = {**await route.request.all_headers(), "host": asked.netloc}
        await route.fetch(url=address, headers=headers, max_redirects=0)
        daemon.kill()
        await route.abort()
        sent.set()

    async with room.visit(f"/requests/{request_id}") as page:
        await page.route(re.compile(r"/requests\?"), lose_the_answer, times=1)
        await page.click("button[value=approve]")
        with anyio.fail_after(WAIT_MS / 1000):
            await sent.wait()
        await page.wait_for_selector("body.stale", state="attached")
        daemon.start()

        await expect(page.locator("body.stale")).to_have_count(0)
        await expect(page.locator(".notice")).to_contain_text("Approved by local via web")
        await expect(page.locator("button[value=approve]")).to_have_count(0)

    rows = query(daemon, "decisions", what="events")["rows"]
    answers = [
        row for row in rows if (row.get("request_id"), row.get("by")) == (request_id, "local")
    ]
    assert len(answers) == 1
