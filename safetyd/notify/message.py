"""One message to one recipient on one channel: its card, and what is said around it.

Every word of an agent in it is harmless already: no controls, no directions, no addresses that a
reader's program would make into links. A channel escapes for its own markup and for nothing else.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final, Literal, Self

import msgspec
from msgspec.structs import replace

from safetyd.cards.note_cards import Card, DigestCard, SingleCard, asks, titled
from safetyd.core.events.notification_events import ItemKind
from safetyd.core.messages.proposal import Urgency
from safetyd.notify.channel_templates import ChannelTemplates

Privacy = Literal["full", "summary", "minimal"]

# One, and several, in the order in which they are told.
_COUNTED: Final[dict[ItemKind, tuple[str, str]]] = {
    "request": ("request waiting", "requests waiting"),
    "expired": ("request expired", "requests expired"),
    "alert": ("alert", "alerts"),
    "summary": ("summary", "summaries"),
    "test": ("test", "tests"),
}


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel is given to send."""

    delivery: str  # every copy of the message has the same
    channel: str
    recipient: str
    address: str = ""  # a mail address or a telephone number; other channels know their own
    urgency: Urgency
    card: Card
    held_back: int = 0  # others that were not urgent enough
    again: bool = False  # another copy may have arrived
    at: datetime  # in the recipient's zone
    thread: str = ""  # the same for all messages about one request
    here_only: bool = False  # links open on the machine where safetyd runs, nowhere else
    machine: str = ""  # the name of that machine
    privacy: Privacy = "full"
    templates: ChannelTemplates = ChannelTemplates()

    def rendered(self, template: str, **values: object) -> str:
        """Return the text that a template makes of the message."""
        return self.templates.render(template, message=self, **values)

    def changed(self, change: Callable[[SingleCard], SingleCard]) -> Self:
        """Return the message with each of its cards changed."""
        card = self.card
        if isinstance(card, DigestCard):
            shown: Card = replace(card, cards=tuple(map(change, card.cards)))
        else:
            shown = change(card)
        return replace(self, card=shown)

    @property
    def cards(self) -> tuple[SingleCard, ...]:
        return self.card.cards if isinstance(self.card, DigestCard) else (self.card,)

    @property
    def single(self) -> SingleCard | None:
        """The one thing that it is about, if it is about one."""
        return None if isinstance(self.card, DigestCard) else self.card

    @property
    def more(self) -> int:
        return self.card.more if isinstance(self.card, DigestCard) else 0

    @property
    def list_link(self) -> str:
        return self.card.list_link if isinstance(self.card, DigestCard) else ""

    @property
    def quiet(self) -> bool:
        return isinstance(self.card, DigestCard) and self.card.quiet

    @property
    def minimal(self) -> bool:
        return self.privacy == "minimal"

    @property
    def test(self) -> bool:
        return bool(self.cards) and all(card.kind == "test" for card in self.cards)

    @property
    def high(self) -> bool:
        """Whether an answer is wanted soon; an alert says itself how urgent it is."""
        return any(asks(card) and card.urgency == "high" for card in self.cards)

    @property
    def headline(self) -> str:
        """What the message is about in one line."""
        single = self.single
        if single is not None and not self.minimal:
            return titled(single)
        return f"{'After quiet hours: ' * self.quiet}{self._lead()}"

    @property
    def subject(self) -> str:
        """The headline, marked as a test or as urgent."""
        return f"{'[TEST] ' * self.test}{'HIGH: ' * self.high}{self.headline}"

    @property
    def counted(self) -> str:
        """How many there are of each sort, requests first, and how many more."""
        counts = Counter(sort(card) for card in self.cards)
        said = [
            f"{counts[kind]} {one if counts[kind] == 1 else many}"
            for kind, (one, many) in _COUNTED.items()
            if counts[kind]
        ]
        return ", ".join([*said, f"{self.more:,} more"] if self.more else said)

    def _lead(self) -> str:
        """Say how many there are; an urgent alert, or the report, is named first."""
        cards = () if self.minimal else self.cards
        alerts = [card for card in cards if card.kind == "alert"]
        urgent = [card for card in alerts if card.urgency == "high"]
        reports = [card for card in cards if card.kind == "summary" and card.sheet]
        calm = not any(card.urgency == "high" for card in cards)
        named = urgent or (alerts if len(alerts) == len(cards) else reports if calm else [])
        if not named:
            return self.counted
        return f"{titled(named[0])}, and {len(cards) + self.more - 1:,} more"

    @property
    def reach(self) -> str:
        """Say where links open, if there are any and they do not open everywhere."""
        linked = self.list_link or any(card.link for card in self.cards)
        if not self.here_only or not linked:
            return ""
        where = f"{self.machine}, where" if self.machine else "the machine where"
        return f"Links open only on {where} safetyd runs."

    @property
    def notes(self) -> Iterator[str]:
        """What is to be known about the message itself."""
        if self.reach:
            yield self.reach
        if self.held_back:
            yield f"{self.held_back:,} less urgent not sent; `safetyd list` shows what waits."
        if self.again:
            yield "You may have received this message before."


def sort(card: SingleCard) -> ItemKind:
    """Return what a card is counted as: all that wants an answer is a request."""
    return "request" if asks(card) else card.kind
