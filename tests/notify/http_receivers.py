"""Receivers on this machine for what channels post: they take it, refuse it, hang or break off."""

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import msgspec
from aiohttp import web

NTFY_MESSAGE_BYTES = 4096
NTFY_ACTIONS = 3


class Post(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return msgspec.json.decode(self.body)


class Reaction(NamedTuple):
    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes = b""
    hangs: bool = False
    breaks_off: bool = False


Reacts = Callable[[Post], Reaction]


class Receiver:
    """Remembers every post and reacts as scripted; the last reaction is repeated."""

    def __init__(self, *script: Reaction | Reacts) -> None:
        self._script = list(script) or [Reaction()]
        self._over = anyio.Event()
        self.arrived = anyio.Event()
        self.posts: list[Post] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        post = Post(request.path_qs, dict(request.headers), await request.read())
        self.posts.append(post)
        self.arrived.set()
        reacts = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        reaction = reacts if isinstance(reacts, Reaction) else reacts(post)
        if reaction.hangs:
            await self._over.wait()
        if reaction.breaks_off and request.transport is not None:
            request.transport.abort()
        return web.Response(
            status=reaction.status, headers=dict(reaction.headers), body=reaction.body
        )

    def release(self) -> None:
        self._over.set()


@asynccontextmanager
async def receiving(
    *script: Reaction | Reacts, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """Listen on any free port of the loopback until the end of the block."""
    receiver = Receiver(*script)
    runner = web.ServerRunner(web.Server(receiver.handle), shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        receiver.port = runner.addresses[0][1]
        yield receiver
    finally:
        receiver.release()
        await runner.cleanup()


def ntfy(token: str = "", *, updates: bool = False) -> Reacts:
    """Return what reacts as an ntfy server does to a publication in JSON.

    `updates`: as servers since 2.16, which can update a message.
    """

    def react(post: Post) -> Reaction:
        if token and post.headers.get("Authorization") != f"Bearer {token}":
            return Reaction(403, body=b'{"code":40301,"http":403,"error":"forbidden"}')
        sent = post.document
        if len(sent["message"].encode()) > NTFY_MESSAGE_BYTES or post.path != "/":
            return Reaction(400, body=b'{"code":40011,"http":400,"error":"invalid request"}')
        if len(sent.get("actions", ())) > NTFY_ACTIONS or sent["priority"] not in range(1, 6):
            return Reaction(400, body=b'{"code":40018,"http":400,"error":"invalid request"}')
        sequence = {"sequence_id": sent["sequence_id"]} if updates else {}
        answer = {"id": "xE73Iyuabi"} | sequence | {"event": "message", "message": sent["message"]}
        return Reaction(body=msgspec.json.encode(answer))

    return react
