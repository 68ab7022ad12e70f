"""Counts wrong codes: by request and recipient, and by relay. Links and mail replies share it.

The owner of a relay sees the links of many requests, and could try a few codes on each. So all
wrong codes from one relay count together.
"""

from collections.abc import Sequence
from typing import Final

from safetyd.core.approvals.request import Request
from safetyd.core.events.event import Moment
from safetyd.core.events.notification_events import Announced, LinkRevoked, Note
from safetyd.core.token_bucket import Refill, TokenBucket

MAX_WRONG: Final = 5  # wrong codes of one recipient for one request
MAX_GUESSED: Final = 10_000  # pairs of request and recipient whose wrong codes are counted
RELAY_WRONG: Final = 10  # wrong codes from one relay per day

_PER_RELAY: Final = Refill(RELAY_WRONG / 86_400, RELAY_WRONG)


class WrongCodes:
    def __init__(self) -> None:
        self._tried: dict[tuple[str, str], int] = {}
        self._relays: dict[str, TokenBucket] = {}

    def left(self, request_id: str, recipient: str) -> int:
        """Count a wrong code. Return how many more are accepted for this request."""
        key = request_id, recipient
        wrong = self._tried[key] = self._tried.pop(key, 0) + 1
        if len(self._tried) > MAX_GUESSED:
            del self._tried[next(iter(self._tried))]
        return max(0, MAX_WRONG - wrong)

    def count_relay(self, relay: str, t: float) -> None:
        """Count a wrong code from a relay."""
        bucket = self._relays.setdefault(relay, TokenBucket())
        bucket.tokens = _PER_RELAY.fill(bucket, t) - 1.0

    def relay_closed(self, relay: str, t: float) -> bool:
        """Return True if no code from this relay is accepted, not even a correct one."""
        bucket = self._relays.get(relay)
        return bucket is not None and _PER_RELAY.level(bucket, t) < 1.0


def revoked(delivery: str, request_id: str, recipient: str, moment: Moment) -> LinkRevoked:
    """Return the event that revokes the links of a request in one message, and their code."""
    return LinkRevoked(
        at=moment.at,
        t=moment.t,
        delivery=delivery,
        request_id=request_id,
        recipient=recipient,
        why=f"{MAX_WRONG} wrong codes were tried",
    )


def warned(
    delivery: str,
    request_id: str,
    recipient: str,
    moment: Moment,
    of_set: Sequence[Request] = (),
) -> Announced:
    """Return an alert: somebody answers the recipient's message without knowing the code.

    `of_set` are the pending requests, if the code was for a set.
    """
    what, pending, command = request_id, "The request is", f"show {request_id}"
    if of_set:
        agent = of_set[0].agent
        what = f"{len(of_set)} similar requests of {agent}"
        pending, command = "The requests are", f"list --agent {agent}"
    note = Note(
        id=f"revoked_{delivery}_{request_id}",
        kind="alert",
        urgency="high",
        title=f"Wrong codes for {what}",
        text=(
            f"Somebody tried {MAX_WRONG} or more wrong codes on links sent to you. The link in one "
            f"notification is now revoked. {pending} still pending. To see more: safetyd {command}"
        ),
        at=moment.at,
    )
    return Announced(at=moment.at, t=moment.t, note=note, recipients=(recipient,))
