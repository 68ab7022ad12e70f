"""Find the sent message and request of a link by the id of its token."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from safetyd.cards.similar_requests import set_ref
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.outbox.deliveries import Delivery
from safetyd.core.outbox.outbox import Outbox
from safetyd.notify.links.signing_keys import LINK_TIME
from safetyd.notify.links.tokens import MESSAGE_BYTES, Signer
from safetyd.notify.message_sets import sets_in

LIST_TIME: Final = timedelta(days=1)
MAX_NOTED: Final = 20_000  # enough for all messages in the outbox, with two keys

_OPENED: Final = frozenset({"request", "reminder", "last_call", "expired", "test"})


class SentLink(NamedTuple):
    """A link that was sent: the request that it opens, its recipient and its message."""

    delivery: str
    request_id: str  # or the name of a set; empty: the list of all requests in the message
    recipient: str
    channel: str
    sent: datetime
    listed: tuple[str, ...]  # the requests of the message whose links are not revoked
    test: bool = False  # the link of a test message, which opens no request
    told: datetime | None = None  # when the channel accepted the message
    members: tuple[str, ...] = ()  # the requests of a set; a button names only the pending ones

    @property
    def via(self) -> str:
        """The recorded channel of an answer given through this link."""
        return f"link:{self.channel}"

    @property
    def expires(self) -> datetime:
        return self.sent + (LINK_TIME if self.request_id else LIST_TIME)


class SentLinks:
    """Finds messages by the first bytes of their token ids."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._deliveries: dict[bytes, str] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._deliveries)

    def note(self, delivery: str, recipient: str) -> None:
        """Record a sent message; drop the oldest if there are too many."""
        for begins in self._signer.message_ids(delivery, recipient):
            self._deliveries[begins] = delivery
        while len(self._deliveries) > MAX_NOTED:
            del self._deliveries[next(iter(self._deliveries))]

    def rebuild(self, messages: Iterable[Delivery]) -> None:
        """Replace all messages with these, newest first. Used at the start and for new keys."""
        self._deliveries.clear()
        for message in reversed(list(messages)):
            self.note(message.id, message.recipient)

    def find(self, state: EngineState, token_id: bytes, does: str = "") -> SentLink | None:
        """Return the link of a token; None if it was revoked or its message is unknown.

        `does` is the action of a button. In a button's token it precedes the request's id, or the
        name of the pending requests of a set.
        """
        outbox = state.outbox
        delivery = self._deliveries.get(token_id[:MESSAGE_BYTES])
        message = None if delivery is None else outbox.find(delivery)
        if message is None:
            return None
        opened = {item.ref: item.kind == "test" for item in message.items if item.kind in _OPENED}
        for ref in ("", *opened):
            if self._is(token_id, message, does + ref):
                return _live(outbox, message, ref, opened)
        for found in sets_in(state, message):
            members = found.pending if does else found.requests
            if members and self._is(token_id, message, does + set_ref(members)):
                link = _live(outbox, message, found.ref, opened)
                return link and link._replace(members=tuple(each.id for each in members))
        return None

    def _is(self, token_id: bytes, message: Delivery, ref: str) -> bool:
        return token_id in self._signer.token_ids(message.id, ref, message.recipient)


def _live(
    outbox: Outbox, message: Delivery, ref: str, opened: Mapping[str, bool]
) -> SentLink | None:
    if outbox.revoked(message.id, ref):
        return None
    requests = (ref for ref, test in opened.items() if not test)
    return SentLink(
        delivery=message.id,
        request_id=ref,
        recipient=message.recipient,
        channel=message.channel,
        sent=message.at,
        told=message.told_at,
        listed=tuple(ref for ref in requests if not outbox.revoked(message.id, ref)),
        test=opened.get(ref, False),
    )
