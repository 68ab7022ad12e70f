import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import aiohttp
import pytest
from msgspec.structs import replace

from safetyd.agents.sender_accounts import SenderAccounts
from safetyd.core.sender_limits import AGENT_LIMITS
from safetyd.journal.mailbox import Mailbox
from safetyd.monitoring.metrics import Metrics
from safetyd.web.http_server import FORMER, FrontPage, Listener, Vitals


class Site:
    """A listening server, a browser, and the daemon's health."""

    def __init__(self, url: str, browser: aiohttp.ClientSession, health: dict[str, str]) -> None:
        self._url = url
        self._browser = browser
        self.health = health

    async def get(
        self, path: str, host: str = "", method: str = "GET", **more: str
    ) -> tuple[int, str]:
        headers = {"Host": host} if host else {}
        headers |= {name.replace("_", "-"): value for name, value in more.items()}
        async with self._browser.request(method, self._url + path, headers=headers) as response:
            return response.status, await response.text()

    async def headers(self, path: str) -> dict[str, str]:
        async with self._browser.get(self._url + path) as response:
            return dict(response.headers)


@asynccontextmanager
async def serving(accounts: SenderAccounts) -> AsyncIterator[Site]:
    health = {"alive": "", "ready": ""}
    vitals = Vitals(
        Metrics("1.2.3"),
        Mailbox(),
        lambda: health["alive"],
        lambda: health["ready"],
        accounts.said,
    )
    routes = [vitals.routes, FrontPage("<p>page</p>", "text\n").routes]
    server = Listener("127.0.0.1", 0, routes, accounts=accounts)
    url = await server.start()
    async with aiohttp.ClientSession() as browser:
        yield Site(url, browser, health)
    await server.stop()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with serving(SenderAccounts()) as site:
        yield site


async def test_the_front_page_is_for_browsers_and_loads_and_runs_nothing(site: Site) -> None:
    status, page = await site.get("/", Accept="text/html")
    headers = await site.headers("/")

    assert (status, page) == (200, "<p>page</p>")
    assert await site.get("/", Accept="application/json") == (200, "text\n")
    assert (await site.get("/", method="HEAD"))[0] == 200
    assert (await site.get("/", method="POST"))[0] == 405
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["Vary"] == "Accept"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")


async def test_metrics_are_served_as_prometheus_text(site: Site) -> None:
    status, text = await site.get("/metrics")

    assert status == 200
    assert 'safetyd_build_info{version="1.2.3"} 1.0' in text
    content_type = (await site.headers("/metrics"))["Content-Type"]
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(("path", "what"), [("/healthz", "alive"), ("/readyz", "ready")])
async def test_health_is_told_with_its_reason(site: Site, path: str, what: str) -> None:
    well = await site.get(path)
    site.health[what] = "the bus is deaf"
    unwell = await site.get(path)

    assert well == (200, "ok\n")
    assert unwell == (503, "the bus is deaf\n")


async def test_alive_and_ready_are_different_questions(site: Site) -> None:
    site.health["ready"] = "starting"

    assert (await site.get("/healthz"))[0] == 200
    assert (await site.get("/readyz"))[0] == 503


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8787",
        "127.0.0.1.evil.example",
        "[",
        "[::1",
        "a@b",
        ":80",
        "[x]",
    ],
)
@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/nowhere"])
async def test_other_hosts_names_are_refused(site: Site, host: str, path: str) -> None:
    assert await site.get(path, host) == (403, "unknown host\n")


@pytest.mark.parametrize("host", ["a1.localhost", "a1.localhost:80", "A1.LOCALHOST", ".localhost"])
async def test_names_of_starts_that_nobody_knows_are_refused_with_the_way_in(
    site: Site, host: str
) -> None:
    assert await site.get("/healthz", host) == (403, FORMER)


@pytest.mark.parametrize("host", ["localhost", "localhost:1234", "LOCALHOST", "127.0.0.1", "[::1]"])
async def test_our_own_names_are_taken(site: Site, host: str) -> None:
    assert (await site.get("/healthz", host))[0] == 200


@pytest.mark.parametrize("path", ["/nowhere", "/metrics/", "/../etc/passwd", "/api"])
async def test_unknown_path_is_not_found(site: Site, path: str) -> None:
    assert (await site.get(path))[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_nothing_can_be_changed(site: Site, method: str) -> None:
    assert (await site.get("/metrics", method=method))[0] == 405


async def test_get_changes_nothing(site: Site) -> None:
    first = await site.get("/metrics")
    await site.get("/healthz")
    await site.get("/readyz")
    await site.get("/nowhere")

    assert await site.get("/metrics") == first


FOREIGN = [
    {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:3000", "Sec_Fetch_Site": "same-origin"},
]


@pytest.mark.parametrize("headers", FOREIGN)
async def test_pages_of_others_may_ask_how_it_is_and_nothing_else(
    site: Site, headers: dict[str, str]
) -> None:
    assert await site.get("/metrics", **headers) == (403, "not for other sites\n")
    assert (await site.get("/healthz", **headers))[0] == 200
    assert (await site.get("/readyz", **headers))[0] == 200


@pytest.mark.parametrize("site_header", ["none", "same-origin"])
async def test_people_and_our_own_pages_may_look_at_metrics(site: Site, site_header: str) -> None:
    assert (await site.get("/metrics", Sec_Fetch_Site=site_header))[0] == 200
    assert (await site.get("/metrics", host="localhost", Origin="http://localhost"))[0] == 200


async def test_a_request_that_would_wait_too_long_is_refused_and_the_sender_is_named() -> None:
    accounts = SenderAccounts(replace(AGENT_LIMITS, requests_per_s=0.01))
    async with serving(accounts) as site:
        answers = [await site.get("/metrics") for _ in range(int(AGENT_LIMITS.requests_saved) + 1)]

    assert [status for status, _ in answers] == [200] * (len(answers) - 1) + [429]
    assert answers[-1][1].startswith("address:127.0.0.1 is over the limit of ")
    assert accounts.said() == ["address:127.0.0.1 was over the limit of requests per second"]


async def test_address_of_an_ipv6_listener_can_be_opened() -> None:
    server = Listener("::1", 0, [Vitals(Metrics("1"), Mailbox(), str, str).routes])
    url = await server.start()

    async with aiohttp.ClientSession() as browser, browser.get(f"{url}/healthz") as response:
        status = response.status
    await server.stop()

    assert url.startswith("http://[::1]:")
    assert status == 200


async def test_taken_port_is_an_error_of_the_system() -> None:
    first = Listener("127.0.0.1", 0, ())
    port = int((await first.start()).rpartition(":")[2])
    second = Listener("127.0.0.1", port, ())

    with pytest.raises(OSError, match="address already in use"):
        await second.start()

    await second.stop()
    await first.stop()


async def test_server_that_never_listened_can_be_stopped() -> None:
    await Listener("127.0.0.1", 0, ()).stop()


async def test_connections_that_never_ask_give_way_and_health_names_their_sender(
    site: Site,
) -> None:
    address = urlsplit(site._url)
    opened = [
        await asyncio.open_connection(address.hostname, address.port)
        for _ in range(AGENT_LIMITS.connections + 5)
    ]

    assert await opened[0][0].read() == b""
    over = "address:127.0.0.1 was over the limit of open connections"
    assert await site.get("/healthz") == (200, f"ok\n{over}\n")
    for _, writer in opened:
        writer.close()


async def test_name_before_the_host_does_not_make_it_ours(site: Site) -> None:
    assert (await site.get("/healthz", host="evil@localhost"))[0] == 403


async def test_a_listener_on_all_addresses_is_announced_as_this_machine() -> None:
    listener = Listener("0.0.0.0", 0, [])
    url = await listener.start()
    await listener.stop()

    assert urlsplit(url).hostname == "127.0.0.1"


@pytest.mark.parametrize("said", [b"", b"GET /healthz HTT"], ids=["nothing", "half a head"])
async def test_a_connection_without_a_request_is_closed_after_a_while(said: bytes) -> None:
    async with serving(SenderAccounts(replace(AGENT_LIMITS, head_s=0.05))) as site:
        address = urlsplit(site._url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(said)

        assert await reader.read() == b""
        writer.close()


async def test_a_head_that_is_too_long_is_cut_off() -> None:
    async with serving(SenderAccounts(replace(AGENT_LIMITS, head_s=3600.0))) as site:
        address = urlsplit(site._url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        fields = [b"X-%d: %s\r\n" % (number, b"x" * 4096) for number in range(100)]
        writer.write(b"GET / HTTP/1.1\r\n" + b"".join(fields))

        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
