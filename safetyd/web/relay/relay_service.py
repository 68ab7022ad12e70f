"""Answers relays: renders the pages of links for them, and records answers by link.

A relay can do only what somebody with the link could do, and less: no pairing counts, and an
approval needs all digits of the code (`link_answers`).
"""

import logging
from collections.abc import Callable, Container
from functools import partial
from http import HTTPStatus
from typing import Final

import anyio.abc
import msgspec

from safetyd.agents.sender_accounts import OverLimit, Sender, SenderAccounts
from safetyd.bus.publisher import MAX_ANSWER_BYTES, Publisher
from safetyd.bus.question_limits import QuestionLimits, relay_sender
from safetyd.clock import uptime
from safetyd.web.forms import FormRefused, answer_form
from safetyd.web.link_pages import LinkPages, LinksUnavailable, UnknownLink
from safetyd.web.pages.page_frame import HEADERS
from safetyd.web.pages.result_pages import ResultPage, told_page
from safetyd.web.relay.relay_messages import (
    AnswerLink,
    DaemonHere,
    PingDaemon,
    RelayedPage,
    RelayRefusal,
    ToRelay,
    ViewLink,
    packed,
    read_from_relay,
)
from safetyd.web.throttle import Throttle

MAX_BYTES: Final = 16 * 1024  # of a message; forms have at most 4 KB
PAGE_S: Final = 0.002  # about as long as it takes to find and render a page
ROOM_BYTES: Final = 8 * 1024  # for the other fields of an answer

Send = Callable[[ToRelay], None]

log = logging.getLogger("safetyd.web")


class RelayService:
    """The subject of relays. Its last token is the relay's name.

    `relays` returns the relays with a key: on an external bus, a revoked key may still be accepted.
    `problem` returns why no answer can be recorded, or an empty string.
    """

    def __init__(  # noqa: PLR0913 - each is another part of the daemon
        self,
        publisher: Publisher,
        pages: LinkPages,
        limits: QuestionLimits,
        accounts: SenderAccounts,
        tasks: anyio.abc.TaskGroup,
        *,
        relays: Callable[[], Container[str]],
        problem: Callable[[], str],
        now: Callable[[], float] = uptime,
    ) -> None:
        self._publisher = publisher
        self._pages = pages
        self._limits = limits
        self._accounts = accounts
        self._tasks = tasks
        self._relays = relays
        self._problem = problem
        self._now = now
        self._throttles: dict[str, Throttle] = {}

    def link(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        """Answer a message of a relay, within its limits."""
        relay = subject[subject.rfind(b".") + 1 :].decode("ascii", "replace")
        send = partial(self._publisher.answer, reply)
        if relay not in self._relays():
            send(RelayRefusal(code="no_key"))
            return
        wait = self._wait_s(relay_sender(relay), len(payload))
        if wait:
            if relay_sender(relay) not in self._limits.flood_gate.shut:
                send(RelayRefusal(code="too_often", wait_s=wait))
            return
        self._answer(relay, payload, send)

    def _wait_s(self, sender: str, size: int) -> float:
        """Count a message. Return 0.0, or the seconds until it would be admitted."""
        try:
            self._accounts.turn(Sender(sender))
        except OverLimit as exc:
            self._limits.flood_gate.turned_away(sender, size)
            return exc.wait_s
        return self._limits.admit(sender, size)

    def _answer(self, relay: str, payload: bytes, send: Send) -> None:
        try:
            message = read_from_relay(payload[: MAX_BYTES + 1])  # a longer one does not parse
        except (msgspec.DecodeError, UnicodeDecodeError):
            send(RelayRefusal(code="malformed"))
            return
        if isinstance(message, PingDaemon):
            send(DaemonHere(problem=self._problem()))
            return
        self._limits.begin(relay_sender(relay))
        self._limits.charge(relay_sender(relay), PAGE_S)
        self._tasks.start_soon(self._find, relay, message, send)

    async def _find(self, relay: str, message: ViewLink | AnswerLink, send: Send) -> None:
        try:
            found = await self._found(relay, message)
        except Exception:
            log.exception("a page for relay %s failed", relay)
            found = RelayRefusal(code="internal")
        self._limits.end(relay_sender(relay))
        send(found)

    async def _found(self, relay: str, message: ViewLink | AnswerLink) -> ToRelay:
        throttle = self._throttles.setdefault(relay, Throttle(self._now))
        token_id = self._pages.signer.check(message.token)
        if token_id is None:
            return _unknown(throttle)
        wait = throttle.look(token_id)
        if isinstance(message, AnswerLink):
            wait = wait or throttle.answer(token_id)
        if wait:
            return RelayRefusal(code="too_often", wait_s=wait)
        try:
            return _relayed(await self._page(relay, token_id, message))
        except UnknownLink:
            return _unknown(throttle)
        except LinksUnavailable as exc:
            return RelayRefusal(code="unavailable", under_way=exc.under_way)
        except FormRefused as exc:
            return _relayed(exc.told)

    async def _page(
        self, relay: str, token_id: bytes, message: ViewLink | AnswerLink
    ) -> ResultPage:
        if isinstance(message, ViewLink):
            return await self._pages.look(token_id, focus=message.focus, relayed=True)
        form = answer_form(message.fields, peer=message.peer, relay=relay)
        return await self._pages.settle(token_id, form)


def _unknown(throttle: Throttle) -> RelayRefusal:
    wait = throttle.stranger()
    return RelayRefusal(code="too_often" if wait else "unknown", wait_s=wait)


def _relayed(page: ResultPage) -> RelayedPage:
    html = packed(page.html)
    if len(html) * 4 // 3 > MAX_ANSWER_BYTES - ROOM_BYTES:
        why = "It is too long to be shown here. To list and show requests:"
        told = told_page("This page is too long", why, tone="warn", command="safetyd list")
        return _relayed(ResultPage(HTTPStatus.INSUFFICIENT_STORAGE, told))
    return RelayedPage(status=page.status, html=html, headers=HEADERS)
