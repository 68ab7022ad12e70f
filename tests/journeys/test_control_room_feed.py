"""The feed in a browser while very much is decided: nothing twice, and no gap that is not said."""

import socket
from typing import Any, Final

import pytest
from playwright.async_api import Browser, Page, expect

from tests.bus.peer import Peer, pub
from tests.conftest import UNLIMITED, RunningDaemon, StartDaemon
from tests.journeys.control_room import Room
from tests.journeys.keyed_callers import with_keys
from tests.journeys.people import query

pytestmark = pytest.mark.journey

AGENT: Final = "busy"
FEED: Final = f"/feed?agent={AGENT}&what=decisions"
BURST: Final = 800
MOST: Final = 100  # rows that the feed shows

# Each row as its number, each gap as how many it stands for.
_LISTED: Final = """() => [...document.querySelectorAll("main tbody tr")].map((row) =>
  row.className === "gap" ? { more: Number(row.innerText.match(/[\\d,]+/)[0].replace(",", "")) }
                          : { seq: Number(row.id.slice(4)) })"""

# All that ever came on top: the numbers of rows, and of gaps what they follow and stand for.
_NOTE_ROWS: Final = """() => {
  const list = document.querySelector("main tbody");
  window.rows = [...list.rows].map((row) => Number(row.id.slice(4)));
  window.gaps = [];
  const note = (row) => {
    const number = Number(row.id.slice(4));
    if (row.className !== "gap") window.rows.push(number);
    else window.gaps.push([number, Number(row.innerText.match(/[\\d,]+/)[0].replace(",", ""))]);
  };
  new MutationObserver((records) => {
    for (const record of records) record.addedNodes.forEach(note);
  }).observe(list, { childList: true });
}"""


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return with_keys(start_module_daemon, f"{UNLIMITED}\n[web]\nport = {port}\n", AGENT)


@pytest.fixture(scope="module")
def room(daemon: RunningDaemon, browser: Browser) -> Room:
    return Room(daemon, browser)


def propose(daemon: RunningDaemon, count: int) -> None:
    """Propose so often without waiting, and return when all is decided."""
    inbox = f"_INBOX.agent.{AGENT}"
    seed = daemon.data_dir / "keys" / "agents" / f"{AGENT}.nk"
    one = pub(f"safety.v1.propose.{AGENT}".encode(), b'{"type":"read_file"}', f"{inbox}.x".encode())
    with Peer(daemon.endpoint.bus, seed, inbox) as peer:
        sid = peer.subscribe(f"{inbox}.x")
        peer.send(count * one)
        for _ in range(count):
            peer.heard(sid)


def decided(daemon: RunningDaemon) -> list[int]:
    """Return the numbers of all decisions, newest first."""
    numbers: list[int] = []
    asked: dict[str, Any] = {"agent": AGENT, "limit": 1000}
    while True:
        answer = query(daemon, "decisions", **asked)
        numbers += [row["seq"] for row in answer["rows"]]
        if not answer["more"]:
            return numbers
        asked["before"] = answer["before"]


async def assert_told(page: Page, numbers: list[int]) -> None:
    """Check that the page shows or counts everything in its order, down to the link for more."""
    await expect(page.locator("main tbody tr").first).to_have_id(f"seq-{numbers[0]}")
    # At once, for a page that goes on is renewed as a whole.
    listed, older = await page.evaluate(
        f"""() => [({_LISTED})(), document.querySelector("#older a")?.getAttribute("href")]"""
    )
    place = 0
    for row in listed:
        if "seq" in row:
            assert row["seq"] == numbers[place], (place, listed)
        place += row.get("more", 1)
    assert len(listed) <= MOST
    if place < len(numbers):
        assert str(older).endswith(f"before={listed[-1]['seq']}")
        await expect(page.locator("#older")).to_be_visible()


async def test_a_burst_is_shown_newest_first_and_what_is_left_out_is_counted(
    daemon: RunningDaemon, room: Room
) -> None:
    async with room.visit(FEED) as page:
        await expect(page.locator("#beat")).not_to_be_empty()
        await page.evaluate("window.loaded = 1")
        propose(daemon, 3)
        await assert_told(page, decided(daemon))
        await page.evaluate(_NOTE_ROWS)
        propose(daemon, BURST)
        numbers = decided(daemon)
        await assert_told(page, numbers)

        rows, gaps = await page.evaluate("[window.rows, window.gaps]")
        assert gaps
        assert len({*rows}) == len(rows)
        assert len(rows) + sum(count for _, count in gaps) == len(numbers)
        for follows, count in gaps:
            first = numbers.index(follows) + 1
            assert not {*numbers[first : first + count]} & {*rows}
            assert numbers[first + count] in rows

        await page.click("main tbody tr:first-child a[href^='/decisions/']")
        await expect(page.locator("h1")).to_contain_text("read_file")
        assert await page.evaluate("window.loaded") == 1


async def test_a_paused_feed_catches_up_when_it_continues(
    daemon: RunningDaemon, room: Room
) -> None:
    propose(daemon, 5)
    async with room.visit(FEED) as page:
        before = decided(daemon)
        await assert_told(page, before)
        await page.click("[data-pause]")
        propose(daemon, MOST + 50)
        beat = await page.locator("#beat").text_content()
        await expect(page.locator("#beat")).not_to_have_text(str(beat))
        await assert_told(page, before)
        await page.click("[data-pause]")
        await assert_told(page, decided(daemon))
        propose(daemon, 3)
        await assert_told(page, decided(daemon))


async def test_after_the_daemon_was_killed_the_feed_goes_on_without_a_gap(
    daemon: RunningDaemon, room: Room
) -> None:
    async with room.visit(FEED) as page:
        await assert_told(page, decided(daemon))
        await page.evaluate("window.loaded = 1")
        daemon.kill()
        await page.wait_for_selector("body.stale", state="attached")
        daemon.start()
        propose(daemon, 5)
        await expect(page.locator("body.stale")).to_have_count(0)
        await assert_told(page, decided(daemon))
        propose(daemon, 5)
        await assert_told(page, decided(daemon))
        assert await page.evaluate("window.loaded") == 1
