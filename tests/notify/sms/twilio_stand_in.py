"""Twilio as far as a sender sees it: an HTTP server that answers as scripted, and what it posts."""

import base64
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Literal, NamedTuple

import aiohttp
import anyio
from aiohttp import web
from twilio.request_validator import RequestValidator  # type: ignore[import-untyped]

ACCOUNT: Final = "AC" + "0" * 32
AUTH_TOKEN: Final = "stand-in-token"
API: Final = "/2010-04-01/Accounts/{account}/Messages"
DRIP_S: Final = 0.02

Script = Literal[
    "taken", "busy", "opted out", "no login", "html", "not json", "hang", "drip", "cut"
]


class Got(NamedTuple):
    """A message that was posted, whatever it was answered with."""

    account: str
    form: dict[str, str]
    headers: Mapping[str, str]


class Twilio:
    """Keeps what it got. `then` says how the next ones are answered; the rest are taken."""

    def __init__(self) -> None:
        self.url = ""
        self.got: list[Got] = []
        self.statuses: dict[str, str] = {}  # of messages that were taken, by sid
        self.then: deque[Script] = deque()
        self.retry_after = ""
        self._closing = anyio.Event()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post(API + ".json", self._post)
        app.router.add_get(API + "/{sid}.json", self._get)
        return app

    def close(self) -> None:
        """Let go of those that hang."""
        self._closing.set()

    async def _post(self, request: web.Request) -> web.StreamResponse:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.got.append(Got(request.match_info["account"], form, request.headers))
        script = self.then.popleft() if self.then else "taken"
        if script == "no login" or not _authorised(request):
            return _problem(401, 20003, "Authenticate")
        if script == "taken":
            return self._taken(form)
        if script in {"hang", "drip", "cut"}:
            return await self._slow(script, request)
        return self._not_taken(script, form["To"])

    def _not_taken(self, script: Script, to: str) -> web.Response:
        if script == "busy":
            answer = _problem(429, 20429, "Too many requests")
            answer.headers["Retry-After"] = self.retry_after
            return answer
        if script == "opted out":
            return _problem(400, 21610, f"{to} is not to be messaged")
        if script == "html":
            return _page(502, "<html><h1>502 Bad Gateway</h1></html>")
        return _page(200, "<html>Welcome to this hotel</html>")

    def _taken(self, form: dict[str, str]) -> web.Response:
        sid = f"SM{len(self.got):032}"
        self.statuses[sid] = "queued"
        return web.json_response(_message(sid, "queued", form["To"]), status=201)

    async def _slow(self, script: Script, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=201)
        if script == "cut":
            assert request.transport is not None
            request.transport.abort()
        elif script == "hang":
            await self._closing.wait()
        else:
            await response.prepare(request)
            while not self._closing.is_set():
                await response.write(b" ")
                await anyio.sleep(DRIP_S)
        return response

    async def _get(self, request: web.Request) -> web.Response:
        sid = request.match_info["sid"]
        if not _authorised(request):
            return _problem(401, 20003, "Authenticate")
        if sid not in self.statuses:
            return _problem(404, 20404, "not found")
        return web.json_response(_message(sid, self.statuses[sid], ""))


@asynccontextmanager
async def twilio() -> AsyncIterator[Twilio]:
    """Serve on any free port of this machine."""
    server = Twilio()
    runner = web.AppRunner(server.app(), shutdown_timeout=1.0, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        server.close()
        await runner.cleanup()


async def send_inbound(
    url: str, body: str, *, sender: str, public_url: str = "", token: str = AUTH_TOKEN
) -> tuple[int, str]:
    """Post what a person wrote as Twilio does, and return the status and text of the answer.

    It is signed for `public_url`, if that is another address than the one that is posted to.
    """
    form = {"MessageSid": "SM" + "1" * 32, "AccountSid": ACCOUNT, "From": sender, "Body": body}
    return await _deliver(url, form, public_url or url, token)


async def send_status(
    url: str, sid: str, status: str, *, public_url: str = "", token: str = AUTH_TOKEN
) -> tuple[int, str]:
    """Post what became of a message as Twilio does."""
    form = {"MessageSid": sid, "AccountSid": ACCOUNT, "MessageStatus": status}
    return await _deliver(url, form, public_url or url, token)


async def _deliver(url: str, form: dict[str, str], signed_for: str, token: str) -> tuple[int, str]:
    signature = RequestValidator(token).compute_signature(signed_for, form)
    headers = {"X-Twilio-Signature": signature}
    timeout = aiohttp.ClientTimeout(total=10)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(url, data=form, headers=headers) as response,
    ):
        return response.status, await response.text()


def _authorised(request: web.Request) -> bool:
    expected = base64.b64encode(f"{ACCOUNT}:{AUTH_TOKEN}".encode()).decode()
    return request.headers.get("Authorization") == f"Basic {expected}"


def _problem(status: int, code: int, message: str) -> web.Response:
    return web.json_response({"status": status, "code": code, "message": message}, status=status)


def _page(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text, content_type="text/html")


def _message(sid: str, status: str, to: str) -> dict[str, str | None]:
    return {"sid": sid, "account_sid": ACCOUNT, "to": to, "status": status, "error_code": None}
