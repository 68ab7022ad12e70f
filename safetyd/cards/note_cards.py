"""Cards that need no answer, and the card of several."""

from typing import Final, Literal

import msgspec

from safetyd.cards.request_card import RequestCard
from safetyd.core.events.notification_events import ItemKind, NoteSheet
from safetyd.core.messages.proposal import Urgency

_PREFIXES: Final[dict[ItemKind, str]] = {
    "reminder": "Reminder: ",
    "last_call": "Last call: ",
    "expired": "Expired without an answer: ",
}


class NoteCard(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be read."""

    id: str
    title: str
    text: str = ""
    cut: int = 0  # characters that are left out of the text
    urgency: Urgency
    agent: str = ""
    count: int = 1  # how often it happened
    link: str = ""  # of a test, which shows that links lead back
    code: str = ""
    commands: tuple[str, ...] = ()
    sheet: NoteSheet | None = None  # the daily report in parts, which `text` has in short


class AlertCard(NoteCard, frozen=True, kw_only=True):
    """Something that people should know, or a test message."""

    kind: Literal["alert", "test"] = "alert"


class SummaryCard(NoteCard, frozen=True, kw_only=True):
    """What a session did, or the daily report."""

    kind: Literal["summary"] = "summary"


class DigestCard(msgspec.Struct, frozen=True, kw_only=True):
    """Several cards in one message."""

    cards: tuple[RequestCard | AlertCard | SummaryCard, ...]
    more: int = 0  # others that are not shown
    quiet: bool = False  # of what waited for the end of quiet hours
    list_link: str = ""  # opens the list of all requests


SingleCard = RequestCard | AlertCard | SummaryCard
Card = SingleCard | DigestCard


def asks(card: SingleCard) -> bool:
    """Say whether a card wants an answer."""
    return isinstance(card, RequestCard) and card.asks


def titled(card: SingleCard) -> str:
    """Return the title of a card, and which of several messages about it this is."""
    times = f" ({card.count} times)" if card.count > 1 and not asks(card) else ""
    return f"{_PREFIXES.get(card.kind, '')}{card.title}{times}"
