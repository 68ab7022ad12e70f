"""The metrics as text: made at most once a second and a piece at a time, however many ask."""

from collections.abc import Callable, Iterator
from typing import Final

import anyio

from safetyd.clock import uptime

FRESH_S: Final = 1.0
RESTS: Final = 3.0  # times as long as a piece took


class Scrape:
    """What was made last is handed out until it is a second old."""

    def __init__(
        self, slices: Callable[[], Iterator[bytes]], now: Callable[[], float] = uptime
    ) -> None:
        self._slices = slices
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
        return b"".join(text)
