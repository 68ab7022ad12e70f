"""The text of a Telegram message, and its buttons.

Formatting is sent as entities, separate from the text, so nothing in the text can be markup. An
agent's lines are preformatted, because Telegram makes no links in preformatted text.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from safetyd.cards.note_cards import SingleCard
from safetyd.notify.message import Notice
from safetyd.notify.message_buttons import Data, button_rows, titled_with
from safetyd.notify.shortening import fitted, in_units

MAX_UNITS: Final = 4096  # UTF-16 code units
TITLE_UNITS: Final = 200


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


def written(notice: Notice, data: Data, ends: Sequence[str] = ()) -> TelegramMessage:
    """Return the Telegram message. `ends` are the outcomes of its requests that have ended."""
    title = titled_with(ends, notice, TITLE_UNITS)
    body, cards = fitted(notice, "chat.txt", MAX_UNITS - in_units(title) - 2, in_units)
    text = f"{title}\n\n{body}" if body else title
    entities = (Entity("bold", 0, in_units(title)), *_quoted(body, in_units(title) + 2))
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
        at += in_units(line) + 1


def _keyboard(
    notice: Notice, cards: Sequence[SingleCard], data: Data
) -> Iterator[tuple[Button, ...]]:
    for row in button_rows(notice, cards):
        yield tuple(
            Button(each.label, url=each.url)
            if each.url
            else Button(each.label, data(each.does, each.ref))
            for each in row
        )
