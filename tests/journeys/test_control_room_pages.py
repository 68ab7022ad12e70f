"""The pages of the control room after an eventful day: content and charts."""

import re
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import anyio
import pytest
from playwright.async_api import Browser, Page, expect

from safetyd.core.guards.guard_chain import Chain
from safetyd.journal.audit import files
from tests.conftest import StartDaemon
from tests.journeys.eventful_day import UNHEARD, Day, eventful_day
from tests.journeys.room_reader import (
    assert_painted,
    assert_runs_down,
    signed_in,
)

pytestmark = pytest.mark.journey


@pytest.fixture(scope="module")
def day(
    start_module_daemon: StartDaemon, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Day]:
    with eventful_day(start_module_daemon, tmp_path_factory.mktemp("day")) as day:
        yield day


@pytest.fixture(scope="module")
async def page(day: Day, browser: Browser) -> AsyncIterator[Page]:
    """The browser of the local operator; each test begins with an address."""
    async with signed_in(day, browser) as page:
        yield page


async def test_agent_page_shows_its_timeline_sessions_and_what_is_usual(page: Page) -> None:
    await page.goto("/agents")
    await page.click("#agent-builder a")
    await expect(page.locator("h1")).to_contain_text("builder executing anonymous")

    state = page.locator("section[aria-label=State]")
    await expect(state).to_contain_text("morning: 0 rounds, $3.25, 13 decisions since")
    await expect(state).to_contain_text("noon: 0 rounds, $1.50")
    await expect(state).to_contain_text("Outside a session: 0 rounds")
    await expect(state).to_contain_text("read_file last.txt for")
    usual = page.locator("section[aria-label='Anomalies and usual values']")
    await expect(usual).to_contain_text("Statistical outlier: latency 9.0 s")
    await expect(usual).to_contain_text("llama-70b of builder: now 9 s, usual 0.101 s")
    await expect(usual.locator(".u-legend >> text=usual").first).to_be_visible()
    await assert_painted(page)
    timeline = page.locator("table.feed tbody tr")
    await expect(timeline.filter(has_text="anomaly detected")).to_have_count(1)
    await expect(timeline.filter(has_text="rm -rf /")).to_contain_text("blocked")
    await timeline.locator("a >> text=run_shell").click()
    await expect(page).to_have_url(re.compile("/decisions/wipe$"))


async def test_decision_page_says_what_each_guard_thought_and_where_it_is_written(
    day: Day, page: Page
) -> None:
    await page.goto("/decisions/wipe")

    guards = await page.locator("section[aria-label=Guards] tbody th").all_inner_texts()
    assert guards == list(Chain._fields)
    await expect(page.locator("#guard-gate")).to_contain_text("gate.blocklist:rm_rf")
    await expect(page.locator("#guard-gate")).to_contain_text("rm -rf /")
    await expect(page.locator("#guard-budget")).to_contain_text("day $5.25 of $20.00")
    await expect(page.locator("main")).not_to_contain_text("safetyd grant add")
    await expect(page.locator(".steps li").first).to_contain_text("proposed by builder")
    await expect(page.locator(".steps li").last).to_contain_text(
        "decided gate.blocklist:rm_rf: blocked"
    )
    place = await page.locator("dt:text('File') + dd").inner_text()
    named, line = re.findall(r"(.+), line (\d+)", place)[0]
    (file,) = (one for one in files(day.daemon.data_dir / "audit") if one.name == named)
    written = file.read_text().splitlines()[int(line) - 1]
    assert '"wipe"' in written
    assert await page.locator("dt:text('Hash') + dd").inner_text() in written


async def legend_shows(page: Page, text: str) -> None:
    """Point at the chart until its legend says something: an update of the page draws it again."""
    with anyio.fail_after(20):
        while text not in await page.locator(".u-legend").inner_text():
            await page.locator(".chart .u-over").hover(position={"x": 100, "y": 30})
            await page.locator(".chart .u-over").hover(position={"x": 120, "y": 40})


async def test_money_is_drawn_with_its_projection_and_told_by_agent_model_and_session(
    page: Page,
) -> None:
    await page.goto("/money")

    await assert_painted(page)
    await legend_shows(page, "limit$20.00")
    facts = page.locator("main > dl")
    await expect(facts).to_contain_text("Spent$5.25 of $20.00")
    await expect(facts).to_contain_text(re.compile(r"At midnight UTC\$[\d.]+ at this rate"))
    await expect(facts).to_contain_text("Anonymous agents$4.75 of $10.00")
    cells = page.locator("main > .wide td:nth-child(-n+2)")
    assert await cells.all_inner_texts() == [
        *("builder", "$4.75", "release", "$0.50"),
        *("llama-70b", "$3.25", "qwen-32b", "$2.00"),
        *("morning", "$3.25", "noon", "$1.50", "night", "$0.50"),
    ]
    await expect(page.locator("meter").first).to_have_attribute("value", "48")


async def test_open_breaker_draws_its_calls_and_counts_down_to_the_probe(page: Page) -> None:
    await page.goto("/breakers")
    first, *others = await page.locator(".tile").all()

    await expect(first.locator("h2")).to_have_text("search-api (anonymous agents)")
    await expect(first).to_contain_text("5 calls in a row failed")
    await expect(first).to_contain_text("5 of the last 8 calls failed")
    await expect(first.locator(".bad")).to_have_text(re.compile("first probe: .* left$"))
    await assert_runs_down(first.locator(".bad"))
    await assert_painted(page)
    for other in others:
        await expect(other.locator("strong")).to_have_text("closed")


async def test_limits_say_what_is_left_and_who_waits(page: Page) -> None:
    await page.goto("/limits")

    await expect(page.locator("#bucket-1")).to_contain_text("all agents")
    await expect(page.locator("#bucket-2")).to_contain_text("anonymous agents")
    rows = page.locator("tbody tr")
    await expect(rows.filter(has_text="agent: builder")).to_contain_text("of 120")
    await expect(rows.filter(has_text="model: llama-70b")).to_contain_text("20/s")
    await expect(page.locator("p.warn")).to_have_text("planner in session sprint: 5 of 5 rounds")
    cooling = page.locator("p:has-text('planner cannot dispatch to ops yet')")
    await assert_runs_down(cooling)


async def test_anomalies_come_by_severity_or_time_and_are_drawn(page: Page) -> None:
    await page.goto("/anomalies")

    found = page.locator("tbody[data-rows] tr")
    await expect(found.first).to_contain_text("Many file changes: 40 files")
    assert await found.locator(".tag").all_inner_texts() == ["high", "low"]
    await page.click("text=time")
    await expect(page).to_have_url(re.compile("sort=at"))
    times = await found.locator("time").evaluate_all("all => all.map(time => time.dateTime)")
    assert times == sorted(times, reverse=True)
    await assert_painted(page)
    await expect(page.locator(".tiles")).to_contain_text(
        "Files per commit, formatter: now 40 files"
    )
    await found.filter(has_text="outlier").locator("a").click()
    await expect(page.locator("h1")).to_contain_text("builder")


async def test_messages_say_what_was_sent_and_what_nobody_was_told(day: Day, page: Page) -> None:
    await page.goto("/messages")

    await expect(page.locator(".notice")).to_have_text(
        "1 request has reached none of their recipients."
    )
    await expect(page.locator("#channel-webhook")).to_contain_text("up")
    await expect(page.locator("#channel-ntfy .bad")).to_have_text("down")
    await expect(page.locator("#channel-ntfy")).to_contain_text("127.0.0.1 answered 401")
    rows = page.locator("tbody[data-rows] tr")
    lost = rows.filter(has_text=day.unheard)
    await expect(lost.filter(has_text="webhook")).to_contain_text("dead: 127.0.0.1 answered 410")
    await expect(lost.filter(has_text="ntfy")).to_contain_text("dead: 127.0.0.1 answered 410")
    await expect(rows.filter(has_text="parked: 127.0.0.1 answered 401")).not_to_have_count(0)
    await expect(rows.filter(has_text=day.asked[0])).to_contain_text("delivered")
    await expect(page.locator("main")).to_contain_text("on ntfy: queued until the channel is up.")
    await lost.locator("a").first.click()
    await expect(page.locator("main")).to_contain_text(f"{UNHEARD}")


async def test_times_are_the_readers_with_the_exact_one_on_hover(
    day: Day, browser: Browser
) -> None:
    zone = "Asia/Tokyo"
    async with signed_in(day, browser, timezone_id=zone, locale="en-GB") as page:
        for path in ("/decisions/wipe", "/messages"):
            await page.goto(path)
            shown = page.locator("main time[data-as=at]")
            await expect(shown.first).not_to_contain_text("UTC")
            times = await shown.evaluate_all("all => all.map(time => [time.title, time.innerText])")
            assert times
            for title, said in times:
                at = datetime.strptime(f"{title}+0000", "%Y-%m-%d %H:%M:%S.%f UTC%z")
                assert said.split()[-1] == f"{at.astimezone(ZoneInfo(zone)):%H:%M:%S}"
