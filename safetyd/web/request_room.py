"""Room for requests and their bodies, which is reserved before a body is read."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Final

import anyio
from aiohttp import web

from safetyd.agents.sender_accounts import RequestRoom, Sender, SenderAccounts
from safetyd.web.http_connection import connection_of

STEP_BYTES: Final = 64 * 1024  # reserved at a time for a body of unknown length


class TooLong(Exception):
    """A body has more bytes than allowed."""


@asynccontextmanager
async def room_for(
    request: web.Request, accounts: SenderAccounts, sender: Sender, *, turn: bool = False
) -> AsyncIterator[RequestRoom]:
    """Count a request of a sender. Its connection is not closed to make room meanwhile.

    With `turn`, also wait for its turn, which the listeners on ports do for all requests. Raise
    OverLimit if the sender has too many requests.
    """
    room = await accounts.begin_soon(sender, turn=turn)
    connection = connection_of(request)
    with room, nullcontext() if connection is None else connection.protected():
        yield room


async def read_body(request: web.Request, room: RequestRoom, most: int) -> bytes:
    """Return the body, and reserve room for it before it is read.

    Raise OverLimit if there is no room, TooLong, TimeoutError or ConnectionError.
    """
    if (request.content_length or 0) > most:
        raise TooLong
    reserved = request.content_length or 0
    body = bytearray()
    with anyio.fail_after(room.body_s):
        if reserved:
            await room.reserve_soon(reserved)
        while chunk := await request.content.readany():
            if len(body) + len(chunk) > most:
                raise TooLong
            if (missing := len(body) + len(chunk) - reserved) > 0:
                more = max(missing, STEP_BYTES)
                await room.reserve_soon(more)
                reserved += more
            body += chunk
    return bytes(body)
