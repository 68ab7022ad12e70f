"""Replies to agents that use HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import anyio

from safetyd.bus.publisher import Publisher
from safetyd.core.messages.decision import Decision


class AwaitedReply:
    """The reply to one HTTP request; a pending decision may come before the final one."""

    def __init__(self, address: bytes) -> None:
        self.address = address
        self.pending: Decision | None = None
        self.content: object = None
        self.heard = anyio.Event()
        self.answered = anyio.Event()

    def defer(self, decision: Decision) -> None:
        self.pending = decision
        self.heard.set()

    def put(self, answer: object) -> None:
        self.content = answer
        self.heard.set()
        self.answered.set()

    async def wait(self, patience_s: float, held_s: float) -> object:
        """Return the answer, or the pending decision if no answer follows it within `held_s`.

        Return None if neither arrives within `patience_s`.
        """
        with anyio.move_on_after(patience_s):
            await self.heard.wait()
        if self.content is None and self.pending is not None:
            with anyio.move_on_after(held_s):
                await self.answered.wait()
        return self.pending if self.content is None else self.content


class HttpReplies:
    """Delivers each answer to the HTTP request that waits for it.

    Decisions are also published on the bus.
    """

    def __init__(self, bus: Publisher) -> None:
        self._bus = bus
        self._awaited: dict[bytes, AwaitedReply] = {}
        self._numbers = count(1)

    @contextmanager
    def awaited(self) -> Iterator[AwaitedReply]:
        """Give a request an address to which its answer is sent."""
        reply = AwaitedReply(b"http.%d" % next(self._numbers))
        self._awaited[reply.address] = reply
        try:
            yield reply
        finally:
            del self._awaited[reply.address]

    def decide(self, reply: bytes, decision: Decision) -> None:
        self._bus.decide(b"", decision)
        self.answer(reply, decision)

    def defer(self, reply: bytes, decision: Decision) -> None:
        self._bus.decide(b"", decision)
        if (awaited := self._awaited.get(reply)) is not None:
            awaited.defer(decision)

    def reply(self, reply: bytes, decision: Decision) -> None:
        self.answer(reply, decision)

    def answer(self, reply: bytes, content: object) -> None:
        if (awaited := self._awaited.get(reply)) is not None:
            awaited.put(content)

    def soon(self) -> None:
        self._bus.soon()
