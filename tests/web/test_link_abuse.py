"""Decision links refuse forms of other sites, floods, junk and unknown tokens."""

import json
import logging
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import aiohttp
import anyio
import pytest

from safetyd.core.events.notification_events import LinkRevoked
from safetyd.web.forms import MAX_BODY
from tests.story import at
from tests.web.link_site import LinkSite


@pytest.fixture
async def site() -> AsyncIterator[LinkSite]:
    async with LinkSite().at_work() as site:
        yield site


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_other_methods_are_refused_without_the_token(site: LinkSite, method: str) -> None:
    token = site.tells(site.asks())

    heard = await site.hears(method, token)

    assert heard.status == 405
    assert token not in heard.text


async def test_pages_may_neither_be_kept_nor_framed_nor_load_anything(site: LinkSite) -> None:
    token = site.tells(site.asks())

    for heard in (await site.get(token), await site.get("nothing")):
        headers = heard.headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'; style-src 'sha256-" in policy
        assert "frame-ancestors 'none'; base-uri 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Robots-Tag"] == "noindex"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert "Strict-Transport-Security" not in headers


async def test_encrypted_address_is_to_be_opened_encrypted_only() -> None:
    async with LinkSite(public_url="https://safety.example.com").at_work() as site:
        heard = await site.get("nothing")

    assert heard.headers["Strict-Transport-Security"] == "max-age=31536000"


@pytest.mark.req("S3.54")
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://evil.example"},
        {"Origin": "https://safety.example.com.evil.example"},
        {"Origin": "null"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
async def test_form_of_another_page_is_refused(headers: dict[str, str]) -> None:
    async with LinkSite(public_url="https://safety.example.com").at_work() as site:
        token = site.tells(site.asks())
        data = {"v": "deny", "n": site.nonce(token)}

        heard = await site.hears("POST", token, data=data, headers=headers)

    assert heard.status == 403
    assert "Not recorded" in heard.text
    assert site.answers() == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "HTTPS://safety.example.com"},
    ],
)
async def test_form_of_our_own_page_is_taken(headers: dict[str, str]) -> None:
    async with LinkSite(public_url="https://safety.example.com/safety").at_work() as site:
        token = site.tells(site.asks())
        data = {"v": "deny", "n": site.nonce(token)}

        heard = await site.hears("POST", token, data=data, headers=headers)

    assert heard.status == 200


async def test_address_that_was_opened_is_our_own_too(site: LinkSite) -> None:
    token = site.tells(site.asks())
    data = {"v": "deny", "n": site.nonce(token)}

    heard = await site.hears("POST", token, data=data, headers={"Origin": site.url})

    assert heard.status == 200


async def test_answer_without_a_form_of_ours_is_not_taken(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    other = site.tells(request_id, delivery="dlv_2")
    nonces = ("", "x", "9999999999.AAAAAAAAAAAAAAAAAAAAAA", site.nonce(other))

    heard = [
        await site.hears("POST", token, data={"v": "deny", "n": nonce, "c": site.code(request_id)})
        for nonce in nonces
    ]

    assert [each.status for each in heard] == [403] * 4
    assert site.answers() == []


async def test_form_that_was_open_for_too_long_comes_back_fresh(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    old = (await site.get(token)).nonce
    site.clock.t += 600

    stale = await site.hears("POST", token, data={"v": "deny", "n": old})
    fresh = await site.hears("POST", token, data={"v": "deny", "n": stale.nonce})

    assert (stale.status, "open for too long" in stale.text) == (403, True)
    assert fresh.status == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"v=perhaps", 400),
        (b"v=", 400),
        (b'{"v": "approve"}', 400),
        (b"&".join(b"a=1" for _ in range(50)), 400),
        (b"v=deny&m=" + b"x" * MAX_BODY, 413),
        (b"\xff\xfe\x00", 400),
    ],
)
async def test_malformed_answers_are_refused(site: LinkSite, body: bytes, status: int) -> None:
    token = site.tells(site.asks())

    heard = await site.hears("POST", token, data=body)

    assert heard.status == status
    assert "Not recorded" in heard.text
    assert site.answers() == []


@pytest.mark.parametrize("packed", ["gzip", "deflate"])
async def test_answer_that_is_not_packed_as_it_says_is_refused(site: LinkSite, packed: str) -> None:
    token = site.tells(site.asks())
    data = {"v": "deny", "n": site.nonce(token)}

    heard = await site.hears("POST", token, data=data, headers={"Content-Encoding": packed})

    assert (heard.status, site.answers()) == (400, [])


async def raw(site: LinkSite, token: str, body: bytes) -> bytes:
    """Return the response to an incomplete body."""
    address = urlsplit(site.url)
    async with await anyio.connect_tcp(str(address.hostname), int(address.port or 0)) as stream:
        head = f"POST /d/{token} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n"
        await stream.send(head.encode() + body)
        return b"" if body else await stream.receive()


async def test_body_that_never_comes_is_not_waited_for(
    site: LinkSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.web.forms.BODY_S", 0.01)

    assert b" 408 " in await raw(site, site.tells(site.asks()), b"")


async def test_peer_that_goes_away_within_its_answer_leaves_no_trace(
    site: LinkSite, caplog: pytest.LogCaptureFixture
) -> None:
    token = site.tells(site.asks())

    await raw(site, token, b"v=deny")

    assert (await site.get(token)).status == 200
    assert site.answers() == []
    assert caplog.text == ""


async def tokens_of_nobody(site: LinkSite) -> list[str]:
    request_id = site.asks()
    token = site.tells(request_id)
    revoked = site.tells(request_id, delivery="dlv_2")
    site.queue.happens(
        LinkRevoked(
            at=at(1), t=1.0, delivery="dlv_2", request_id=request_id, recipient="alice", why="x"
        )
    )
    forgotten = site.signer.token("dlv_3", request_id, "alice")
    site.sent_links.note("dlv_3", "alice")
    never_sent = site.signer.token("dlv_4", request_id, "alice")
    another = site.signer.token("dlv_1", "req_of_another", "alice")
    pairing = site.signer.pairing("alice", at(-700))
    return [revoked, forgotten, never_sent, another, pairing, token[:-1], token + "A", "x", "%00"]


@pytest.mark.req("S3.54")
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_every_token_that_opens_nothing_is_answered_alike(
    site: LinkSite, method: str
) -> None:
    tokens = await tokens_of_nobody(site)

    heard = [await site.hears(method, token, data={"v": "deny"}) for token in tokens]

    assert {each.status for each in heard} == {404}
    assert len({each.text for each in heard}) == 1
    assert not any(token in heard[0].text for token in tokens if len(token) > 3)


async def test_tokens_are_neither_logged_nor_repeated(
    site: LinkSite, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    request_id = site.asks()
    token = site.tells(request_id)
    wrong = f"{(int(site.code(request_id)) + 1) % 10_000:04}"

    heard = [
        await site.post(token, "approve", wrong),
        await site.post(token, "deny"),
        await site.post(token, "approve", site.code(request_id)),
        await site.get(token[:-1] + "*"),
    ]

    assert [each.status for each in heard] == [403, 200, 409, 404]
    said = caplog.text + "".join(json.dumps(each) for each in heard)
    assert token not in said
    assert token[2:24] not in said
    assert ": wrong_code" in caplog.text


@pytest.mark.req("S3.54")
async def test_of_thirty_answers_at_once_one_is_recorded(site: LinkSite) -> None:
    request_id = site.asks()
    links = {
        f"127.0.1.{n}": site.tells(request_id, recipient=name, delivery=f"dlv_{n}")
        for n, name in enumerate(("alice", "bob", "carol"), 1)
    }
    names = dict(zip(links, ("alice", "bob", "carol"), strict=True))
    statuses: list[tuple[str, int]] = []

    async def post(address: str, answer: str) -> None:
        token = links[address]
        data = {
            "v": answer,
            "n": site.nonce(token),
            "c": site.code(request_id, names[address]),
        }
        connector = aiohttp.TCPConnector(local_addr=(address, 0))
        async with (
            aiohttp.ClientSession(connector=connector) as browser,
            browser.post(f"{site.url}/d/{token}", data=data) as response,
        ):
            statuses.append((answer, response.status))

    async with anyio.create_task_group() as tasks:
        for n in range(30):
            tasks.start_soon(post, list(links)[n % 3], ("approve", "deny")[n % 2])

    (won,) = site.answers()
    kept = "approve" if won.answer == "approved" else "deny"
    assert sorted(statuses) == sorted(
        (answer, 200 if answer == kept else 409) for answer in ("approve", "deny") * 15
    )
