"""Pages on other ports of this machine, whose cookies browsers send to the control room too."""

import asyncio
from urllib.parse import urlsplit

from tests.web.control_room.room_site import RoomSite

CLEARED = b'Clear-Site-Data: "cookies"'


async def _answer(site: RoomSite, asked: bytes) -> bytes:
    address = urlsplit(site.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(asked)
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return head


async def test_more_cookies_than_are_read_are_gone_with_the_next_page(site: RoomSite) -> None:
    crammed = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: a=" + b"x" * 10_000 + b"\r\n\r\n"

    assert CLEARED in await _answer(site, crammed)
    assert CLEARED not in await _answer(site, b"what is this\r\n\r\n")
