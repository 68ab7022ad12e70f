"""The text of a Telegram message, and its buttons.

Formatting is sent as entities, separate from the text, so nothing in the text can be markup. An
agent's lines are preformatted, because Telegram makes no links in preformatted text.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from safetyd.cards.note_cards import SingleCard, asks
from safetyd.notify.message import Notice
from safetyd.notify.shortening import clip, fitted

MAX_UNITS: Final = 4096  # UTF-16 code units
TITLE_UNITS: Final = 200
MAX_ROWS: Final = 20
APPROVE, DENY, TEST = "a", "d", "t"  # actions of buttons; the button's data begin with this letter

Data = Callable[[str, str], str]  # makes a button's data from one of the letters and a request


class Button(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str
    callback_data: str = ""
    url: str = ""


class Entity(msgspec.Struct, frozen=True):
    type: str
    offset: int  # in UTF-16 code units, like `length`
    length: int


class TelegramMessage(msgspec.Struct, frozen=True):
    text: str
    entities: tuple[Entity, ...]
    keyboard: tuple[tuple[Button, ...], ...] = ()

    @property
    def fields(self) -> dict[str, object]:
        """The parameters for the methods that send and edit."""
        return {
            "text": self.text,
            "entities": self.entities,
            "link_preview_options": {"is_disabled": True},
            "reply_markup": {"inline_keyboard": self.keyboard},
        }


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def written(notice: Notice, data: Data, ends: Sequence[str] = ()) -> TelegramMessage:
    """Return the Telegram message. `ends` are the outcomes of its requests that have ended."""
    waits = not ends or any(card.link for card in notice.cards)
    title = "\n".join((*ends, clip(notice.subject, TITLE_UNITS, units)) if waits else ends)
    body, cards = fitted(notice, "chat.txt", MAX_UNITS - units(title) - 2, units)
    text = f"{title}\n\n{body}" if body else title
    entities = (Entity("bold", 0, units(title)), *_quoted(body, units(title) + 2))
    return TelegramMessage(text, entities, tuple(_keyboard(notice, cards, data)))


def _quoted(body: str, at: int) -> Iterator[Entity]:
    """Yield an entity for each run of an agent's lines, in a body that starts at `at`."""
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
    """Yield a row of buttons for each request, with Approve only if the whole action is shown."""
    asked = [(number, card) for number, card in enumerate(cards, 1) if card.link]
    for number, card in asked[:MAX_ROWS]:
        mark = "" if notice.single else f" {number}"
        yield tuple(_row(notice, card, data, mark))


def _row(notice: Notice, card: SingleCard, data: Data, mark: str) -> Iterator[Button]:
    if card.kind == "test":
        yield Button("It works", data(TEST, card.id))
    elif asks(card):
        if card.code:  # otherwise the card does not show the whole action, or a terminal is needed
            yield Button(f"Approve{mark}", data(APPROVE, card.id))
        yield Button(f"Deny{mark}", data(DENY, card.id))
        # Telegram rejects buttons with local URLs.
        if card.link.startswith("https://") and not notice.here_only:
            yield Button(f"Review{mark}", url=card.link)
