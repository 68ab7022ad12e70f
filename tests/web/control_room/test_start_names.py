"""Each start has its own host name, and permits nothing under earlier ones."""

from pathlib import Path

from safetyd.core.events.guard_events import Resumed, Stopped
from safetyd.web.control_room.visitors import COOKIE
from safetyd.web.http_server import FORMER
from tests.web.control_room.room_site import Browser, Heard, RoomSite, room_site


async def enter(browser: Browser, name: str, host: str) -> Heard:
    """Use a link to the name of this start up, as shown under some host."""
    path = browser.site.link(name, numeric=False)
    return await browser.hear("POST", path, headers={"Host": host})


async def act(browser: Browser, path: str, host: str, **fields: object) -> Heard:
    sent = {"token": browser.token, **fields}
    return await browser.send(path, sent, {"X-Safetyd-Proof": browser.proof, "Host": host})


async def signed_in(browser: Browser, site: RoomSite) -> None:
    heard = await enter(browser, "alice", site.name)
    browser.proof = heard.text.partition('data-proof="')[2].partition('"')[0]
    browser.token = (await browser.get("/agents", Host=site.name)).value("token")


async def test_a_session_permits_only_under_the_name_of_its_start(
    site: RoomSite,
) -> None:
    async with site.browser() as browser:
        await signed_in(browser, site)
        await act(browser, "/stop", site.name)
        elsewhere = await act(browser, "/resume", "127.0.0.1", reason="why")
        before = len(site.journalled(Resumed))
        await act(browser, "/resume", site.name, reason="why")

    assert (elsewhere.status, before) == (401, 0)
    assert len(site.journalled(Resumed)) == 1


async def test_proof_of_an_earlier_start_looks_and_restricts_and_does_not_permit(
    tmp_path: Path,
) -> None:
    async with room_site(tmp_path) as first, first.browser() as browser:
        await signed_in(browser, first)
        cookie, proof, token = browser.cookie, browser.proof, browser.token
    async with room_site(tmp_path) as second, second.browser() as browser:
        browser.session.cookie_jar.update_cookies({COOKIE: cookie})
        browser.proof, browser.token = proof, token
        looked = [
            (await browser.get("/agents", Host=host)).status for host in (first.name, second.name)
        ]
        await act(browser, "/stop", first.name)
        refused = await act(browser, "/resume", first.name, reason="why")

    assert first.name != second.name
    assert looked == [200, 401]
    assert len(second.journalled(Stopped)) == 1
    assert not second.journalled(Resumed)
    assert "run `safetyd open`" in refused.note


async def test_link_of_this_start_signs_nobody_in_under_an_earlier_name_or_the_address(
    tmp_path: Path,
) -> None:
    async with room_site(tmp_path) as first, first.browser() as browser:
        await signed_in(browser, first)
    async with room_site(tmp_path) as second, second.browser() as browser:
        heard = [
            await enter(browser, "alice", host) for host in (first.name, "127.0.0.1", "localhost")
        ]
        numeric = [
            await browser.hear("POST", second.link(), headers={"Host": host})
            for host in (first.name, second.name)
        ]
        good = await enter(browser, "alice", second.name)

    assert {each.status for each in (*heard, *numeric)} == {404}
    assert not any("Set-Cookie" in each.headers for each in (*heard, *numeric))
    assert good.status == 200


async def test_name_that_nobody_is_signed_in_under_any_more_says_how_one_comes_in(
    tmp_path: Path,
) -> None:
    async with room_site(tmp_path) as first, first.browser() as browser:
        await signed_in(browser, first)
        token, cookie = browser.token, browser.cookie
    async with room_site(tmp_path) as second, second.browser() as browser:
        browser.session.cookie_jar.update_cookies({COOKIE: cookie})
        browser.token = token
        before = (await browser.get("/agents", Host=first.name)).status
        left = await act(browser, "/signout", first.name)

    assert before == 200
    assert (left.status, left.text) == (403, FORMER)
