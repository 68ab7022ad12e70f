"""A connection to one server: open it, check it, close it."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread

from safetyd.client.discovery import Endpoint

if TYPE_CHECKING:
    from nats.aio.client import Client

T = TypeVar("T")

# A server that stops answering is detected after three intervals.
PING_S: Final = 5
PONG_S: Final = 1.0
CLOSE_S: Final = 1.0

_log = logging.getLogger("safetyd.client")


async def open_client(
    endpoint: Endpoint,
    name: str,
    on_error: Callable[[Exception], Awaitable[None]],
    on_closed: Callable[[], Awaitable[None]],
    server: str,
) -> "Client":
    """Return a client that is connected to one server of an endpoint."""
    client = await in_thread(partial(_new_client, endpoint))
    reported: deque[Exception] = deque(maxlen=1)

    async def report(exc: Exception) -> None:
        reported.append(exc)
        await on_error(exc)

    opened = False
    try:
        # Even with reconnection off, nats-py treats fewer than one attempt as no limit.
        await client.connect(
            [server],
            name=name,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            ping_interval=PING_S,
            max_outstanding_pings=2,
            pending_size=-1,
            flush_timeout=1.0,
            nkeys_seed_str=endpoint.seed,
            error_cb=report,
            closed_cb=on_closed,
        )
        opened = client.is_connected
    except Exception as exc:
        # nats-py raises only "no servers"; it passes the cause to the error callback.
        raise (reported.pop() if reported else exc) from exc
    finally:
        if not opened:
            await close_client(client)
    if not opened:
        raise reported.pop() if reported else ConnectionError("it hung up")
    return client


async def responds(client: "Client") -> bool:
    """Return True if the server answers a ping. If not, close the client: it cannot be used."""
    try:
        with anyio.fail_after(PONG_S):
            await client.flush()
    except Exception as exc:  # noqa: BLE001 - the server is left after any error
        _log.debug("the server does not answer: %r", exc)
        return False
    return True


async def close_client(client: "Client") -> None:
    with anyio.move_on_after(CLOSE_S, shield=True), suppress(Exception):
        await client.close()


async def in_thread(work: Callable[[], T]) -> T:
    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    except RuntimeError:
        # At interpreter shutdown no thread can start. Blocking the loop does no harm then.
        return work()


def _new_client(endpoint: Endpoint) -> "Client":
    # Imported lazily in a worker thread: the import takes a quarter of a second.
    if endpoint.seed is not None:
        import nkeys  # noqa: F401, PLC0415
    from nats.aio.client import Client  # noqa: PLC0415

    return Client()
