"""Rate limits of links; no client can use up those of others."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request

from safetyd.web.forms import caller
from safetyd.web.throttle import ANSWERS, LOOKS, REQUESTS, STRANGERS
from tests.story import at
from tests.web.link_site import LinkSite

PUBLIC = "https://safety.example.com"
JUNK = "1a" + "A" * 43


@pytest.fixture
async def site() -> AsyncIterator[LinkSite]:
    async with LinkSite().at_work() as site:
        yield site


async def forwarded(site: LinkSite, *lines: str) -> int:
    """Return the status of a junk link, opened through a proxy."""
    headers = [("X-Forwarded-For", line) for line in lines]
    return (await site.hears("GET", JUNK, headers=headers)).status


@pytest.mark.req("S3.54")
async def test_one_token_may_be_looked_at_so_often_a_minute_whoever_does(site: LinkSite) -> None:
    token = site.tells(site.asks())

    heard = [(await site.get(token)).status for _ in range(LOOKS)]
    refused = await site.get(token)
    elsewhere = await from_address(site, "127.0.0.2", token, 1)
    site.steady += 1.0

    assert set(heard) == {200}
    assert (refused.status, refused.headers["Retry-After"], elsewhere) == (429, "1", [429])
    assert (await site.get(token)).status == 200


@pytest.mark.req("S3.54")
async def test_the_rate_limit_of_an_address_does_not_affect_valid_links(site: LinkSite) -> None:
    token = site.tells(site.asks())
    pairing = site.signer.pairing("alice", at(site.clock.t))

    strangers = [(await site.get(JUNK)).status for _ in range(REQUESTS + 1)]

    assert strangers == [404] * REQUESTS + [429]
    assert (await site.get(token)).status == 200
    assert (await site.get(pairing)).status == 200
    assert (await site.post(token, "deny")).status == 200


async def test_the_rate_limit_of_one_link_does_not_affect_others(site: LinkSite) -> None:
    request_id = site.asks()
    token = site.tells(request_id)
    other = site.tells(request_id, delivery="dlv_2")
    for _ in range(LOOKS + 1):
        await site.get(token)

    assert (await site.get(token)).status == 429
    assert (await site.get(other)).status == 200


async def test_one_token_may_answer_so_often_a_minute(site: LinkSite) -> None:
    token = site.tells(site.asks())

    heard = [(await site.post(token, "approve")).status for _ in range(ANSWERS)]
    refused = await site.post(token, "deny")

    assert set(heard) == {403}
    assert (refused.status, refused.headers["Retry-After"]) == (429, "6")
    assert site.answers() == []


async def from_address(site: LinkSite, address: str, token: str, times: int) -> list[int]:
    """Return the statuses of requests from an address."""
    connector = aiohttp.TCPConnector(local_addr=(address, 0))
    async with aiohttp.ClientSession(connector=connector) as browser:
        statuses = []
        for _ in range(times):
            async with browser.get(f"{site.url}/d/{token}") as response:
                statuses.append(response.status)
        return statuses


async def test_strangers_do_not_shut_out_who_has_a_link(site: LinkSite) -> None:
    token = site.tells(site.asks())

    strangers = [
        status
        for n in range(2, 6)
        for status in await from_address(site, f"127.0.0.{n}", JUNK, REQUESTS - 5)
    ]

    assert strangers == [404] * STRANGERS + [429] * (len(strangers) - STRANGERS)
    assert (await site.get(token)).status == 200


@pytest.mark.req("S3.54")
async def test_behind_a_proxy_the_last_address_that_it_names_counts() -> None:
    async with LinkSite(public_url=PUBLIC).at_work() as site:
        heard = [await forwarded(site, "192.0.2.1") for _ in range(REQUESTS)]
        same = [
            await forwarded(site, "192.0.2.1"),
            await forwarded(site, "192.0.2.9, 192.0.2.1"),
            await forwarded(site, "192.0.2.9", "192.0.2.1"),
        ]
        another = await forwarded(site, "192.0.2.1, 192.0.2.2")

    assert set(heard) == {404}
    assert (same, another) == ([429] * 3, 404)


@pytest.mark.parametrize("named", ["", "unknown", "192.0.2.1:4711", "192.0.2.1,"])
async def test_proxy_that_names_no_address_counts_itself(named: str) -> None:
    async with LinkSite(public_url=PUBLIC).at_work() as site:
        heard = [await forwarded(site, named) for _ in range(REQUESTS)]
        itself = await forwarded(site)

    assert set(heard) == {404}
    assert itself == 429


@pytest.mark.req("S3.54")
async def test_without_a_proxy_nobody_names_an_address_for_themselves(site: LinkSite) -> None:
    heard = [await forwarded(site, f"192.0.2.{n}") for n in range(REQUESTS + 1)]

    assert heard == [404] * REQUESTS + [429]


@pytest.mark.parametrize(
    ("peer", "counts"),
    [
        ("127.0.0.1", "192.0.2.1"),
        ("::ffff:127.0.0.1", "192.0.2.1"),
        ("198.51.100.7", "198.51.100.7"),
        ("2001:db8::7", "2001:db8::7"),
    ],
)
def test_only_a_proxy_on_this_machine_is_believed(peer: str, counts: str) -> None:
    asked = make_mocked_request("GET", f"/d/{JUNK}", headers={"X-Forwarded-For": "192.0.2.1"})

    assert caller(asked.clone(remote=peer), proxied=True) == counts
