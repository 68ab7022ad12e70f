"""A person answers with the buttons of an ntfy message, which then says what was recorded."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from safetyd.core.events.request_events import Answered
from safetyd.web.engine_gateway import EngineGateway
from safetyd.web.link_handler import LinkHandler
from safetyd.web.link_pages import LinkPages
from tests.notify.http_receivers import Reaction, Reacts, Receiver, ntfy, receiving
from tests.notify.notifier_rig import NotifierRig
from tests.servers import until
from tests.web.link_site import serving

URL = "https://safety.example.com"


class Phone:
    """A phone that is subscribed to the topic, and the daemon that it answers."""

    def __init__(self, rig: NotifierRig, server: Receiver, address: str) -> None:
        self.rig = rig
        self._server = server
        self._address = address

    @property
    def shown(self) -> list[dict[str, Any]]:
        return [post.document for post in self._server.posts]

    async def asked(self, id_: str = "p1", **fields: object) -> dict[str, Any]:
        """Let an agent ask, and return the message about it."""
        before = len(self.shown)
        self.rig.wired.asks(id_, **fields)
        self.rig.wired.passes()
        await until(lambda: len(self.shown) > before)
        await self.rig.wired.rest()
        return self.shown[-1]

    async def press(self, message: dict[str, Any], label: str) -> int:
        """Press a button as the app does, and return the status of the response."""
        (button,) = (each for each in message["actions"] if each["label"] == label)
        url = button["url"].replace(URL, self._address)
        sent = aiohttp.request(button["method"], url, data=button["body"].encode())
        async with sent as response:
            return response.status

    def answer_elsewhere(self) -> None:
        """Deny the first pending request at a terminal."""
        wired = self.rig.wired
        before, request = len(wired.queue.journal), next(iter(wired.engine.approvals.pending()))
        wired.answers(request.id)
        self.rig.notifier.observe(wired.queue.journal[before:])

    def answers(self) -> list[Answered]:
        events = self.rig.wired.journalled(Answered)
        return [event for event in events if isinstance(event, Answered)]

    async def updated(self, count: int) -> dict[str, Any]:
        await until(lambda: len(self.shown) >= count)
        return self.shown[count - 1]


@asynccontextmanager
async def phone(
    folder: Path, *lines: str, react: Reacts | Reaction | None = None
) -> AsyncIterator[Phone]:
    async with receiving(react or ntfy(updates=True)) as server:
        table = ["[notifications.ntfy]", "enabled = true", f'url = "{server.url}/topic"', *lines]
        public = f'[web]\npublic_url = "{URL}"\n'
        rig = NotifierRig(folder, public, "\n".join(table))
        links, wired = rig.notifier.links, rig.wired
        gateway = EngineGateway(wired.mailbox, lambda: "", lambda: False)
        pages = LinkPages(
            gateway,
            links.signer,
            links.sent_links,
            lambda _: False,
            wrong=links.wrong_codes,
            used=rig.notifier.link_used,
        )
        app = web.Application()
        LinkHandler(pages, wired.clock, public_url=URL).routes(app)
        async with serving(app) as port, rig.at_work():
            yield Phone(rig, server, f"http://127.0.0.1:{port}")


@pytest.mark.parametrize(("label", "answer"), [("Approve", "approved"), ("Deny", "denied")])
async def test_a_button_answers_and_the_message_says_so(
    tmp_path: Path, label: str, answer: str
) -> None:
    async with phone(tmp_path, "include_code = true") as alice:
        message = await alice.asked()
        pressed = [await alice.press(message, label) for _ in range(2)]
        update = await alice.updated(2)

    assert pressed == [200, 200]
    (recorded,) = alice.answers()
    assert (recorded.answer, recorded.via) == (answer, "link:ntfy")
    assert update["sequence_id"] == message["sequence_id"] == recorded.delivery
    assert update["title"].startswith(f"{answer.capitalize()} by operator via link:ntfy, ")
    assert (update["priority"], update.get("actions")) == (1, None)
    assert "git push origin main" in update["message"]


async def test_who_only_reads_the_topic_cannot_approve(tmp_path: Path) -> None:
    async with phone(tmp_path) as reader:
        message = await reader.asked()
        labels = [button["label"] for button in message["actions"]]
        forged = {**message["actions"][0], "label": "Forged"}
        forged["body"] = forged["body"].replace("v=deny", "v=approve")
        refused = await reader.press({"actions": [forged]}, "Forged")

        assert labels == ["Deny", "Review"]
        assert (refused, reader.answers()) == (403, [])
        assert await reader.press(message, "Deny") == 200


async def test_a_server_that_updates_messages_shows_answers_from_elsewhere(tmp_path: Path) -> None:
    async with phone(tmp_path, 'privacy = "minimal"') as alice:
        message = await alice.asked()
        alice.answer_elsewhere()
        update = await alice.updated(2)

    assert update["sequence_id"] == message["sequence_id"]
    assert update["title"].startswith("Denied by ")
    assert "push" not in update["title"]  # no details with minimal privacy


async def test_a_server_that_cannot_update_gets_one_more_message_about_a_pressed_button(
    tmp_path: Path,
) -> None:
    async with phone(tmp_path, react=ntfy()) as alice:
        elsewhere, pressed = await alice.asked(), await alice.asked("p2", text="git push -f")
        alice.answer_elsewhere()
        await alice.press(pressed, "Deny")
        after = await alice.updated(3)
        await alice.rig.wired.rest()

    assert elsewhere["sequence_id"] != after["sequence_id"] == pressed["sequence_id"]
    assert after["title"].startswith("Denied by operator via link:ntfy")
    assert len(alice.shown) == 3


async def test_a_message_about_several_requests_is_updated_after_the_last(tmp_path: Path) -> None:
    async with phone(tmp_path) as alice:
        alice.rig.wired.asks("p1")
        message = await alice.asked("p2", text="git push -f")
        assert [button["label"] for button in message["actions"]] == ["Review"]
        for _ in range(2):
            alice.answer_elsewhere()
            await alice.rig.wired.rest()
        update = await alice.updated(2)
        await alice.rig.wired.rest()

    assert update["title"].startswith("Denied by ")
    assert update["message"].startswith("Denied by ")
    assert len(alice.shown) == 2


async def test_the_button_of_a_test_message_proves_the_way_back(tmp_path: Path) -> None:
    async with phone(tmp_path) as alice:
        alice.rig.does("notify_test", channels=("ntfy",))
        await until(lambda: alice.shown)
        await alice.rig.wired.rest()
        pressed = await alice.press(alice.shown[0], "It works")
        (row,) = alice.rig.asks("outbox")["deliveries"]

    assert pressed == 200
    assert row["opened_at"] is not None
