"""The sets of similar requests in a message.

They are derived from the items of the message, so a link or a code needs no stored state.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from safetyd.cards.similar_requests import grouped, set_ref, shapes
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.notification_events import Item, ItemKind
from safetyd.core.outbox.deliveries import Delivery

_ASKED: Final[tuple[ItemKind, ...]] = ("request", "reminder", "last_call", "expired")
MAX_GROUPED: Final = 300  # items of a message that can be in sets; analysing texts takes time


class MessageSet(NamedTuple):
    """Similar requests that a message shows as one entry.

    `ref` stays the same when requests of the set end. The link and the code depend on it.
    """

    ref: str
    kind: ItemKind
    requests: tuple[Request, ...]

    @property
    def pending(self) -> tuple[Request, ...]:
        return tuple(request for request in self.requests if request.pending)


def sets_in(state: EngineState, delivery: Delivery) -> Iterator[MessageSet]:
    """Yield the sets of a message, including requests that have ended."""
    if len(delivery.items) == 1:
        return
    shape, items = shapes(state.reader), delivery.items[:MAX_GROUPED]
    for kind in _ASKED:
        requests = _requests(state, [item for item in items if item.kind == kind])
        for group in grouped(requests, shape):
            if len(group) > 1:
                in_order = tuple(sorted(group, key=lambda request: request.asked.seq))
                yield MessageSet(set_ref(group), kind, in_order)


def _requests(state: EngineState, items: list[Item]) -> list[Request]:
    found = map(state.approvals.find, (item.ref for item in items))
    return [request for request in found if request is not None]
