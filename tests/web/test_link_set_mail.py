"""Twenty similar requests: one real mail, its page, and one code."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from safetyd.core.events.request_events import Answered
from safetyd.notify.links.wrong_codes import WrongCodes
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.link_handler import LinkHandler
from safetyd.web.link_pages import LinkPages
from tests.notify.email.mail_servers import Received, mail_server
from tests.notify.notifier_rig import NotifierRig, mail_table
from tests.web.link_site import Heard, serving

STORM_S = 400.0


class MailedLinks:
    """The listener for links, with the engine and the keys of the notifier."""

    def __init__(self, rig: NotifierRig) -> None:
        self.rig = rig
        self._browser = aiohttp.ClientSession()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["MailedLinks"]:
        wired, links = self.rig.wired, self.rig.notifier.links
        gateway = EngineGateway(wired.mailbox, lambda: "", lambda: False)
        pages = LinkPages(
            gateway, links.signer, links.sent_links, lambda _: False, wrong=WrongCodes()
        )
        app = web.Application()
        LinkHandler(pages, wired.clock).routes(app)
        async with serving(app) as port, self._browser:
            self.rig.base_url = f"http://127.0.0.1:{port}"
            yield self

    async def get(self, link: str) -> Heard:
        async with self._browser.get(link) as response:
            return Heard(response.status, await response.text(), dict(response.headers))

    async def post(self, link: str, **fields: str) -> Heard:
        async with self._browser.post(link, data=fields) as response:
            return Heard(response.status, await response.text(), dict(response.headers))


@pytest.mark.req("S3.54")
async def test_one_code_of_one_mail_approves_twenty_and_not_the_one_that_came_later(
    tmp_path: Path,
) -> None:
    with mail_server("none") as server:
        rig = NotifierRig(tmp_path, mail_table(server))
        async with MailedLinks(rig).listening() as links, rig.at_work():
            ids = [
                rig.wired.asks(f"p{n}", type="run_shell", text=f"kubectl drain node-{n:02}")
                for n in range(20)
            ]
            rig.wired.passes()
            await rig.wired.rest()
            later = rig.wired.asks("later", type="run_shell", text="kubectl drain node-20")
            forced = rig.wired.asks("forced", type="run_shell", text="kubectl drain n-1 --force")

            (mail,) = server.received
            (link,) = dict.fromkeys(re.findall(r"http://\S+/d/\S+", mail.text))
            (code,) = re.findall(r"Code: (\d+) ", mail.text)
            page = await links.get(link)
            wrong = await links.post(link, v="approve", n=page.nonce, c="0000000")
            done = await links.post(link, v="approve", n=page.nonce, c=code)
            again = await links.post(link, v="approve", n=page.nonce, c=code)

            rig.wired.passes(STORM_S)
            await rig.wired.rest()
            second = server.received[1]
            other = re.findall(r"http://\S+/d/\S+", second.text)
            reused = [
                await links.post(each, v="approve", n=(await links.get(each)).nonce, c=code)
                for each in other
            ]

    _assert_shows_all(mail)
    assert (page.status, wrong.status, done.status, again.status) == (200, 403, 200, 409)
    assert "Approved: 20 requests" in done.text
    answered = [e for e in rig.wired.queue.journal if isinstance(e, Answered)]
    assert [each.request_id for each in answered] == ids
    assert {(each.answer, each.assurance, each.via) for each in answered} == {
        ("approved", "code", "link:email")
    }
    assert all(rig.wired.queue.request(ref).state == "approved" for ref in ids)
    assert [rig.wired.queue.request(ref).state for ref in (later, forced)] == ["pending"] * 2
    assert reused


def _assert_shows_all(mail: Received) -> None:
    assert mail.text.count("  | kubectl drain [..]\n") == 1
    assert all(f"node-{n:02}" in mail.text for n in range(20))
    assert all(f"node-{n:02}" in mail.page for n in range(20))
    assert mail.text.count("\n") <= 80
