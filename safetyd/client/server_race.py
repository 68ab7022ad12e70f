"""Connect to the first of several servers that answers.

A frozen server accepts a connection and then says nothing. So each attempt gets only a head start
before the next one begins. The first that succeeds wins, and the others are ended.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import anyio

if TYPE_CHECKING:
    from nats.aio.client import Client

T = TypeVar("T")

HEAD_START_S: Final = 0.25


async def first_of(
    servers: Sequence[str],
    connect: Callable[[str], Awaitable[T]],
    close: Callable[[T], Awaitable[None]],
) -> T:
    """Return the result of the first attempt that succeeds. Raise the last error if none does.

    `connect` must clean up if it is cancelled. `close` gets the result of an attempt that came too
    late.
    """
    winners: list[T] = []
    errors: list[Exception] = []
    try:
        async with anyio.create_task_group() as tasks:

            async def attempt(server: str, over: anyio.Event) -> None:
                try:
                    winners.append(await connect(server))
                    tasks.cancel_scope.cancel()
                except Exception as exc:  # noqa: BLE001 - raised below if no attempt succeeds
                    errors.append(exc)
                over.set()

            for server in servers:
                over = anyio.Event()
                tasks.start_soon(attempt, server, over)
                with anyio.move_on_after(HEAD_START_S):
                    await over.wait()
        if not winners:
            raise errors[-1]
        first = winners.pop(0)
    finally:
        for late in winners:
            await close(late)
    return first


def shuffled(servers: Sequence[str]) -> list[str]:
    """Return the servers in random order, so that clients spread over them."""
    return random.sample(servers, len(servers))


def in_cluster(servers: Sequence[str], client: "Client") -> bool:
    """Return True if there are several servers, or if the server says that it is in a cluster."""
    return len(servers) > 1 or bool(client._server_info.get("cluster"))  # noqa: SLF001
