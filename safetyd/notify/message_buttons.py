"""The buttons of a chat message, and its title. A channel only draws them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from safetyd.cards.note_cards import SingleCard, asks
from safetyd.notify.message import Notice
from safetyd.notify.shortening import clip, in_units

MAX_ROWS: Final = 20
APPROVE, DENY, TEST = "a", "d", "t"  # actions of buttons; the button's data begin with this letter

Data = Callable[[str, str], str]  # makes a button's data from one of the letters and a request


class OfferedButton(NamedTuple):
    label: str
    does: str = ""  # one of the letters; empty if the button opens a URL
    ref: str = ""  # the request
    url: str = ""


def button_rows(notice: Notice, cards: Sequence[SingleCard]) -> Iterator[tuple[OfferedButton, ...]]:
    """Yield a row of buttons for each request, with Approve only if the whole action is shown."""
    asked = [(number, card) for number, card in enumerate(cards, 1) if card.link]
    for number, card in asked[:MAX_ROWS]:
        mark = "" if notice.single else f" ({number})" if card.size > 1 else f" {number}"
        yield tuple(_row(notice, card, mark))


def _row(notice: Notice, card: SingleCard, mark: str) -> Iterator[OfferedButton]:
    if card.kind == "test":
        yield OfferedButton("It works", TEST, card.id)
    elif asks(card):
        all_ = all_of(card)
        if card.code:  # otherwise the card does not show the whole action, or a terminal is needed
            yield OfferedButton(f"Approve{all_}{mark}", APPROVE, card.id)
        yield OfferedButton(f"Deny{all_}{mark}", DENY, card.id)
        if opens_elsewhere(notice, card.link):
            yield OfferedButton(f"Review{mark}", url=card.link)


def all_of(card: SingleCard) -> str:
    """Return the end of the label of a button that answers several requests."""
    return f" all {card.size}" if card.size > 1 else ""


def opens_elsewhere(notice: Notice, link: str) -> bool:
    """Return True if a link opens on other machines too; chat services refuse local URLs."""
    return link.startswith("https://") and not notice.here_only


def titled_with(ends: Sequence[str], notice: Notice, most: int) -> str:
    """Return the title: how ended requests ended, then the subject if anything is still open.

    The subject has at most `most` UTF-16 code units.
    """
    waits = not ends or any(card.link for card in notice.cards)
    return "\n".join((*ends, clip(notice.subject, most, in_units)) if waits else ends)
