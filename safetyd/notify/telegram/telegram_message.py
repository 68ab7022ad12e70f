"""What a Telegram message says, and the buttons under it.

Formatting is given as entities beside the text, so nothing in the text can be markup. The lines of
an agent are preformatted, in which Telegram makes no links.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from safetyd.cards.note_cards import SingleCard, asks
from safetyd.notify.message import Notice
from safetyd.notify.shortening import clip, fitted

MAX_UNITS: Final = 4096  # of UTF-16
TITLE_UNITS: Final = 200
MAX_ROWS: Final = 20
APPROVE, DENY, TEST = "a", "d", "t"  # what a button does: the first letter of its data

Data = Callable[[str, str], str]  # what a button carries: of one of the letters, and a request


class Button(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str
    callback_data: str = ""
    url: str = ""


class Entity(msgspec.Struct, frozen=True):
    type: str
    offset: int  # in units of UTF-16, as `length`
    length: int


class TelegramMessage(msgspec.Struct, frozen=True):
    text: str
    entities: tuple[Entity, ...]
    keyboard: tuple[tuple[Button, ...], ...] = ()

    @property
    def fields(self) -> dict[str, object]:
        """What the methods that send and edit take."""
        return {
            "text": self.text,
            "entities": self.entities,
            "link_preview_options": {"is_disabled": True},
            "reply_markup": {"inline_keyboard": self.keyboard},
        }


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def written(notice: Notice, data: Data, ends: Sequence[str] = ()) -> TelegramMessage:
    """Return a message; `ends` says what became of requests in it that are over."""
    waits = not ends or any(card.link for card in notice.cards)
    title = "\n".join((*ends, clip(notice.subject, TITLE_UNITS, units)) if waits else ends)
    body, cards = fitted(notice, "chat.txt", MAX_UNITS - units(title) - 2, units)
    text = f"{title}\n\n{body}" if body else title
    entities = (Entity("bold", 0, units(title)), *_quoted(body, units(title) + 2))
    return TelegramMessage(text, entities, tuple(_keyboard(notice, cards, data)))


def _quoted(body: str, at: int) -> Iterator[Entity]:
    """Yield each run of lines that are an agent's own, in a body that begins at a place."""
    begin = -1
    for line in [*body.split("\n"), ""]:
        if line.startswith(">"):
            begin = at if begin < 0 else begin
        elif begin >= 0:
            yield Entity("pre", begin, at - 1 - begin)
            begin = -1
        at += units(line) + 1


def _keyboard(
    notice: Notice, cards: Sequence[SingleCard], data: Data
) -> Iterator[tuple[Button, ...]]:
    """Yield a row of buttons for each request; what is not shown whole cannot be approved."""
    asked = [(number, card) for number, card in enumerate(cards, 1) if card.link]
    for number, card in asked[:MAX_ROWS]:
        mark = "" if notice.single else f" {number}"
        yield tuple(_row(notice, card, data, mark))


def _row(notice: Notice, card: SingleCard, data: Data, mark: str) -> Iterator[Button]:
    if card.kind == "test":
        yield Button("It works", data(TEST, card.id))
    elif asks(card):
        if card.code:  # without one, it is not shown whole or takes a terminal
            yield Button(f"Approve{mark}", data(APPROVE, card.id))
        yield Button(f"Deny{mark}", data(DENY, card.id))
        # Telegram takes no buttons to addresses that only this machine or network has.
        if card.link.startswith("https://") and not notice.here_only:
            yield Button(f"Review{mark}", url=card.link)
