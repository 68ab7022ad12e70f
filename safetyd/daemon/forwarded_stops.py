"""Passes stops of a standby to the writer, which alone can journal them."""

import logging
from typing import Final

import anyio
import msgspec
import nats.errors

from safetyd.agents.emergency_stop import EmergencyStop
from safetyd.bus.connections import Connection
from safetyd.bus.nats_client import pub
from safetyd.bus.subjects import Subjects
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.guard_events import Resumed, Stopped

WRITTEN_S: Final = 5.0  # how long the writer may take to journal a stop
AGAIN_S: Final = 0.25
STOPS: Final = "stop"

log = logging.getLogger("safetyd.standby")

_decode = msgspec.json.Decoder(Stopped | Resumed).decode


class ForwardedStops:
    def __init__(self, connection: Connection, subjects: Subjects, stop: EmergencyStop) -> None:
        self._client = connection.client
        self._subject = subjects.internal(STOPS)
        self._stop = stop

    async def forward(self, event: Stopped | Resumed) -> None:
        """Send a stop or resume to the writer until it has journalled it."""
        while True:
            try:
                await self._client.request(self._subject, encode(event), timeout=WRITTEN_S)
            except (nats.errors.Error, TimeoutError, OSError) as exc:
                log.debug("a stop cannot be forwarded yet: %s", exc)
                await anyio.sleep(AGAIN_S)
            else:
                return

    async def hear(self) -> None:
        """Start to receive stops of standbys."""
        await self._client.handle(self._subject, self._receive)

    def _receive(self, _subject: bytes, reply: bytes, payload: bytes) -> None:
        try:
            event = _decode(payload)
        except msgspec.DecodeError:
            log.warning("a daemon sent a stop that cannot be read")
            return

        def written() -> None:
            self._client.send(pub(reply, b"written"))

        if isinstance(event, Stopped):
            self._stop.stop(
                event.source,
                event.by,
                event.reason,
                event.agent,
                via=event.via,
                recorded=written,
            )
        else:
            self._stop.resume(
                event.sources, event.by, event.reason, event.agent, written, via=event.via
            )
