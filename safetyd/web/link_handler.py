"""The pages of decision links: `/d/TOKEN`.

GET and HEAD change nothing. Only a POST from our own page answers. Tokens are never logged or
repeated.
"""

import hashlib
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Final, NoReturn
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from safetyd.clock import Clock, uptime
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.journal.mailbox import Carried, Unanswered
from safetyd.notify.links.sent_links import SentLinks
from safetyd.notify.links.tokens import DEVICE_TIME, Signer
from safetyd.operators.contract.history_contract import CommitAnswer, CommitQuestion
from safetyd.operators.replies import CommandRefused
from safetyd.web.engine_gateway import Answer, EngineGateway
from safetyd.web.forms import COOKIE, FormRefused, answer_form, caller, is_foreign, read_fields
from safetyd.web.link_answers import Form, LinkAnswers, paired
from safetyd.web.link_view import LinkView
from safetyd.web.pages import result_pages
from safetyd.web.pages.change_view import change_view
from safetyd.web.pages.page_frame import HEADERS
from safetyd.web.pages.result_pages import ResultPage, pairing_page, told_page
from safetyd.web.throttle import Throttle

PATH: Final = "/d/{token}"
MAX_PAIRED: Final = 1000  # used pairing links to remember; a link expires after ten minutes

log = logging.getLogger("safetyd.web")


def _nobody_asks(_delivery: str, _at: datetime) -> None:
    """Do nothing when a test link is used."""


async def no_history(_by: str, _question: CommitQuestion) -> NoReturn:
    """Refuse queries for commits."""
    raise CommandRefused("not_found", "no project has a file history")


class LinkHandler:
    """`public_url` is the base URL of links, or empty if they lead to the listener itself.

    `used` is called with the delivery and the time when a test link is used. `ask` returns a
    commit. It takes the name of a rate limit.
    """

    def __init__(  # noqa: PLR0913 - each is another part of the daemon
        self,
        gateway: EngineGateway,
        signer: Signer,
        sent_links: SentLinks,
        waits: Callable[[Request], bool],
        clock: Clock,
        *,
        public_url: str = "",
        used: Callable[[str, datetime], None] = _nobody_asks,
        ask: Callable[[str, CommitQuestion], Awaitable[CommitAnswer]] = no_history,
        now: Callable[[], float] = uptime,
    ) -> None:
        self._gateway = gateway
        self._signer = signer
        self._links = LinkAnswers(signer, sent_links, waits, used)
        self._clock = clock
        self._ask = ask
        self._throttle = Throttle(now)
        public = urlsplit(public_url)
        self._proxied = bool(public_url)
        self._origin = f"{public.scheme}://{public.netloc}".lower()
        self._headers = dict(HEADERS)
        if public.scheme == "https":
            self._headers["Strict-Transport-Security"] = "max-age=31536000"
        self._paired: dict[str, None] = {}  # used pairing links
        self.counts: Counter[str] = Counter()  # responses, by method and status

    def routes(self, app: web.Application) -> None:
        app.router.add_get(PATH, self._get)
        app.router.add_post(PATH, self._post)

    async def _get(self, request: web.Request) -> web.Response:
        return await self._answered(request, self._look)

    async def _post(self, request: web.Request) -> web.Response:
        return await self._answered(request, self._decide)

    async def _answered(
        self, request: web.Request, act: Callable[[web.Request], Awaitable[web.Response]]
    ) -> web.Response:
        try:
            _allowed(self._wait_s(request))
            response = await act(request)
        except FormRefused as stop:
            response = self._page(stop.told)
        self.counts[f"{request.method} {response.status}"] += 1
        return response

    def _wait_s(self, request: web.Request) -> float:
        """Count a request by its token or, if that is invalid, by the client's address."""
        token = request.match_info["token"]
        token_id = self._signer.check(token)
        if token_id is None and self._recipient_of(token) is None:
            return self._throttle.request(self._caller(request))
        return self._throttle.look(token_id or token.encode())

    async def _look(self, request: web.Request) -> web.Response:
        token = request.match_info["token"]
        token_id = self._signer.check(token)
        if token_id is None:
            return self._look_at_pairing(token)
        try:
            cookie = request.cookies.get(COOKIE, "")
            view = await self._gateway.ask(self._links.look(token_id, cookie))
        except Unanswered:
            raise FormRefused(result_pages.unavailable(under_way=False)) from None
        if not isinstance(view, LinkView):
            raise self._stranger()
        nonce = self._signer.nonce(token_id, view.at)
        view = await self._with_change(view)
        return self._page(result_pages.looked(view, nonce, request.query.get("i", "")))

    async def _with_change(self, view: LinkView) -> LinkView:
        """Return a view with the changes that the action made, unless the link has expired."""
        kept = view.known.change if view.known else None
        if not kept or view.at >= view.link.expires:
            return view
        ask = partial(self._ask, f"{view.link.recipient} by link")
        change = await change_view(ask, kept.project, kept.commit, linked=False)
        return msgspec.structs.replace(view, change=change)

    async def _decide(self, request: web.Request) -> web.Response:
        token = request.match_info["token"]
        token_id = self._signer.check(token)
        if token_id is None and self._recipient_of(token) is None:
            raise self._stranger()
        _allowed(self._throttle.answer(token_id or token.encode()))
        if is_foreign(request, self._origin):
            raise FormRefused(result_pages.foreign())
        fields = await read_fields(request)
        if token_id is None:
            return await self._pair(token, fields, self._caller(request))
        form = answer_form(request, fields, self._caller(request))
        return self._page(await self._settle(token_id, form))

    def _caller(self, request: web.Request) -> str:
        return caller(request, proxied=self._proxied)

    async def _settle(self, token_id: bytes, form: Form) -> ResultPage:
        plan, begun = self._links.answer(token_id, form), list[Moment]()

        def noted(engine: EngineState, moment: Moment) -> Carried[Answer]:
            begun.append(moment)
            return plan(engine, moment)

        try:
            seen = self._links.look(token_id, form.cookie)
            answer, view = await self._gateway.carry_out(noted, seen)
        except Unanswered:
            raise FormRefused(result_pages.unavailable(under_way=bool(begun))) from None
        if answer["outcome"] == "recorded" and isinstance(view, LinkView):
            return result_pages.recorded(view)
        if answer["outcome"] == "tested":
            return result_pages.tested()
        log.info("refused an answer by link %s: %s", _short(token_id), answer["outcome"])
        if answer["outcome"] == "unknown" or not isinstance(view, LinkView):
            raise self._stranger()
        return self._refused(answer, await self._with_change(view), form, token_id)

    def _refused(self, answer: Answer, view: LinkView, form: Form, token_id: bytes) -> ResultPage:
        nonce = self._signer.nonce(token_id, view.at)
        if answer["outcome"] == "unfit":
            return result_pages.malformed(HTTPStatus.BAD_REQUEST)
        if view.link.test or not view.link.request_id:
            return result_pages.looked(view, nonce)
        if view.standing != "pending":
            return result_pages.over(view, form.said)
        match answer["outcome"]:
            case "stale":
                why = "This page was open for too long. Check the request and answer again."
            case "wrong_code":
                why = f"Wrong code. After {answer['left']} more wrong codes the link stops working."
            case "no_code":
                why = "To approve, enter the code from the notification."
            case _:
                why = "This request cannot be approved here."
        return result_pages.again(view, nonce, why, form.words)

    def _look_at_pairing(self, token: str) -> web.Response:
        recipient = self._recipient_of(token)
        if recipient is None:
            raise self._stranger()
        nonce = self._signer.nonce(token.encode(), self._clock.now().at)
        return self._page(ResultPage(HTTPStatus.OK, pairing_page(recipient, nonce)))

    async def _pair(self, token: str, fields: dict[str, str], address: str) -> web.Response:
        """Pair a browser with a recipient and notify them. A link pairs only one browser."""
        now, recipient = self._clock.now().at, self._recipient_of(token)
        if recipient is None:
            raise self._stranger()
        if not self._signer.nonce_ok(token.encode(), fields.get("n", ""), now):
            raise FormRefused(result_pages.foreign())
        self._use_up(token)
        try:
            await self._gateway.carry_out(paired(recipient, address), lambda _engine, _moment: None)
        except Unanswered:
            self._paired.pop(token, None)
            raise FormRefused(result_pages.unavailable(under_way=False)) from None
        page = told_page("Paired", f"This browser can now answer for {recipient}.", tone="good")
        response = self._page(ResultPage(HTTPStatus.OK, page))
        response.set_cookie(
            COOKIE,
            self._signer.device(recipient, now),
            max_age=int(DEVICE_TIME.total_seconds()),
            secure=True,
            httponly=True,
            samesite="Strict",
        )
        log.info("a browser was paired for %s", recipient)
        return response

    def _use_up(self, token: str) -> None:
        """Mark a pairing link as used, before the journal is written."""
        self._paired[token] = None
        if len(self._paired) > MAX_PAIRED:
            del self._paired[next(iter(self._paired))]

    def _recipient_of(self, token: str) -> str | None:
        """Return the recipient of a pairing link, or None if it is invalid, expired or used."""
        if token in self._paired:
            return None
        return self._signer.pairing_of(token, self._clock.now().at)

    def _stranger(self) -> FormRefused:
        _allowed(self._throttle.stranger())
        return FormRefused(result_pages.nobody())

    def _page(self, told: ResultPage) -> web.Response:
        wait = {"Retry-After": str(math.ceil(told.retry_s))} if told.retry_s else {}
        return web.Response(
            status=told.status,
            text=told.html,
            content_type="text/html",
            headers={**self._headers, **wait},
        )


def _allowed(wait_s: float) -> None:
    if wait_s:
        raise FormRefused(result_pages.too_often(wait_s))


def _short(token_id: bytes) -> str:
    """Return a name for a token that does not reveal it."""
    return hashlib.sha256(token_id).hexdigest()[:8]
