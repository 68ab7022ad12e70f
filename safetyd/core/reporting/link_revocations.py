"""When links were revoked for wrong codes. Later messages about the request have another code."""

from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.events.notification_events import LinkRevoked

MAX_KNOWN: Final = 1000  # requests and recipients; the oldest is dropped first


class LinkRevocationsState(msgspec.Struct):
    times: dict[str, list[datetime]] = {}  # by request and recipient


class LinkRevocations(Actor):
    name = "link_revocations"
    _state: LinkRevocationsState

    def __init__(self) -> None:
        self._state = LinkRevocationsState()
        self.hears = hearing(on(LinkRevoked, self._revoked))

    def code_name(self, request_id: str, recipient: str, sent: datetime) -> str:
        """Return the name from which the code in a message is derived.

        It is the id of the request, unless a link was revoked before the message was `sent`.
        """
        times = self._state.times.get(_key(request_id, recipient), ())
        before = sum(at < sent for at in times)
        return f"{request_id} {before}" if before else request_id

    def _revoked(self, event: LinkRevoked) -> None:
        times = self._state.times
        times.setdefault(_key(event.request_id, event.recipient), []).append(event.at)
        if len(times) > MAX_KNOWN:
            del times[next(iter(times))]


def _key(request_id: str, recipient: str) -> str:
    return f"{request_id} {recipient}"
