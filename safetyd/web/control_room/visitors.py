"""Visitors of the control room: session cookie, form checks, signing in and out."""

import hashlib
import hmac
import logging
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final, NamedTuple

from aiohttp import web

from safetyd.clock import Clock, uptime
from safetyd.core.text.visible_text import marked
from safetyd.operators.contract.question import Role
from safetyd.operators.replies import CommandRefused
from safetyd.web.control_room.room_assets import RoomAssets
from safetyd.web.control_room.room_rendering import HEADERS, RoomRendering
from safetyd.web.control_room.sign_in_links import SignInLinks
from safetyd.web.control_room.web_sessions import LONGEST, Note, Session, WebSessions, proves
from safetyd.web.forms import FormRefused, read_form
from safetyd.web.http_server import FrontPage, name_of, of_another_page
from safetyd.web.pages.front_page import front_page, front_text
from safetyd.web.throttle import Throttle

COOKIE: Final = "safetyd-session"
PROOF: Final = "X-Safetyd-Proof"
FIELD: Final = "token"
UNDONE: Final = "Not done: {}."
NOT_STOPPED: Final = "NOT STOPPED: {}. Run `safetyd stop` in a terminal."

log = logging.getLogger("safetyd.web")


class Visitor(NamedTuple):
    """A signed-in operator. `token` is in the forms of their pages."""

    session: Session
    role: Role
    token: str
    take_note: Callable[[], Note]

    @property
    def name(self) -> str:
        return self.session.operator

    @property
    def may_act(self) -> bool:
        return self.role == "operator"


class Visitors:
    """`role_of` returns an operator's current role, or None without a valid key."""

    def __init__(
        self,
        sessions: WebSessions,
        links: SignInLinks,
        role_of: Callable[[str], Role | None],
        assets: RoomAssets,
        clock: Clock,
    ) -> None:
        self.sessions = sessions
        self._links = links
        self._role_of = role_of
        self._clock = clock
        self._assets = assets
        self._rendering = RoomRendering(assets, ())
        self._throttle = Throttle(uptime)
        self._front = FrontPage(front_page(), front_text())

    def routes(self, app: web.Application) -> None:
        app.router.add_get("/signin/{link}", self._get_sign_in)
        app.router.add_post("/signin/{link}", self._post_sign_in)
        app.router.add_post("/signout", self._post_sign_out)

    def find(self, request: web.Request) -> Visitor | None:
        session = self.sessions.find(request.cookies.get(COOKIE, ""), self._clock.now().at)
        if session is None or session.name != name_of(request):
            return None
        role = self._role_of(session.operator)
        if role is None:
            return None
        token = _form_token(request.cookies[COOKIE])
        return Visitor(session, role, token, lambda: self.sessions.take_note(session))

    def guest(self, request: web.Request) -> str:
        """Return the session of a request or its valid sign-in link, else an empty string."""
        if (visitor := self.find(request)) is not None:
            return visitor.session.id
        kind, _, link = request.path.lstrip("/").partition("/")
        known = kind == "signin" and self._links.find(link, name_of(request)) is not None
        return link if known else ""

    def check(self, request: web.Request, visitor: Visitor, given: str, *, proof: bool) -> None:
        """Refuse forms from other pages and, with `proof`, forms that only have the cookie."""
        if not _is_ours(request, visitor, given):
            raise CommandRefused("foreign", "the form did not come from the control room")
        if not visitor.may_act:
            raise CommandRefused("observer", "observers cannot act")
        if proof and not proves(visitor.session, request.headers.get(PROOF, "")):
            raise CommandRefused("unproven", "sign in again: run `safetyd open`")

    async def signed_out(self, request: web.Request, undone: str = "") -> web.Response:
        """Return the page that explains how to sign in and, for a form, that nothing was done."""
        if request.path == "/":
            return await self._front.get(request)
        failure = undone.format("you are signed out")
        html = self._rendering.plain("Sign in", "signed_out.html", failure=failure)
        return self._page(html, HTTPStatus.UNAUTHORIZED)

    async def _get_sign_in(self, request: web.Request) -> web.Response:
        operator = self._links.find(request.match_info["link"], name_of(request))
        if operator is None:
            return self._stale()
        script = self._assets.sign_in_script
        html = self._rendering.plain("Sign in", "sign_in.html", operator=operator, script=script)
        return self._page(html, HTTPStatus.OK)

    async def _post_sign_in(self, request: web.Request) -> web.Response:
        if of_another_page(request):
            return self._stale()
        name = name_of(request)
        operator = self._links.use(request.match_info["link"], name)
        if operator is None or self._role_of(operator) is None:
            return self._stale()
        if (before := self.find(request)) is not None:
            # The new session's cookie replaces the old one. Other tabs get the new form token over
            # their WebSockets.
            self._end(before.session)
        browser = marked(request.headers.get("User-Agent", ""), "?")
        opened = self.sessions.open(operator, browser, self._clock.now().at, name)
        log.info("%s signed in to the control room (session %s)", operator, opened.session.id)
        script = self._assets.sign_in_script
        html = self._rendering.plain(
            "Signed in", "signed_in.html", operator=operator, proof=opened.proof, script=script
        )
        response = self._page(html, HTTPStatus.OK)
        response.set_cookie(
            COOKIE,
            opened.token,
            max_age=int(LONGEST.total_seconds()),
            httponly=True,
            samesite="Strict",
            secure=request.secure,
        )
        return response

    async def _post_sign_out(self, request: web.Request) -> web.Response:
        visitor = self.find(request)
        response = web.Response(status=HTTPStatus.SEE_OTHER, headers={**HEADERS, "Location": "/"})
        with suppress(FormRefused):
            given = (await read_form(request)).get(FIELD, ("",))[0]
            if visitor is not None and _is_ours(request, visitor, given):
                self._end(visitor.session)
                response.del_cookie(COOKIE)
        return response

    def _end(self, own: Session) -> None:
        self.sessions.end(lambda session: session.id == own.id, self._clock.now().at)

    def _stale(self) -> web.Response:
        wait_s = self._throttle.stranger()
        status = HTTPStatus.TOO_MANY_REQUESTS if wait_s else HTTPStatus.NOT_FOUND
        return self._page(self._rendering.plain("Sign in", "stale_link.html"), status)

    def _page(self, html: str, status: HTTPStatus) -> web.Response:
        return web.Response(status=status, text=html, content_type="text/html", headers=HEADERS)


def _is_ours(request: web.Request, visitor: Visitor, given: str) -> bool:
    """Return True if a form was sent by a page shown to this visitor."""
    same = hmac.compare_digest(visitor.token.encode(), given.encode())
    return same and not of_another_page(request)


def _form_token(cookie: str) -> str:
    """Return the form token of a session; it does not reveal the cookie."""
    return hashlib.sha256(f"form {cookie}".encode()).hexdigest()[:32]
