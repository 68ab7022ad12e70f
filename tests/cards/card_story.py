"""Cards of requests that agents made in a story."""

from datetime import UTC, datetime, tzinfo
from typing import Any

import msgspec

from safetyd.cards.request_card import RequestCard, request_card
from safetyd.cards.request_details import RequestDetails
from safetyd.core.events.event import Moment
from safetyd.core.policy import Policy
from safetyd.operators.views.request_view import details
from tests.core.approvals.queue_story import QueueStory
from tests.story import at

NOW = at(100)


def context(**said: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(said))


def details_of(queue: QueueStory, request_id: str | None, now: datetime = NOW) -> RequestDetails:
    return details(queue.engine, Moment(now, 100.0), queue.request(request_id))


def asked(policy: Policy | None = None, /, **fields: Any) -> RequestDetails:
    """Return the details of a request for such a proposal."""
    queue = QueueStory(policy)
    return details_of(queue, queue.asks(0, **fields).request_id)


def card_of(
    policy: Policy | None = None, /, zone: tzinfo = UTC, now: datetime = NOW, **fields: Any
) -> RequestCard:
    return request_card(asked(policy, **fields), zone, now)
