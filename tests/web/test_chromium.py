"""Decision links in a real browser: a person can answer, and programs that read mail cannot."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import anyio
import pytest
from aiohttp import web
from playwright.async_api import Browser, Page

from safetyd.cards.similar_requests import set_ref
from safetyd.web.http_server import FrontPage, Listener
from safetyd.web.pages.front_page import front_page, front_text
from tests.web.axe_findings import grave_findings
from tests.web.browser import PHONE, WAIT_MS, chromium, visitor
from tests.web.link_site import LinkSite, serving

pytestmark = pytest.mark.req("S3.54")

# Presses every button, fills every field and sends every form, in every way that a script can.
BOT = """async () => {
  const send = (form, button) => new Promise(done => {
    const frame = document.createElement('iframe');
    frame.name = 'f' + Math.random();
    frame.onload = () => done();
    document.body.append(frame);
    form.target = frame.name;
    button ? form.requestSubmit(button) : form.submit();
    setTimeout(done, 300);
  });
  for (const field of document.querySelectorAll('input:not([type=hidden]), textarea'))
    field.value = '000000';
  for (const form of document.forms)
    for (const button of [...form.querySelectorAll('[value=approve]'), null])
      await send(form, button);
  for (const form of document.forms) {
    const sent = new FormData(form);
    sent.set('v', 'approve');
    sent.set('c', '');
    await fetch('', {method: 'POST', body: new URLSearchParams(sent)}).catch(() => null);
  }
}"""


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    async with visitor(browser) as page:
        yield page


@pytest.fixture
async def site() -> AsyncIterator[LinkSite]:
    async with LinkSite().at_work() as site:
        yield site


@asynccontextmanager
async def elsewhere(content: str) -> AsyncIterator[str]:
    """Yield the address of a page on another site."""

    async def get(_request: web.Request) -> web.Response:
        return web.Response(text=content, content_type="text/html")

    app = web.Application()
    app.router.add_get("/", get)
    async with serving(app) as port:
        yield f"http://localhost:{port}/"  # which to a browser is not where 127.0.0.1 is


async def press(page: Page, answer: str) -> None:
    async with page.expect_navigation():
        await page.click(f"button[value={answer}]")


async def heading(page: Page) -> str:
    return await page.inner_text("h1")


async def test_person_with_the_code_approves(site: LinkSite, page: Page) -> None:
    request_id = site.asks()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    await page.goto(f"{site.url}/d/{site.tells(request_id)}?i=a")

    await page.wait_for_selector("#c:focus")
    await page.keyboard.type(site.code(request_id))
    await page.fill("textarea", "go ahead")
    await press(page, "approve")

    assert await heading(page) == "Approved at 12:00 UTC"
    (answer,) = site.answers()
    assert (answer.answer, answer.assurance, answer.words) == ("approved", "code", "go ahead")
    assert "Chrome" in answer.peer
    assert problems == []


async def test_person_denies_with_one_click(site: LinkSite, page: Page) -> None:
    await page.goto(f"{site.url}/d/{site.tells(site.asks())}")

    await press(page, "deny")

    assert await heading(page) == "Denied at 12:00 UTC"
    assert [answer.answer for answer in site.answers()] == ["denied"]


async def test_button_alone_approves_nothing_and_the_page_asks_for_the_code(
    site: LinkSite, page: Page
) -> None:
    request_id = site.asks()
    await page.goto(f"{site.url}/d/{site.tells(request_id)}")

    await press(page, "approve")
    said = await page.inner_text(".notice")
    await page.fill("#c", site.code(request_id))
    await press(page, "approve")

    assert said == "Not recorded. To approve, enter the code from the notification."
    assert [answer.answer for answer in site.answers()] == ["approved"]


async def test_back_button_shows_that_it_is_answered(site: LinkSite, page: Page) -> None:
    request_id = site.asks()
    await page.goto(f"{site.url}/d/{site.tells(request_id)}")
    await page.fill("#c", site.code(request_id))
    await press(page, "approve")

    await page.go_back()

    assert await heading(page) == "Already approved by you at 12:00 UTC"
    assert len(site.answers()) == 1


@pytest.mark.parametrize("answer", ["approve", "deny"])
async def test_double_click_is_one_answer(
    site: LinkSite, page: Page, answer: Literal["approve", "deny"]
) -> None:
    request_id = site.asks()
    await page.goto(f"{site.url}/d/{site.tells(request_id)}")
    await page.fill("#c", site.code(request_id))

    await page.dblclick(f"button[value={answer}]")
    await page.wait_for_selector("h1:has-text('at 12:00 UTC')")

    assert len(site.answers()) == 1


async def test_programs_that_load_links_ahead_change_nothing(site: LinkSite, page: Page) -> None:
    token = site.tells(site.asks())
    rules = f'{{"prerender": [{{"urls": ["/d/{token}"], "eagerness": "immediate"}}]}}'
    site.page = (
        f'<link rel="prefetch" href="/d/{token}?prefetched">'
        f'<script type="speculationrules">{rules}</script><a href="/d/{token}">Approve</a>'
    )
    before = list(site.queue.journal)

    await page.goto(f"{site.url}/page")
    with anyio.fail_after(WAIT_MS / 1000):
        await site.looked_at("prefetch", "prefetch;prerender")
    async with page.expect_navigation():
        await page.click("a")

    assert await heading(page) == "push by code"
    assert site.queue.journal == before


async def test_form_on_another_site_is_refused_though_it_knows_everything(
    site: LinkSite, page: Page
) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    fields = {"v": "approve", "n": site.nonce(token), "c": site.code(request_id)}
    inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
    form = f'<form method="post" action="{site.url}/d/{token}">{inputs}<button>x</button></form>'

    for policy in ("unsafe-url", "no-referrer"):
        async with elsewhere(f'<meta name="referrer" content="{policy}">{form}') as address:
            await page.goto(address)
            async with page.expect_navigation():
                await page.click("button")
            assert await heading(page) == "Not recorded"

    assert site.answers() == []


async def test_page_shows_itself_in_no_frame(site: LinkSite, page: Page) -> None:
    site.page = f'<iframe src="{site.url}/d/{site.tells(site.asks())}"></iframe>'

    async with elsewhere(site.page) as another:
        for address in (f"{site.url}/page", another):
            await page.goto(address)
            frame = page.frames[1]
            await frame.wait_for_load_state()
            assert await frame.query_selector("button") is None


async def test_program_that_presses_every_button_never_approves(
    site: LinkSite, browser: Browser
) -> None:
    request_id = site.asks()
    token = site.tells(request_id)

    # It does not care what a page forbids.
    async with visitor(browser, bypass_csp=True) as page:
        for _ in range(2):
            site.steady += 60.0
            await page.goto(f"{site.url}/d/{token}")
            await page.evaluate(BOT)
            async with page.expect_response(lambda heard: heard.request.method == "POST"):
                await page.click("button[value=approve]")

    assert site.decisions.counts["POST 403"] >= 4
    assert site.decisions.counts["POST 200"] == 0
    assert site.answers() == []
    site.steady += 60.0
    heard = await site.post(token, "approve", site.code(request_id))
    assert heard.status == 200


async def test_program_that_presses_all_at_once_denies_at_the_most(
    site: LinkSite, page: Page
) -> None:
    await page.goto(f"{site.url}/d/{site.tells(site.asks())}")

    async with page.expect_navigation():
        await page.evaluate("() => document.querySelectorAll('button').forEach(b => b.click())")

    assert {answer.answer for answer in site.answers()} <= {"denied"}


async def test_paired_browser_approves_with_one_click(site: LinkSite, page: Page) -> None:
    token = site.tells(site.asks())
    await page.goto(f"{site.url}/d/{site.signer.pairing('alice', site.clock.now().at)}")
    await press(page, "pair")
    paired = await heading(page)

    await page.goto(f"{site.url}/d/{token}")
    await press(page, "approve")

    assert paired == "Paired"
    assert await heading(page) == "Approved at 12:00 UTC"
    assert [answer.assurance for answer in site.answers()] == ["device"]
    assert await page.evaluate("document.cookie") == ""


async def test_list_leads_to_each_request(site: LinkSite, page: Page) -> None:
    ids = [site.asks(id=f"p{n}", text=f"git push {n}") for n in range(2)]
    site.tells(*ids)
    await page.goto(f"{site.url}/d/{site.signer.token('dlv_1', '', 'alice')}")

    async with page.expect_navigation():
        await page.click("a >> nth=1")

    assert await page.inner_text("pre") == "git push 1"


@pytest.mark.parametrize(("scheme", "paper"), [("light", 255), ("dark", 20)])
async def test_every_page_fits_a_phone_and_can_be_read_whatever_an_agent_writes(
    site: LinkSite, browser: Browser, scheme: Literal["light", "dark"], paper: int
) -> None:
    long = {"text": "x" * 4000 + "\n" + "\u202e" * 50, "rationale": "y" * 3000}
    ids = [site.asks(id=f"p{n}", agent=f"{'a' * 60}{n}", **long) for n in range(2)]
    token = site.tells(*ids)
    pairing = site.signer.pairing("alice", site.clock.now().at)
    tokens = [token, site.signer.token("dlv_1", "", "alice"), pairing, "unknown"]
    listener = Listener("127.0.0.1", 0, [FrontPage(front_page(), front_text()).routes])
    front = await listener.start()
    width, height = PHONE
    size = {"width": width, "height": height}
    found: list[str] = []

    async with visitor(browser, viewport=size, color_scheme=scheme, bypass_csp=True) as page:
        for address in (*(f"{site.url}/d/{each}" for each in tokens), front, "denied"):
            if address == "denied":
                await page.goto(f"{site.url}/d/{token}")
                await press(page, "deny")
            else:
                await page.goto(address)
            if await page.evaluate("document.documentElement.scrollWidth") > width:
                found.append(f"{address} is too wide")
            colour = await page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert colour.startswith(f"rgb({paper},")
            heights = "all => all.map(one => one.offsetHeight)"
            assert all(tall >= 44 for tall in await page.locator("button").evaluate_all(heights))
            found += await grave_findings(page)
    await listener.stop()

    assert found == []


async def similar(site: LinkSite, count: int = 20) -> tuple[str, str]:
    """Return the link and the code of a set of similar requests."""
    ids = [
        site.asks(id=f"n{n}", type="run_shell", text=f"kubectl drain node-{n:02}")
        for n in range(count)
    ]
    requests = [site.queue.request(id_) for id_ in ids]
    site.tells(*ids)
    ref = set_ref(requests)
    return f"{site.url}/d/{site.signer.token('dlv_1', ref, 'alice')}", site.code(ref)


async def test_a_person_with_a_phone_answers_one_of_a_set_and_then_the_others(
    site: LinkSite, browser: Browser
) -> None:
    link, code = await similar(site)

    async with visitor(browser, viewport={"width": PHONE[0], "height": PHONE[1]}) as page:
        await page.goto(link)
        found = await grave_findings(page)
        wide = await page.evaluate("document.documentElement.scrollWidth")
        await page.click("li:nth-of-type(3) summary")
        await press(page, "deny-3")
        await page.click("a.button")
        await page.fill("#c", code)
        async with page.expect_navigation():
            await page.keyboard.press("Enter")
        said = await page.inner_text("h1")

    assert (found, wide) == ([], PHONE[0])
    assert said == "Approved: 19 requests"
    answers = site.answers()
    assert [answer.answer for answer in answers] == ["denied", *["approved"] * 19]
    assert answers[0].id == "n2"


async def test_program_that_presses_every_button_of_a_set_never_approves(
    site: LinkSite, page: Page
) -> None:
    link, _ = await similar(site, 3)

    await page.goto(link)
    await page.evaluate(BOT)

    assert "approved" not in {answer.answer for answer in site.answers()}
