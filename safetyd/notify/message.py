"""One message to one recipient on one channel: its card, and the text around the card.

The agent's words in it are already sanitized: no control characters, no text direction marks, no
addresses that a program would turn into links. A channel escapes only for its own markup.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final, Literal, Self

import msgspec
from msgspec.structs import replace

from safetyd.cards.note_cards import (
    PREFIXES,
    Card,
    DigestCard,
    Line,
    SingleCard,
    asks,
    headlined,
    titled,
)
from safetyd.cards.request_card import RequestCard
from safetyd.core.events.notification_events import ItemKind
from safetyd.core.messages.proposal import Urgency
from safetyd.core.text.visible_text import cut_to
from safetyd.notify.channel_templates import ChannelTemplates

SUBJECT_CHARS: Final = 60  # phones show no more
HEADLINE_CHARS: Final = 140
TIMES: Final = "\N{MULTIPLICATION SIGN}"

Privacy = Literal["full", "summary", "minimal"]

# Singular and plural, in the order in which they are listed.
_COUNTED: Final[dict[ItemKind, tuple[str, str]]] = {
    "expired": ("expired request", "expired requests"),
    "alert": ("alert", "alerts"),
    "summary": ("summary", "summaries"),
    "test": ("test", "tests"),
}


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A message in the form in which a channel gets it."""

    delivery: str  # the same for every copy of the message
    channel: str
    recipient: str
    address: str = ""  # a mail address, phone number or user id; empty on shared channels
    urgency: Urgency
    card: Card
    held_back: int = 0  # the number of notifications that were not urgent enough to send
    again: bool = False  # True if an earlier copy may have arrived
    at: datetime  # in the recipient's time zone
    thread: str = ""  # the same for all messages about one request
    here_only: bool = False  # True if links work only on the machine where safetyd runs
    machine: str = ""  # the name of the machine
    privacy: Privacy = "full"
    templates: ChannelTemplates = ChannelTemplates()
    limited_until: str = ""  # until when no other urgent message is sent on this channel
    option: str = ""  # the option that commands need if the data directory is not the default

    def rendered(self, template: str, **values: object) -> str:
        """Render the message with a template."""
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
        """Its only card; None for a digest."""
        return None if isinstance(self.card, DigestCard) else self.card

    @property
    def lines(self) -> tuple[Line, ...]:
        """The entries that have a line instead of a card."""
        return self.card.lines if isinstance(self.card, DigestCard) else ()

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
        """True if the message has an urgent request. Alerts state their urgency in the title."""
        return any(asks(card) and card.urgency == "high" for card in self.cards)

    @property
    def headline(self) -> str:
        """The question or the fact in one line, long enough for all names."""
        return self._headline(HEADLINE_CHARS)

    @property
    def subject(self) -> str:
        """The same for a subject or title: marked as a test or as urgent, and short."""
        marks = f"{'[TEST] ' * self.test}{'HIGH: ' * self.high}"
        return f"{marks}{self._headline(SUBJECT_CHARS - len(marks))}"

    def names_beside(self, title: str) -> str:
        """Return the names of the agent and of the type of action, unless a title has both."""
        single = self.single
        if not isinstance(single, RequestCard) or self.minimal or single.names in title:
            return ""
        return single.names

    def _headline(self, most: int) -> str:
        single = self.single
        if single is not None and not self.minimal:
            return headlined(single, most)
        return cut_to(f"{'After quiet hours: ' * self.quiet}{self._kind}{self._lead()}", most)

    @property
    def _kind(self) -> str:
        """What several reminders or last calls have before their number."""
        kinds = {card.kind for card in self.cards}
        return PREFIXES.get(kinds.pop(), "") if len(kinds) == 1 else ""

    @property
    def counted(self) -> str:
        """The number of items of each kind, and of those that the next message lists.

        Requests have their types, such as `3 requests: push, deploy` with a number for several.
        """
        counts = Counter[ItemKind]()
        for entry in (*self.cards, *self.lines):
            counts[entry.kind if isinstance(entry, Line) else sort(entry)] += entry.size
        said = [
            f"{counts[kind]} {one if counts[kind] == 1 else many}"
            for kind, (one, many) in _COUNTED.items()
            if counts[kind]
        ]
        others = ", ".join([*said, f"{self.more:,} more"] if self.more else said)
        if not (number := counts["request"]):
            return others
        cards = (card for card in self.cards if isinstance(card, RequestCard) and card.asks)
        lines = (line for line in self.lines if line.kind == "request")
        types = "" if self.minimal else f": {_types((*cards, *lines))}"
        count = f"{number:,} {'request' if number == 1 else 'requests'}{types}"
        return "; ".join(filter(None, (count, others)))

    def _lead(self) -> str:
        """Return the counts; an urgent alert or the daily report is named first."""
        cards = () if self.minimal else self.cards
        alerts = [card for card in cards if card.kind == "alert"]
        urgent = [card for card in alerts if card.urgency == "high"]
        reports = [card for card in cards if card.kind == "summary" and card.sheet]
        calm = not any(card.urgency == "high" for card in cards)
        named = urgent or (alerts if len(alerts) == len(cards) else reports if calm else [])
        if not named:
            return self.counted
        others = sum(entry.size for entry in (*cards, *self.lines)) + self.more - named[0].size
        return f"{titled(named[0])}, and {others:,} more"

    @property
    def linked(self) -> bool:
        """True if it has links."""
        return bool(self.list_link) or any(card.link for card in self.cards)

    @property
    def reach(self) -> str:
        """A sentence about where links work, or an empty text if they work everywhere."""
        if not self.here_only or not self.linked:
            return ""
        where = f"{self.machine}, where" if self.machine else "the machine where"
        return f"Links work only on {where} safetyd runs."

    @property
    def notes(self) -> Iterator[str]:
        """Remarks about the message itself."""
        if self.reach:
            yield self.reach
        if self.limited_until:
            yield (
                f"Urgent messages on this channel are limited until {self.limited_until}. "
                "Further urgent requests use other channels and people, or share a message."
            )
        if self.held_back:
            yield f"Less urgent notifications not sent: {self.held_back:,}. See: safetyd list"
        if self.option:
            yield f"Commands for this daemon need the option{self.option}."
        if self.again:
            yield "You may have received this message before."


def sort(card: SingleCard) -> ItemKind:
    """Return the kind under which a card is counted: `request` if it needs an answer."""
    return "request" if asks(card) else card.kind


def _types(entries: Sequence[RequestCard | Line]) -> str:
    """Return the types of requests, with the number of each if there are several."""
    counts = Counter[str]()
    for entry in entries:
        counts[entry.type] += entry.size
    return ", ".join(
        f"{name} {TIMES}{count}" if count > 1 else name for name, count in counts.items()
    )
