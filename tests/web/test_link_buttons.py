"""Buttons of messages post a link's form without its page, and can do no more than the page."""

from collections.abc import AsyncIterator

import pytest

from safetyd.web.forms import answer_form
from tests.web.browser import chromium, visitor
from tests.web.link_site import LinkSite
from tests.web.test_chromium import elsewhere
from tests.web.test_link_assurance import revoked, wrong_code

DAY_S = 86_400.0
APP = "https://ntfy.example.com"

pytestmark = pytest.mark.req("S3.54")


@pytest.fixture
async def site() -> AsyncIterator[LinkSite]:
    async with LinkSite(apps=(APP,)).at_work() as site:
        yield site


async def test_buttons_answer_once_and_only_one_of_them(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id, channel="ntfy")
    deny = site.button(token, request_id, "deny")
    approve = site.button(token, request_id, "approve", site.code(request_id))

    heard = [await site.hears("POST", token, data=form) for form in (deny, deny, approve)]

    assert [each.status for each in heard] == [200, 200, 409]
    (answer,) = site.answers()
    assert (answer.answer, answer.via, answer.delivery) == ("denied", "link:ntfy", "dlv_1")
    assert answer.assurance == "button"


async def test_a_button_approves_only_with_the_code(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    right, wrong = site.code(request_id), wrong_code(site, request_id)
    form = site.button(token, request_id, "approve")

    refused = [await site.hears("POST", token, data=form | {"c": c}) for c in ("", wrong)]
    taken = await site.hears("POST", token, data=form | {"c": right})

    assert [each.status for each in (*refused, taken)] == [403, 403, 200]
    assert [answer.assurance for answer in site.answers()] == ["code"]


async def test_wrong_codes_of_buttons_and_pages_count_together(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    form = site.button(token, request_id, "approve", wrong_code(site, request_id))

    for _ in range(3):
        await site.hears("POST", token, data=form)
        await site.post(token, "approve", wrong_code(site, request_id))

    assert revoked(site) == ["dlv_1"]
    deny = site.button(token, request_id, "deny")
    assert (await site.hears("POST", token, data=deny)).status == 404
    assert site.answers() == []


async def test_a_button_gives_no_other_answer_and_answers_no_other_request(site: LinkSite) -> None:
    first, second = site.asks(), site.asks(id="p2", text="git push --force")
    token, other = site.tells(first), site.tells(second, delivery="dlv_2")
    code = site.code(first)
    denies = site.button(token, first, "deny", code)
    moved = site.button(other, second, "approve", code)
    token_id = site.signer.check(token)
    assert token_id is not None
    of_old_words = {"v": "approve", "n": site.signer.button(token_id, "approved", "0" * 12)}

    heard = [
        await site.hears("POST", token, data=form)
        for form in (
            denies | {"v": "approve"},
            moved,
            of_old_words | {"c": code},
            denies | {"n": ""},
        )
    ]

    assert [each.status for each in heard] == [403] * 4
    assert site.answers() == []


async def test_opening_a_button_shows_the_page_and_answers_nothing(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    form = site.button(token, request_id, "approve", site.code(request_id))

    heard = [await site.hears(method, token, params=form) for method in ("GET", "HEAD")]

    assert [each.status for each in heard] == [200, 200]
    assert "Approve</button>" in heard[0].text
    assert site.answers() == []


async def test_a_button_lives_as_long_as_its_link(site: LinkSite) -> None:
    request_id = site.asks(timeout_s=0)
    token = site.tells(request_id)
    form = site.button(token, request_id, "deny")

    site.clock.t += 8 * DAY_S
    late = await site.hears("POST", token, data=form)

    assert late.status == 410
    assert site.answers() == []


async def test_a_web_app_can_press_buttons_and_send_no_other_form(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    form = site.button(token, request_id, "deny")
    from_app = {"Origin": APP, "Sec-Fetch-Site": "cross-site"}
    from_page = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    paired = {"Cookie": f"__Host-safetyd-device={site.signer.device('alice', site.clock.now().at)}"}
    page = {"v": "approve", "n": site.nonce(token), "c": site.code(request_id)}
    unspoken = site.button(token, request_id, "approve")

    stranger = await site.hears("POST", token, data=form, headers=from_page)
    copied = await site.hears("POST", token, data=page, headers=from_app)
    riding = await site.hears("POST", token, data=unspoken, headers=from_app | paired)
    assert [each.status for each in (stranger, copied, riding)] == [403] * 3
    assert site.answers() == []
    assert "Access-Control-Allow-Origin" not in stranger.headers
    assert (
        "Access-Control-Allow-Origin"
        not in (await site.hears("GET", token, headers=from_app)).headers
    )

    pressed = await site.hears("POST", token, data=form, headers=from_app)
    assert pressed.status == 200
    assert pressed.headers["Access-Control-Allow-Origin"] == APP
    assert pressed.headers["Vary"] == "Origin"


async def test_a_web_app_pairs_no_browser(site: LinkSite) -> None:
    token = site.signer.pairing("alice", site.clock.now().at)
    nonce = site.signer.nonce(token.encode(), site.clock.now().at)

    heard = await site.hears("POST", token, data={"v": "pair", "n": nonce}, headers={"Origin": APP})

    assert heard.status == 403


async def test_the_app_in_a_browser_learns_that_the_answer_was_recorded() -> None:
    apps: list[str] = []
    async with LinkSite(apps=apps).at_work() as site, chromium() as browser:
        request_id = site.asks()
        token = site.tells(request_id)
        form = site.button(token, request_id, "deny")
        press = """([url, body]) => fetch(url, {method: 'POST', headers: {}, body})
            .then(response => response.status, () => 'refused')"""
        body = f"v={form['v']}&n={form['n']}"
        async with elsewhere("<h1>ntfy</h1>") as app, visitor(browser) as page:
            await page.goto(app)
            refused = await page.evaluate(press, [f"{site.url}/d/{token}", body])
            before = site.answers()
            apps.append(app.rstrip("/"))
            pressed = await page.evaluate(press, [f"{site.url}/d/{token}", body])

    assert (refused, before) == ("refused", [])
    assert pressed == 200
    assert [answer.answer for answer in site.answers()] == ["denied"]


async def test_through_a_relay_a_button_needs_all_digits_of_the_code(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    token_id = site.signer.check(token)
    assert token_id is not None
    heard = []
    for digits in (4, 6):
        code = site.signer.code(request_id, "alice", digits)
        form = answer_form(
            site.button(token, request_id, "approve", code), peer="phone", relay="house"
        )
        heard.append((await site.link_pages.settle(token_id, form)).status)

    assert heard == [403, 200]
    assert len(site.answers()) == 1
