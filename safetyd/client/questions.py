"""What is answered the same however often it is asked: claims, and an agent's own requests."""

from collections.abc import Callable
from typing import Final, TypeVar

import anyio

from safetyd.client.agent_connection import Link, Listener
from safetyd.client.draft import new_id
from safetyd.client.exceptions import Down

T = TypeVar("T")

AGAIN_S: Final = 0.5
PAUSE_S: Final = 0.25

Read = Callable[[bytes], T | None]


async def answer_to(link: Link, verb: str, payload: bytes, read: Read[T], deadline_s: float) -> T:
    """Send until there is an answer that `read` understands; raise `Down` if none comes in time."""
    why = f"no answer to this {verb} came within {deadline_s:g} s from {link.where}"
    with link.listen(new_id()) as listener, anyio.move_on_after(deadline_s):
        while True:
            try:
                await link.send(verb, payload, listener)
                with anyio.move_on_after(AGAIN_S):
                    return await _understood(listener, read)
            except Down as down:
                why = str(down)
                await anyio.sleep(PAUSE_S)
    raise Down(why)


async def _understood(listener: Listener, read: Read[T]) -> T:
    while True:
        found = read((await listener.hear()).data)
        if found is not None:
            return found
