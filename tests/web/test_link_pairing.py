"""Pairing browsers, which approve without a code."""

from collections.abc import AsyncIterator

import anyio
import pytest

from safetyd.core.events.notification_events import Announced
from safetyd.web.forms import COOKIE
from tests.servers import until
from tests.story import at
from tests.web.link_site import Heard, LinkSite


@pytest.fixture
async def site() -> AsyncIterator[LinkSite]:
    async with LinkSite().at_work() as site:
        yield site


async def pair(site: LinkSite, recipient: str) -> tuple[Heard, str]:
    """Pair a browser; return the response and the cookie."""
    token = site.signer.pairing(recipient, at(site.clock.t))
    page = await site.get(token)
    heard = await site.hears("POST", token, data={"v": "pair", "n": page.nonce})
    return heard, heard.headers.get("Set-Cookie", "").partition(";")[0].partition("=")[2]


@pytest.mark.req("S3.54")
async def test_paired_browser_approves_without_a_code(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    paired, cookie = await pair(site, "alice")
    data = {"v": "approve", "n": site.nonce(token)}

    heard = await site.hears("POST", token, data=data, headers={"Cookie": f"{COOKIE}={cookie}"})

    assert paired.status == 200
    flags = paired.headers["Set-Cookie"]
    for flag in ("Secure", "HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=7776000"):
        assert flag in flags
    assert "Domain" not in flags
    assert heard.status == 200
    assert [answer.assurance for answer in site.answers()] == ["device"]


async def test_paired_browser_denies_with_words_to_the_agent(site: LinkSite) -> None:
    token = site.tells(site.asks())
    _, cookie = await pair(site, "alice")
    data = {"v": "deny", "n": site.nonce(token), "m": "not on Fridays"}

    await site.hears("POST", token, data=data, headers={"Cookie": f"{COOKIE}={cookie}"})

    (answer,) = site.answers()
    assert (answer.answer, answer.assurance) == ("denied", "device")
    assert answer.words == "not on Fridays"


async def test_browser_of_somebody_else_approves_nothing(site: LinkSite) -> None:
    token = site.tells(site.asks())
    _, cookie = await pair(site, "bob")
    data = {"v": "approve", "n": site.nonce(token)}

    heard = await site.hears("POST", token, data=data, headers={"Cookie": f"{COOKIE}={cookie}"})

    assert heard.status == 403
    assert site.answers() == []


async def test_pairing_asks_first_and_its_link_lives_for_ten_minutes(site: LinkSite) -> None:
    token = site.signer.pairing("alice", at(site.clock.t))

    asked = await site.get(token)
    bare = await site.hears("POST", token, data={"v": "pair"})
    site.clock.t += 600
    late = await site.hears("POST", token, data={"v": "pair", "n": asked.nonce})

    assert "Pair this browser for alice?" in asked.text
    assert "Set-Cookie" not in asked.headers
    assert (bare.status, late.status) == (403, 404)
    assert "Set-Cookie" not in bare.headers


async def test_pairing_that_ends_while_its_form_arrives_pairs_nothing(site: LinkSite) -> None:
    token = site.signer.pairing("alice", at(site.clock.t))
    nonce = (await site.get(token)).nonce
    site.purposes.clear()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"v=pair&"
        await site.looked_at("")
        site.clock.t += 600
        yield f"n={nonce}".encode()

    heard = await site.hears("POST", token, data=slowly())

    assert heard.status == 404


async def press(site: LinkSite, token: str, **headers: str) -> Heard:
    """Press the button of a page that was opened now."""
    data = {"v": "pair", "n": site.signer.nonce(token.encode(), at(site.clock.t))}
    return await site.hears("POST", token, data=data, headers=headers)


def announced(site: LinkSite) -> list[Announced]:
    return [event for event in site.queue.journal if isinstance(event, Announced)]


@pytest.mark.req("S3.54")
async def test_pairing_link_pairs_one_browser(site: LinkSite) -> None:
    token = site.signer.pairing("alice", at(site.clock.t))

    first, second, looked = (
        await press(site, token),
        await press(site, token),
        await site.get(token),
    )

    assert (first.status, second.status, looked.status) == (200, 404, 404)
    assert "Set-Cookie" not in second.headers
    assert len(announced(site)) == 1


async def test_pairing_link_that_two_use_at_once_pairs_one_browser() -> None:
    site = LinkSite()
    heard: list[Heard] = []
    token = site.signer.pairing("alice", at(site.clock.t))

    async def use() -> None:
        heard.append(await press(site, token))

    async with site.listening(), anyio.create_task_group() as tasks:
        tasks.start_soon(use)
        tasks.start_soon(use)
        # Nothing is written yet, so that the one who is paired waits.
        await until(lambda: len(heard) == 1)
        site.write()

    assert [each.status for each in heard] == [404, 200]
    assert len(announced(site)) == 1


@pytest.mark.req("S3.54")
async def test_a_recipient_is_notified_of_a_paired_browser(site: LinkSite) -> None:
    await pair(site, "alice")

    (told,) = announced(site)

    assert (told.recipients, told.note.kind) == (("alice",), "alert")
    assert told.note.title == "A browser was paired for alice"
    assert "connected from 127.0.0.1 " in told.note.text


async def test_the_notification_of_a_pairing_has_an_address_and_no_foreign_words() -> None:
    async with LinkSite(public_url="https://safety.example.com").at_work() as site:
        tokens = [site.signer.pairing(name, at(site.clock.t)) for name in ("alice", "bob")]

        await press(site, tokens[0], **{"X-Forwarded-For": "192.0.2.7"})
        await press(site, tokens[1], **{"X-Forwarded-For": "192.0.2.7, all is well"})

    texts = [told.note.text for told in announced(site)]
    assert "connected from 192.0.2.7 " in texts[0]
    assert "connected from 127.0.0.1 " in texts[1]


async def test_pairing_that_cannot_be_told_pairs_nothing_and_may_be_tried_again(
    site: LinkSite,
) -> None:
    token = site.signer.pairing("alice", at(site.clock.t))
    nonce = (await site.get(token)).nonce
    site.problem = "the disk is full"

    refused = await site.hears("POST", token, data={"v": "pair", "n": nonce})
    site.problem = ""
    again = await site.hears("POST", token, data={"v": "pair", "n": nonce})

    assert (refused.status, "Set-Cookie" in refused.headers) == (503, False)
    assert (again.status, "Set-Cookie" in again.headers) == (200, True)


async def test_pairing_links_that_are_remembered_are_bounded(
    site: LinkSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.web.link_handler.MAX_PAIRED", 1)
    old, new = (site.signer.pairing(name, at(site.clock.t)) for name in ("alice", "bob"))

    paired = [(await press(site, token)).status for token in (old, new)]

    assert paired == [200, 200]
    assert [(await site.get(token)).status for token in (old, new)] == [200, 404]
