"""The daemon's HTTP listeners and what each serves."""

import logging
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
import pytest

from safetyd.console import command_table
from safetyd.core.events.request_events import Answered
from safetyd.daemon.config import ConfigError, parse
from safetyd.host import Unusable
from safetyd.monitoring.metrics import Metrics
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.http_server import FrontPage
from safetyd.web.pages.front_page import (
    COMMANDS,
    LINKS,
    NOTHING,
    PATHS,
    TITLE,
    front_page,
    front_text,
)
from safetyd.web.site import PORT_FILE, Site
from tests.notify.notifier_rig import NotifierRig
from tests.notify.sms.twilio_stand_in import AUTH_TOKEN, send_inbound

PUBLIC = 'public_url = "https://safety.example.com/"\n'
TABLES = """
[notifications.email]
enabled = true
from = "safetyd@example.com"
smtp_host = "127.0.0.1"
smtp_port = 1
security = "none"
[notifications.sms]
enabled = true
from = "+15550199"
account_sid = "AC1"
auth_token_file = "token"
[[recipients]]
name = "alice"
email = "alice@example.com"
sms = "+15550100"
"""
OUTSIDE = {"Host": "safety.example.com"}


class Heard(NamedTuple):
    status: int
    text: str


class SiteRig:
    """A site over a notifier that delivers nothing."""

    def __init__(self, data_dir: Path, web: str = "", token: str = "t" * 43) -> None:
        (data_dir / "token").write_text(AUTH_TOKEN)
        if token:
            (data_dir / "keys").mkdir(exist_ok=True)
            (data_dir / "keys" / "operator.token").write_text(token)
        table = f"[web]\nport = 0\nlinks_port = 0\n{web}"
        if "port" in web:
            table = f"[web]\n{web}"
        self.rig = NotifierRig(data_dir, table, TABLES)
        self.wired = self.rig.wired
        self.front = Site(
            self.rig.settings.config.web,
            self.rig.settings.keyring.bearer,
            Metrics("1"),
            EngineGateway(self.wired.mailbox, str, lambda: False),
            self.rig.notifier,
            self.wired.clock,
            directory=data_dir,
            room=[FrontPage(front_page(), front_text()).routes],
            waits=lambda _request: False,
            alive=str,
            ready=str,
        )

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator["SiteRig"]:
        try:
            await self.front.start()
            async with self.rig.writing(), aiohttp.ClientSession() as self._browser:
                yield self
        finally:
            await self.front.stop()

    async def get(self, url: str, **headers: str) -> Heard:
        async with self._browser.get(url, headers=headers) as response:
            return Heard(response.status, await response.text())

    async def post(self, url: str, form: dict[str, str], **headers: str) -> Heard:
        async with self._browser.post(url, data=form, headers=headers) as response:
            return Heard(response.status, await response.text())

    def link(self, ref: str) -> str:
        """Return the path of the link in the last notification."""
        (delivery, *_) = self.wired.engine.outbox.told(ref)
        return f"/d/{self.rig.notifier.links.signer.token(delivery.id, ref, 'alice')}"


@contextmanager
def taken(address: str = "127.0.0.1") -> Iterator[int]:
    """Yield a port that is taken."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        yield server.getsockname()[1]


@pytest.mark.req("S3.54")
async def test_without_a_public_address_one_listener_serves_everything(tmp_path: Path) -> None:
    async with SiteRig(tmp_path).at_work() as site:
        ref = site.wired.asks()
        site.wired.passes()
        web = site.front.web
        heard = {
            path: (await site.get(web + path)).status
            for path in ("/metrics", "/healthz", "/readyz", "/api/agent/safe-mode", site.link(ref))
        }
        hook = await site.post(f"{web}/hooks/sms", {"Body": "A 1234"})

    assert list(heard.values()) == [200, 200, 200, 401, 200]
    assert hook.status == 403
    assert site.front.links == ""
    assert site.front.base_url == web


@pytest.mark.req("S3.54")
async def test_with_a_public_address_links_and_hooks_are_all_that_the_second_listener_serves(
    tmp_path: Path,
) -> None:
    async with SiteRig(tmp_path, PUBLIC).at_work() as site:
        ref = site.wired.asks()
        site.wired.passes()
        web, links = site.front.web, site.front.links
        inside = [
            (await site.get(web + path)).status for path in ("/metrics", "/healthz", site.link(ref))
        ]
        inside.append((await site.post(f"{web}/hooks/sms", {})).status)
        outside = [
            (await site.get(links + path, **OUTSIDE)).status
            for path in ("/metrics", "/healthz", "/readyz", "/api/agent/safe-mode", site.link(ref))
        ]
        outside.append((await site.post(f"{links}/hooks/sms", {}, **OUTSIDE)).status)
        stranger = await site.get(links + site.link(ref), Host="evil.example")

    assert inside == [200, 200, 404, 404]
    assert outside == [404, 404, 404, 404, 200, 403]
    assert stranger.status == 403
    assert site.front.base_url == "https://safety.example.com"


@pytest.mark.parametrize("web", ["", PUBLIC])
async def test_the_front_page_says_where_to_look_and_what_it_names_is_there(
    tmp_path: Path, web: str
) -> None:
    async with SiteRig(tmp_path, web).at_work() as site:
        url = site.front.web
        page = await site.get(f"{url}/", Accept="text/html,*/*;q=0.8")
        text = await site.get(f"{url}/", Accept="*/*")
        named = [(await site.get(url + path)).status for path in PATHS]

    assert (page.status, text.status) == (200, 200)
    assert page.text.startswith("<!doctype html>")
    assert text.text.startswith(f"{TITLE}.\n")
    assert all(path in page.text and path in text.text for path in PATHS)
    assert {name.removeprefix("safetyd ") for name in COMMANDS} <= set(command_table.COMMANDS)
    assert named == [200, 200, 200, 401]


async def test_strangers_at_the_address_for_links_are_told_nothing(tmp_path: Path) -> None:
    async with SiteRig(tmp_path, PUBLIC).at_work() as site:
        page = await site.get(f"{site.front.links}/", Accept="text/html", **OUTSIDE)
        text = await site.get(f"{site.front.links}/", **OUTSIDE)

    assert (page.status, text.status) == (404, 404)
    assert f"<h1>{NOTHING}</h1>" in page.text
    assert text.text == f"{NOTHING}.\n{LINKS}\n"
    assert not any(word in page.text for word in (*PATHS, *COMMANDS))


@pytest.mark.req("S3.54")
async def test_the_page_of_a_link_records_the_answer(tmp_path: Path) -> None:
    async with SiteRig(tmp_path, PUBLIC).at_work() as site:
        ref = site.wired.asks()
        site.wired.passes()
        url = site.front.links + site.link(ref)
        page = await site.get(url, **OUTSIDE)
        nonce = re.search(r'name="n" value="([^"]*)"', page.text)
        assert nonce is not None
        pending = site.wired.queue.request(ref).state
        denied = await site.post(url, {"v": "deny", "n": nonce[1]}, **OUTSIDE)

    (answered,) = site.wired.journalled(Answered)
    assert isinstance(answered, Answered)
    assert (pending, denied.status) == ("pending", 200)
    assert (answered.answer, answered.by, answered.via) == ("denied", "alice", "link:email")


async def test_the_link_of_a_test_message_leads_back(tmp_path: Path) -> None:
    async with SiteRig(tmp_path).at_work() as site:
        note = site.rig.does("notify_test", channels=["email"])["note"]
        url = site.front.web + site.link(note)
        page = await site.get(url)
        nonce = re.search(r'name="n" value="([^"]*)"', page.text)
        assert nonce is not None
        seen = site.rig.asks("outbox", ref=note)["deliveries"][0]["opened_at"]
        await site.post(url, {"v": "test", "n": nonce[1]})
        used = site.rig.asks("outbox", ref=note)["deliveries"][0]["opened_at"]

    assert (page.status, seen) == (200, None)
    assert datetime.fromisoformat(used) == site.wired.at


@pytest.mark.req("S3.25")
async def test_a_reply_by_sms_is_heard_where_twilio_calls(tmp_path: Path) -> None:
    async with SiteRig(tmp_path, PUBLIC).at_work() as site:
        ref = site.wired.asks(urgency="high")  # others are not sent by SMS
        site.wired.passes()
        code = site.rig.notifier.links.code(ref, "alice", ())
        status, said = await send_inbound(
            f"{site.front.links}/hooks/sms",
            f"A {code}",
            sender="+15550100",
            public_url="https://safety.example.com/hooks/sms",
        )

    assert (status, "Approved." in said) == (200, True)
    assert site.wired.queue.request(ref).state == "approved"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::"])
async def test_a_port_that_nobody_has_set_gives_way_if_it_is_taken_on_either_address(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
) -> None:
    with taken(address) as port, caplog.at_level(logging.WARNING, "safetyd.web"):
        monkeypatch.setattr("safetyd.web.web_config.DEFAULT_PORT", port)
        async with SiteRig(tmp_path, "links_port = 0\n").at_work() as site:
            heard = await site.get(f"{site.front.web}/healthz")

    assert heard.status == 200
    assert f"port {port} is in use" in caplog.messages[-1]


async def test_the_port_that_was_found_instead_stays_and_gives_way_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def address() -> str:
        async with SiteRig(tmp_path, "links_port = 0\n").at_work() as site:
            return site.front.web

    with taken() as port:
        monkeypatch.setattr("safetyd.web.web_config.DEFAULT_PORT", port)
        first, again = await address(), await address()
        with socket.create_server(("127.0.0.1", urlsplit(first).port or 0)):
            moved = await address()
        after = await address()
    free = await address()

    assert again == first
    assert moved != first
    assert after == free == moved, "pages are open there"


@pytest.mark.parametrize("content", ["", "x", "70000", "80"])
async def test_without_a_kept_port_the_usual_one_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    with taken() as port:
        pass
    monkeypatch.setattr("safetyd.web.web_config.DEFAULT_PORT", port)
    (tmp_path / PORT_FILE).write_text(content)

    async with SiteRig(tmp_path, "links_port = 0\n").at_work() as site:
        assert urlsplit(site.front.web).port == port


@pytest.mark.parametrize("setting", ["port", "links_port"])
async def test_a_port_in_the_file_that_is_taken_is_named_with_its_setting(
    tmp_path: Path, setting: str
) -> None:
    other = "links_port" if setting == "port" else "port"
    with taken() as port:
        site = SiteRig(tmp_path, f"{setting} = {port}\n{other} = 0\n{PUBLIC}")

        with pytest.raises(Unusable, match=f"127.0.0.1:{port} .* or set `{setting}` in "):
            async with site.at_work():
                pass


@pytest.mark.parametrize("address", ["::1", "::"])
async def test_a_taken_ipv6_loopback_port_fails_the_start(tmp_path: Path, address: str) -> None:
    with taken(address) as port:
        site = SiteRig(tmp_path, f"port = {port}\n")

        with pytest.raises(Unusable, match=rf"cannot listen on \[::1\]:{port} \(address already"):
            async with site.at_work():
                pass


@pytest.mark.parametrize("token", ["", "short"])
def test_a_token_that_cannot_be_used_stops_the_start(tmp_path: Path, token: str) -> None:
    with pytest.raises(Unusable, match="the operator's token cannot be used"):
        SiteRig(tmp_path, token=token)


async def test_a_token_is_taken_on_as_it_is_now_and_without_one_nobody_is_heard(
    tmp_path: Path,
) -> None:
    token = tmp_path / "keys" / "operator.token"
    async with SiteRig(tmp_path).at_work() as site:
        url, heard = site.front.web + "/api/agent/nowhere", []
        for content in ("t" * 43, "n" * 43, "short"):
            token.write_text(content)
            heard.append(await site.get(url, Authorization=f"Bearer {'n' * 43}"))

    assert [each.status for each in heard] == [401, 404, 503]
    assert "the operator's token cannot be read" in heard[-1].text


async def test_configured_host_names_are_served_and_belong_to_safetyd(tmp_path: Path) -> None:
    async with SiteRig(tmp_path, 'port = 0\nnames = ["safetyd-1"]\n').at_work() as site:
        web, port = site.front.web, urlsplit(site.front.web).port
        statuses = [
            (await site.get(f"{web}/metrics", Host=f"{name}:{port}")).status
            for name in ("safetyd-1", "SAFETYD-1", "safetyd-2", "safetyd-1.example")
        ]

    assert statuses == [200, 200, 403, 403]


@pytest.mark.parametrize("name", ["", "http://safetyd-1", "safetyd-1:8787", "A", "a b"])
def test_a_host_name_has_no_scheme_and_no_port(name: str) -> None:
    with pytest.raises(ConfigError, match="a host name in lower case, without a port"):
        parse(f"[web]\nnames = [{name!r}]\n", "safetyd.toml")
