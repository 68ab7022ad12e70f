"""Finds the page of a decision link, and answers through it, for browsers and for relays."""

import hashlib
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Final, NoReturn

import msgspec

from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.notification_events import LinkOpened
from safetyd.journal.mailbox import Carried, Unanswered
from safetyd.notify.links.sent_links import SentLinks
from safetyd.notify.links.tokens import Signer
from safetyd.notify.links.wrong_codes import WrongCodes
from safetyd.operators.contract.history_contract import CommitAnswer, CommitQuestion
from safetyd.operators.replies import CommandRefused
from safetyd.web.engine_gateway import Answer, EngineGateway
from safetyd.web.link_answers import Form, LinkAnswers
from safetyd.web.link_view import LinkView, nonce_name
from safetyd.web.pages import result_pages
from safetyd.web.pages.change_view import change_view
from safetyd.web.pages.result_pages import ResultPage

SCANNED: Final = timedelta(minutes=1)  # after a message, programs open its links
MAX_OPENED: Final = 10_000

log = logging.getLogger("safetyd.web")


class UnknownLink(Exception):
    """A token opens nothing."""


class LinksUnavailable(Exception):
    """The engine does not answer. If `under_way`, an answer may still be recorded."""

    def __init__(self, *, under_way: bool) -> None:
        super().__init__(under_way)
        self.under_way = under_way


def _nobody_asks(_delivery: str, _at: datetime) -> None:
    """Do nothing when a test link is used."""


async def no_history(_by: str, _question: CommitQuestion) -> NoReturn:
    """Refuse queries for commits."""
    raise CommandRefused("not_found", "no project has a file history")


class LinkPages:
    """`used` is called with the delivery and the time when a test link is used.

    `ask` returns a commit. It takes the name of a rate limit.
    """

    def __init__(  # noqa: PLR0913 - parts of the daemon
        self,
        gateway: EngineGateway,
        signer: Signer,
        sent_links: SentLinks,
        waits: Callable[[Request], bool],
        *,
        wrong: WrongCodes,
        used: Callable[[str, datetime], None] = _nobody_asks,
        ask: Callable[[str, CommitQuestion], Awaitable[CommitAnswer]] = no_history,
    ) -> None:
        self.gateway = gateway
        self.signer = signer
        self._links = LinkAnswers(signer, sent_links, waits, used, wrong)
        self._ask = ask
        self._opened: dict[str, None] = {}  # messages whose links were opened

    async def look(
        self, token_id: bytes, *, focus: str = "", cookie: str = "", relayed: bool = False
    ) -> ResultPage:
        """Return the page of a link. `focus` selects a button; `cookie` is of a paired browser."""
        try:
            view = await self.gateway.ask(self._links.look(token_id, cookie, relayed=relayed))
        except Unanswered:
            raise LinksUnavailable(under_way=False) from None
        if not isinstance(view, LinkView):
            raise UnknownLink
        self._note_opened(view)
        nonce = self._nonce(token_id, view)
        return result_pages.looked(await self._with_change(view), nonce, focus)

    def _note_opened(self, view: LinkView) -> None:
        """Record that a link in a message was opened for the first time.

        Programs that check mails open links as soon as they arrive; that does not count.
        """
        link = view.link
        refs = link.members or ((link.request_id,) if link.request_id else link.listed)
        new = link.delivery not in self._opened and not link.test
        if not new or link.told is None or view.at < link.told + SCANNED:
            return
        self._opened[link.delivery] = None
        while len(self._opened) > MAX_OPENED:
            del self._opened[next(iter(self._opened))]
        self.gateway.record(
            lambda moment: LinkOpened(
                at=moment.at,
                t=moment.t,
                delivery=link.delivery,
                recipient=link.recipient,
                request_ids=refs,
            )
        )

    async def settle(self, token_id: bytes, form: Form) -> ResultPage:
        """Record an answer, or refuse it. Return the page that says which."""
        plan, begun = self._links.answer(token_id, form), list[Moment]()

        def noted(engine: EngineState, moment: Moment) -> Carried[Answer]:
            begun.append(moment)
            return plan(engine, moment)

        try:
            seen = self._links.look(token_id, form.cookie, relayed=bool(form.relay))
            answer, view = await self.gateway.carry_out(noted, seen)
        except Unanswered:
            raise LinksUnavailable(under_way=bool(begun)) from None
        if answer["outcome"] == "recorded" and isinstance(view, LinkView):
            if view.link.members:
                count = int(str(answer["count"]))
                return result_pages.set_recorded(view, form.said, count, self._token(view))
            return result_pages.recorded(view)
        if answer["outcome"] == "tested":
            return result_pages.tested()
        log.info("refused an answer by link %s: %s", _short(token_id), answer["outcome"])
        if answer["outcome"] == "unknown" or not isinstance(view, LinkView):
            raise UnknownLink
        return self._refused(answer, await self._with_change(view), form, token_id)

    async def _with_change(self, view: LinkView) -> LinkView:
        """Return a view with the changes that the action made, unless the link has expired."""
        kept = view.known.change if view.known else None
        if not kept or view.at >= view.link.expires:
            return view
        ask = partial(self._ask, f"{view.link.recipient} by link")
        change = await change_view(ask, kept.project, kept.commit, linked=False)
        return msgspec.structs.replace(view, change=change)

    def _token(self, view: LinkView) -> str:
        link = view.link
        return self.signer.token(link.delivery, link.request_id, link.recipient)

    def _nonce(self, token_id: bytes, view: LinkView) -> str:
        return self.signer.nonce(nonce_name(token_id, view.link, view.shown), view.at)

    def _refused(self, answer: Answer, view: LinkView, form: Form, token_id: bytes) -> ResultPage:
        nonce = self._nonce(token_id, view)
        if answer["outcome"] == "unfit":
            return result_pages.malformed(HTTPStatus.BAD_REQUEST)
        if view.link.test or not view.link.request_id:
            return result_pages.looked(view, nonce)
        if view.standing != "pending":
            return result_pages.over(view, form.said)
        return result_pages.again(view, nonce, _why(answer), form.words)


_WHY: Final = {
    "stale": "This page was open for too long. Check the request and answer again.",
    "changed": "Some of these requests have ended. Check the others and answer again.",
    "short_code": "The code has six digits. If the notification shows fewer, use a terminal.",
    "relay_closed": "Too many wrong codes came from this server. To approve, use a terminal.",
    "no_code": "To approve, enter the code from the notification.",
}


def _why(answer: Answer) -> str:
    """Return why an answer was not recorded."""
    if answer["outcome"] == "wrong_code":
        return f"Wrong code. After {answer['left']} more wrong codes the link stops working."
    return _WHY.get(str(answer["outcome"]), "This request cannot be approved here.")


def _short(token_id: bytes) -> str:
    """Return a name for a token that does not reveal it."""
    return hashlib.sha256(token_id).hexdigest()[:8]
