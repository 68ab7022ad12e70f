"""The text of /metrics, made at most once a second and in slices."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import anyio
import msgspec

from safetyd.clock import uptime
from safetyd.journal.mailbox import Ask, InquiryEnvelope, Mailbox
from safetyd.monitoring.metrics import GaugeText

FRESH_S: Final = 1.0
RESTS: Final = 3.0  # the pause after a slice, as a multiple of its duration
PATIENCE_S: Final = 1.0  # how long to wait for the engine's gauges


class StateGauges:
    """The gauges of the engine's state, from the last answer that is durable."""

    def __init__(self, mailbox: Mailbox, ask: Ask) -> None:
        self._mailbox = mailbox
        self._ask = ask
        self._text = b""
        self._answered: anyio.Event | None = None  # None: no query is running

    async def text(self) -> bytes:
        answered = self._answered
        if answered is None:
            answered = self._answered = anyio.Event()
            self._mailbox.put_question(
                InquiryEnvelope(self._ask, _packed, self._told, self._done, lambda _spent_s: None)
            )
        with anyio.move_on_after(PATIENCE_S):
            await answered.wait()
        return self._text

    def _told(self, text: bytes) -> None:
        self._text = text
        self._done()

    def _done(self) -> None:
        if self._answered is not None:
            self._answered.set()
            self._answered = None


def _packed(found: msgspec.Struct) -> bytes:
    return msgspec.convert(found, GaugeText, from_attributes=True).text.encode()


class Scrape:
    """Serves the last text until it is a second old."""

    def __init__(
        self,
        slices: Callable[[], Iterator[bytes]],
        gauges: Callable[[], Awaitable[bytes]],
        now: Callable[[], float] = uptime,
    ) -> None:
        self._slices = slices
        self._gauges = gauges
        self._now = now
        self._made: float | None = None
        self._text = b""
        self._making = anyio.Lock()

    async def text(self) -> bytes:
        async with self._making:
            if self._made is None or self._now() - self._made >= FRESH_S:
                self._text = await self._make()
                self._made = self._now()
            return self._text

    async def _make(self) -> bytes:
        text, begun = [], self._now()
        for part in self._slices():
            text.append(part)
            await anyio.sleep(RESTS * (self._now() - begun))
            begun = self._now()
        return b"".join((*text, await self._gauges()))
