"""Programs without a key that take all turns and places of the listener."""

import asyncio
from urllib.parse import urlsplit

from safetyd.agents.sender_accounts import Sender
from safetyd.core.sender_limits import AGENT_LIMITS
from safetyd.web.control_room.visitors import COOKIE
from tests.servers import until
from tests.web.control_room.room_site import Browser, RoomSite


def _take_all_turns(site: RoomSite) -> None:
    """Use up the shared rate limit for a minute."""
    stranger = Sender("address:127.0.0.1")
    site.accounts.turn(stranger)
    site.accounts.account(stranger.account).turns.charge("", 60 * AGENT_LIMITS.requests_per_s)


async def test_sessions_have_their_own_rate_limit(site: RoomSite, alice: Browser) -> None:
    async with site.browser() as stranger:
        _take_all_turns(site)

        assert (await stranger.get("/")).status == 429
        assert (await alice.get("/", **{"Sec-Fetch-Site": "same-site"})).status == 429
        assert (await alice.get("/")).status == 200


async def test_a_link_that_signs_in_is_not_shut_out_either(site: RoomSite) -> None:
    link = site.link()
    async with site.browser() as browser:
        _take_all_turns(site)

        assert (await browser.hear("POST", "/signin/nobodys")).status == 429
        assert (await browser.hear("POST", link)).status == 200


async def test_a_session_that_awaits_an_answer_is_not_dropped(
    site: RoomSite, alice: Browser
) -> None:
    address = urlsplit(site.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = f"POST /stop HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {COOKIE}={alice.cookie}\r\n"
    writer.write(f"{head}Content-Length: 3\r\n\r\n".encode())
    await until(lambda: bool(site.accounts.busy))
    others = [
        await asyncio.open_connection(address.hostname, address.port)
        for _ in range(AGENT_LIMITS.connections + 10)
    ]
    writer.write(b"a=b")

    assert (await reader.readline()).startswith(b"HTTP/1.1 303")
    for _, other in (*others, (reader, writer)):
        other.close()
