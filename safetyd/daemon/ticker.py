"""What happens again and again: time passes, refusals are counted, state is repeated."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

import anyio
import msgspec

from safetyd import host
from safetyd.agents.emergency_stop import EmergencyStop
from safetyd.agents.refusals import WINDOW_S, Refusals
from safetyd.bus.publisher import Publisher
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock, uptime
from safetyd.core.events.event import Event, Moment, Ticked
from safetyd.daemon.settings import Settings
from safetyd.journal.mailbox import EventEnvelope, Mailbox

TICK_S: Final = 1.0
STATE_S: Final = 10.0
TROUBLE_S: Final = 60.0

log = logging.getLogger("safetyd")


class Ticker:
    """The daemon's clockwork."""

    def __init__(self, mailbox: Mailbox, clock: Clock, refusals: Refusals) -> None:
        self._mailbox = mailbox
        self._clock = clock
        self._refusals = refusals
        self.lag_s = 0.0  # by how much the event loop was late at the last tick

    async def tick(self) -> None:
        """Let time pass for the engine."""
        while True:
            before = uptime()
            await anyio.sleep(TICK_S)
            self.lag_s = uptime() - before - TICK_S
            self.put(lambda moment: Ticked(at=moment.at, t=moment.t))

    async def count(self) -> None:
        while True:
            await anyio.sleep(WINDOW_S)
            self.count_refusals()

    def count_refusals(self) -> None:
        """Put what was refused since the last time into the journal, as counts."""
        for refused in self._refusals.take(self._clock.now()):
            self.put(partial(_at, refused))

    def put(self, make: Callable[[Moment], Event]) -> None:
        """Let the engine take note of an event that nobody waits for."""
        self._mailbox.put(EventEnvelope(lambda _state, moment: make(moment), lambda: None))


async def repeat_state(
    emergency_stop: EmergencyStop, publisher: Publisher, subjects: Subjects, settings: Settings
) -> None:
    """Publish the stop and the mode every ten seconds, for those who came late."""
    while True:
        emergency_stop.tell()
        mode = {"mode": settings.config.mode, "profile": settings.config.profile}
        publisher.tell(subjects.of("state", "mode"), mode)
        await anyio.sleep(STATE_S)


async def tell_trouble(problem: Callable[[], str]) -> None:
    """Log when something begins to be wrong, every minute while it is, and when it is over."""
    told_at = 0.0
    while True:
        await anyio.sleep(TICK_S)
        trouble = problem()
        if trouble and (not told_at or uptime() - told_at >= TROUBLE_S):
            told_at = uptime()
            log.error("nothing is allowed: %s", trouble)
        elif not trouble and told_at:
            told_at = 0.0
            log.info("all is well again")


async def feed_watchdog(problem: Callable[[], str]) -> None:
    """Tell systemd that all is well, only while it is."""
    every = host.watchdog_s() / 4  # so that one feed may be left out
    while every:
        if not problem():
            host.notify("WATCHDOG=1")
        await anyio.sleep(every)


def _at(event: Event, moment: Moment) -> Event:
    """Let an event happen at its turn: in the journal, time never runs backwards."""
    return msgspec.structs.replace(event, at=moment.at, t=moment.t)
