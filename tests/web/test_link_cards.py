"""The page of a request in a real browser: its phone layout, and hostile words."""

from collections.abc import AsyncIterator
from typing import Any, Final, Literal

import msgspec
import pytest
from playwright.async_api import Browser, Page, ViewportSize

from safetyd.core.messages.proposal import Observation, Proposal, Target
from safetyd.core.policy import Policy
from tests.web.browser import PHONE, chromium, visitor
from tests.web.hostile_words import HOSTILE, WATCH, Watched
from tests.web.link_site import LinkSite

DIFF: Final = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new"
LONG: Final = "\n".join(f"line {n}" for n in range(300))

TAGS: Final = "[...new Set([...document.querySelectorAll('*')].map(found => found.localName))]"
KNOWN: Final = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "nav", "a", "form"),
    *("input", "h1", "h2", "p", "span", "div", "time", "pre", "code", "mark", "dl", "dt", "dd"),
    *("ul", "ol", "li", "br", "label", "textarea", "button"),
}


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@pytest.fixture
async def site() -> AsyncIterator[LinkSite]:
    async with LinkSite().at_work() as site:
        yield site


@pytest.fixture
async def phone(browser: Browser) -> AsyncIterator[Page]:
    async with visitor(browser, viewport=size(*PHONE)) as page:
        yield page


def size(width: int, height: int) -> ViewportSize:
    return {"width": width, "height": height}


def context(**said: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(said))


async def box(page: Page, selector: str) -> dict[str, float]:
    """Return where something is in the window."""
    found: dict[str, float] = await page.evaluate(
        "selector => document.querySelector(selector).getBoundingClientRect().toJSON()", selector
    )
    return found


@pytest.mark.req("S3.54")
async def test_long_request_has_its_buttons_in_sight_and_is_read_from_its_beginning(
    site: LinkSite, phone: Page
) -> None:
    token = site.tells(site.asks(text=LONG, context=context(diff=LONG)))

    await phone.goto(f"{site.url}/d/{token}?i=a")
    await phone.wait_for_selector("#c:focus")

    for selector in ("#c", "[value=approve]", "[value=deny]"):
        assert (await box(phone, selector))["bottom"] <= PHONE[1]
    assert await phone.evaluate("scrollY") == 0
    assert (await box(phone, "h1"))["top"] >= 0


async def test_nothing_stays_behind_the_buttons(site: LinkSite, phone: Page) -> None:
    token = site.tells(site.asks(text=LONG, rationale=LONG))
    await phone.goto(f"{site.url}/d/{token}")

    await phone.evaluate("scrollTo(0, document.documentElement.scrollHeight)")

    bar = await box(phone, ".bar")
    assert (await box(phone, "textarea"))["bottom"] <= bar["top"]
    assert bar["height"] < PHONE[1] / 4


async def test_no_part_of_what_would_be_approved_has_to_be_scrolled_on_its_own(
    site: LinkSite, phone: Page
) -> None:
    token = site.tells(site.asks(text=LONG, context=context(diff="x" * 5000, other=LONG)))
    await phone.goto(f"{site.url}/d/{token}")

    cut = await phone.evaluate(
        "[...document.querySelectorAll('.said')].filter(found =>"
        " found.tagName == 'PRE' && (found.scrollHeight > found.clientHeight"
        " || found.scrollWidth > found.clientWidth)).length"
    )

    assert cut == 0


async def test_low_window_is_not_filled_by_the_buttons(site: LinkSite, browser: Browser) -> None:
    token = site.tells(site.asks(text=LONG))

    async with visitor(browser, viewport=size(844, 390)) as page:
        await page.goto(f"{site.url}/d/{token}")
        bar = await box(page, ".bar")

    assert bar["top"] > 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_lines_of_a_diff_differ_by_colour_and_by_sign(
    site: LinkSite, browser: Browser, scheme: Literal["light", "dark"]
) -> None:
    token = site.tells(site.asks(context=context(diff=DIFF)))

    async with visitor(browser, viewport=size(*PHONE), color_scheme=scheme) as page:
        await page.goto(f"{site.url}/d/{token}")
        lines = await page.evaluate(
            "[...document.querySelectorAll('.line')].map(found =>"
            " [found.innerText.trimEnd(), getComputedStyle(found).backgroundColor])"
        )
        heights = await page.evaluate(
            "[...document.querySelectorAll('.line')].map(found => found.offsetHeight)"
        )

    assert [text for text, _ in lines] == ["--- a/x", "+++ b/x", "@@ -1 +1 @@", "-old", "+new"]
    assert len({colour for _, colour in lines[-2:]}) == 2
    assert lines[-1][1] != lines[0][1]
    assert len(set(heights)) == 1


async def test_paired_browser_goes_from_one_request_to_the_next_by_buttons_alone(
    site: LinkSite, phone: Page
) -> None:
    ids = [site.asks(id=f"p{n}", agent=f"agent-{n}") for n in range(3)]
    token = site.tells(*ids)
    await phone.goto(f"{site.url}/d/{site.signer.pairing('alice', site.clock.now().at)}")
    async with phone.expect_navigation():
        await phone.click("button[value=pair]")
    await phone.goto(f"{site.url}/d/{token}")

    for _ in ids:
        assert "This browser is paired for alice." in await phone.inner_text(".bar")
        assert await phone.query_selector("#c") is None
        async with phone.expect_navigation():
            await phone.click("button[value=approve]")
        if following := await phone.query_selector("text=Next:"):
            async with phone.expect_navigation():
                await following.click()

    assert [answer.request_id for answer in site.answers()] == ids
    assert {answer.assurance for answer in site.answers()} == {"device"}


def hostile(words: str) -> dict[str, Any]:
    """Return a proposal that says this in every field that can hold words, and as names."""
    whole = {"target": Target, "observation": Observation}
    given: dict[str, Any] = {
        name: kind(**dict.fromkeys(kind.__struct_fields__, words)) for name, kind in whole.items()
    }
    fields = msgspec.structs.fields(Proposal)
    numbers = {"cost_usd", "confidence", "timeout_s", "tokens", "scores", "at"}
    closed = {"urgency", "wait", "reversibility", "risk", "cloud", "dry_run"}
    others = numbers | closed | {"id", "agent", "supersedes", "paths", "context", "extra", *whole}
    given |= {field.name: words for field in fields if field.name not in others}
    said = {words: words, "diff": f"{DIFF}\n{words}", "list": [words, {words: [words]}]}
    return given | {"paths": (words, words), "context": context(**said), "extra": context(x=words)}


@pytest.fixture
async def watched(site: LinkSite, browser: Browser) -> AsyncIterator[Watched]:
    async with visitor(browser) as page:
        await page.add_init_script(WATCH)
        yield Watched(page, site.url)


@pytest.mark.req("S3.30")
@pytest.mark.parametrize("words", HOSTILE)
async def test_words_of_an_agent_never_run_in_any_field_on_any_page(
    site: LinkSite, watched: Watched, words: str
) -> None:
    earlier = site.asks(id="p0", **hostile(words))
    site.queue.answers(5, earlier, "denied", words=words, by="bob", once=True)
    fields = hostile(words) | {"session": f"{words} again"}
    ids = [site.asks(id="p1", **fields), site.asks(id="p2", agent="other", **fields)]
    token = site.tells(*ids)

    looked = await watched.opens(f"/d/{token}")
    shown, tags = await watched.page.inner_text("main"), await watched.page.evaluate(TAGS)
    titles = await watched.page.evaluate("document.querySelectorAll('h1').length")
    async with watched.page.expect_navigation():
        await watched.page.click("button[value=deny]")
    answered = await watched.after()
    listed = await watched.opens(f"/d/{site.signer.token('dlv_1', '', 'alice')}")

    assert (looked, answered, listed) == ([], [], [])
    assert (set(tags) - KNOWN, titles) == (set(), 1)
    assert shown.count(words) > 20


async def test_the_watcher_notices_a_page_that_acts(site: LinkSite, watched: Watched) -> None:
    policy = "default-src 'none'; script-src 'self'"
    site.page = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">{"".join(HOSTILE[:2])}'
    )

    done = await watched.opens("/page")

    assert any(found.startswith("script-src") for found in done)
    assert any(found.startswith("img-src") for found in done)


async def test_command_in_parts_is_marked_where_it_does_not_pass(browser: Browser) -> None:
    async with (
        LinkSite(Policy(profile="coding")).at_work() as site,
        visitor(browser, viewport=size(*PHONE)) as page,
    ):
        token = site.tells(site.asks(type="run_shell", text="ls; rm -rf ~/old"))
        await page.goto(f"{site.url}/d/{token}")
        marked = await page.inner_text("mark")

    assert marked == "rm -rf ~/old"
