"""Many signed-in readers of the control room, each with an open stream."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from http.cookies import SimpleCookie
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from benchmarks.processes import Unmeasured, call
from benchmarks.rig import SAFETYD, Daemon

ADDRESS: Final = "127.0.0.1"
OPENED_PER_S: Final = 50.0  # below the daemon's limit
PIECE: Final = 1 << 16


class Entry(NamedTuple):
    """Address and host name of the control room, and the cookie of a signed-in browser."""

    port: int
    host: str
    cookie: str


def sign_in_link(daemon: Daemon) -> str:
    """Return a link that signs one browser in."""
    where = ("--data-dir", str(daemon.place.data_dir))
    return str(json.loads(call(*SAFETYD, "open", "--print", "--json", *where))["url"])


def sign_in(daemon: Daemon) -> Entry:
    link = sign_in_link(daemon)
    address = urlsplit(link)
    outside = Entry(address.port or 80, address.netloc, "")
    with urlopen(_request(outside, address.path, method="POST")) as answer:
        cookies = SimpleCookie(answer.headers["Set-Cookie"])
    cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in cookies.items())
    return outside._replace(cookie=cookie)


def fetch(entry: Entry, path: str) -> bytes:
    """Return a page as a signed-in browser gets it."""
    with urlopen(_request(entry, path)) as answer:
        return bytes(answer.read())


def _request(entry: Entry, path: str, method: str = "GET") -> Request:
    """Connect by address, but with the host name that a browser uses."""
    headers = {"Host": entry.host, "Cookie": entry.cookie}
    return Request(f"http://{ADDRESS}:{entry.port}{path}", headers=headers, method=method)


class Readers:
    """How much the readers received."""

    def __init__(self) -> None:
        self.bytes = 0
        self.opened = 0
        self.closed = 0

    async def read(self, entry: Entry, page: str) -> None:
        """Read a page's stream until cancelled."""
        source, sink = await asyncio.open_connection(ADDRESS, entry.port)
        try:
            sink.write(_question(entry, page))
            await source.readuntil(b"event: ")
            self.opened += 1
            while piece := await source.read(PIECE):
                self.bytes += len(piece)
            self.closed += 1
        finally:
            sink.close()


@contextlib.asynccontextmanager
async def looking(
    entries: Sequence[Entry], pages: Sequence[str], count: int
) -> AsyncIterator[Readers]:
    """Open this many streams, spread over browsers and pages."""
    readers = Readers()
    tasks = []
    for number in range(count):
        entry, page = entries[number % len(entries)], pages[number % len(pages)]
        tasks.append(asyncio.create_task(readers.read(entry, page)))
        await asyncio.sleep(1.0 / OPENED_PER_S)
    try:
        await _all_open(readers, tasks)
        yield readers
        if readers.closed:
            raise Unmeasured(f"{readers.closed} of {count} open pages were closed by the daemon")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _all_open(readers: Readers, tasks: Sequence[asyncio.Task[None]]) -> None:
    for _ in range(1000):
        if readers.opened == len(tasks):
            return
        failed = [task for task in tasks if task.done()]
        if failed:
            raise Unmeasured(f"a page could not be opened: {failed[0].exception()}")
        await asyncio.sleep(0.02)
    raise Unmeasured(f"only {readers.opened} of {len(tasks)} pages could be opened")


def _question(entry: Entry, page: str) -> bytes:
    lines = (
        f"GET /live?page={quote(page, safe='')} HTTP/1.1",
        f"Host: {entry.host}",
        f"Cookie: {entry.cookie}",
        "Accept: text/event-stream",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
