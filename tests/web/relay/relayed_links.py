"""The daemon's side of a relay over a real engine; the test speaks as the relay."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import msgspec

from safetyd.agents.sender_accounts import SenderAccounts
from safetyd.bus.question_limits import QuestionLimits
from safetyd.web.relay.relay_messages import RelayedPage, RelayRefusal, read_to_relay, unpacked
from safetyd.web.relay.relay_service import RelayService
from tests.captured_connection import REPLY, CapturedPublisher
from tests.servers import until
from tests.web.link_site import LinkSite


class Relayed(NamedTuple):
    """The answer to a relay: a page, or the code of a refusal."""

    status: int
    text: str
    code: str = ""


class RelayedLinks:
    def __init__(self, site: LinkSite, service: RelayService, wire: CapturedPublisher) -> None:
        self.site = site
        self._service = service
        self._wire = wire

    def send(self, payload: bytes, relay: str = "edge") -> None:
        self._service.link(f"safety.v1.link.{relay}".encode(), REPLY, payload)

    def answers(self) -> list[dict[str, Any]]:
        """Return the answers since the last call."""
        return self._wire.answers()

    async def heard(self) -> Relayed:
        """Return the next answer."""
        answers = list[dict[str, Any]]()

        def came() -> bool:
            answers.extend(self.answers())
            return bool(answers)

        await until(came)
        (answer,) = answers
        found = read_to_relay(msgspec.json.encode(answer))
        if isinstance(found, RelayedPage):
            return Relayed(found.status, unpacked(found.html))
        return Relayed(0, "", found.code if isinstance(found, RelayRefusal) else found.problem)

    async def asks(self, relay: str = "edge", **message: object) -> Relayed:
        self.send(msgspec.json.encode(message), relay)
        return await self.heard()

    async def view(self, token: str, relay: str = "edge") -> Relayed:
        return await self.asks(relay, do="view", token=token)

    async def answer(
        self, token: str, answer: str, code: str = "", relay: str = "edge", **fields: str
    ) -> Relayed:
        form = {"v": answer, "n": self.site.nonce(token), "c": code, **fields}
        return await self.asks(relay, do="answer", token=token, fields=form, peer="192.0.2.7 x")

    def code(self, request_id: str, recipient: str = "alice") -> str:
        return self.site.signer.code(request_id, recipient, 6)


@asynccontextmanager
async def relayed_links() -> AsyncIterator[RelayedLinks]:
    wire, relays = CapturedPublisher(), {"edge", "other"}
    async with LinkSite().at_work() as site, anyio.create_task_group() as tasks:
        service = RelayService(
            wire.publisher,
            site.link_pages,
            QuestionLimits(lambda: site.steady, heard=lambda: 0),
            SenderAccounts(now=lambda: site.steady),
            tasks,
            relays=lambda: relays,
            problem=lambda: site.problem,
            now=lambda: site.steady,
        )
        yield RelayedLinks(site, service, wire)
        tasks.cancel_scope.cancel()
