"""Sends ticks to the engine, and records refusals."""

from functools import partial
from typing import Final

import anyio
import msgspec

from safetyd.agents.refusals import WINDOW_S, Refusals
from safetyd.clock import Clock, uptime
from safetyd.core.events.event import Event, Moment, Ticked
from safetyd.journal.mailbox import Mailbox

TICK_S: Final = 1.0


class Ticker:
    """Puts ticks and refusal counts into the mailbox."""

    def __init__(self, mailbox: Mailbox, clock: Clock, refusals: Refusals) -> None:
        self._mailbox = mailbox
        self._clock = clock
        self._refusals = refusals
        self.lag_s = 0.0  # how late the event loop was at the last tick

    async def tick(self) -> None:
        """Send a tick to the engine every second, forever."""
        while True:
            before = uptime()
            await anyio.sleep(TICK_S)
            self.lag_s = uptime() - before - TICK_S
            self._mailbox.record(lambda moment: Ticked(at=moment.at, t=moment.t))

    async def count(self) -> None:
        while True:
            await anyio.sleep(WINDOW_S)
            self.count_refusals()

    def count_refusals(self) -> None:
        """Record the refusals since the last call, as counts."""
        for refused in self._refusals.take(self._clock.now()):
            self._mailbox.record(partial(at, refused))


def at(event: Event, moment: Moment) -> Event:
    """Return an event with a new time, because times in the journal must not run backwards."""
    return msgspec.structs.replace(event, at=moment.at, t=moment.t)
