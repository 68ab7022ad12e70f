"""Cards that need no answer, and the card of a digest."""

from typing import Final, Literal

import msgspec

from safetyd.cards.request_card import RequestCard
from safetyd.core.events.notification_events import ItemKind, NoteSheet
from safetyd.core.messages.proposal import Urgency
from safetyd.core.text.visible_text import cut_to

PREFIXES: Final[dict[ItemKind, str]] = {
    "reminder": "Reminder: ",
    "last_call": "Last call: ",
    "expired": "Expired: ",
}


class NoteCard(msgspec.Struct, frozen=True, kw_only=True):
    """A notification that needs no answer."""

    id: str
    title: str
    text: str = ""
    cut: int = 0  # characters omitted from the text
    urgency: Urgency
    agent: str = ""
    count: int = 1  # how often it happened
    link: str = ""  # the code of a test message
    code: str = ""
    commands: tuple[str, ...] = ()
    sheet: NoteSheet | None = None  # the full daily report; `text` is its summary

    @property
    def refs(self) -> tuple[str, ...]:
        """The id, as for a card of requests."""
        return (self.id,)

    @property
    def size(self) -> int:
        return 1


class AlertCard(NoteCard, frozen=True, kw_only=True):
    """An alert or a test message."""

    kind: Literal["alert", "test"] = "alert"


class SummaryCard(NoteCard, frozen=True, kw_only=True):
    """The summary of a session, or the daily report."""

    kind: Literal["summary"] = "summary"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Requests or notes of a message that has no room for their card."""

    kind: ItemKind
    title: str
    agent: str
    type: str
    refs: tuple[str, ...]
    link: str = ""

    @property
    def size(self) -> int:
        return len(self.refs)


class DigestCard(msgspec.Struct, frozen=True, kw_only=True):
    """Several cards in one message."""

    cards: tuple[RequestCard | AlertCard | SummaryCard, ...]
    lines: tuple[Line, ...] = ()  # further entries, each with the number of its requests
    more: int = 0  # how many further items the next message lists
    quiet: bool = False  # held until the end of quiet hours
    list_link: str = ""  # link to the list of all requests


SingleCard = RequestCard | AlertCard | SummaryCard
Card = SingleCard | DigestCard


def asks(card: SingleCard) -> bool:
    """Return True if a card can be answered."""
    return isinstance(card, RequestCard) and card.asks


def titled(card: SingleCard) -> str:
    """Return the title of a card. Reminders, last calls and expired requests have a prefix."""
    times = f" ({card.count} times)" if card.count > 1 and not asks(card) else ""
    return f"{PREFIXES.get(card.kind, '')}{card.title}{times}"


def headed(card: RequestCard) -> str:
    """Return who asks for what, without the action itself."""
    return f"{PREFIXES.get(card.kind, '')}{card.wish or card.names}"


def headlined(card: SingleCard, most: int) -> str:
    """Return the question or the fact of a card in one line of at most `most` characters."""
    if not isinstance(card, RequestCard):
        return cut_to(titled(card), most)
    prefix = PREFIXES.get(card.kind, "")
    return f"{prefix}{card.question(most - len(prefix))}"
