"""What a Telegram message says, and the buttons under it.

Formatting is given as entities beside the text, so nothing in the text can be markup. The lines of
an agent are preformatted, in which Telegram makes no links.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from safetyd.notify.chat.plain_text import headline, plain_text
from safetyd.notify.message import Notice, Topic

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
    waits = not ends or any(topic.link for topic in notice.topics)
    title = "\n".join((*ends, headline(notice, TITLE_UNITS, units)) if waits else ends)
    body = plain_text(notice, MAX_UNITS - units(title) - 2, units)
    text = f"{title}\n\n{body}" if body else title
    entities = (Entity("bold", 0, units(title)), *_quoted(body, units(title) + 2))
    return TelegramMessage(text, entities, tuple(_keyboard(notice, body, data)))


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


def _keyboard(notice: Notice, body: str, data: Data) -> Iterator[tuple[Button, ...]]:
    several = notice.single is None
    asked = [(n, topic) for n, topic in enumerate(notice.topics, 1) if topic.link]
    for number, topic in asked[:MAX_ROWS]:
        mark = f" {number}" if several else ""
        yield tuple(_row(notice, topic, body, data, mark))


def _row(notice: Notice, topic: Topic, body: str, data: Data, mark: str) -> Iterator[Button]:
    if topic.kind == "test":
        yield Button("It works", data(TEST, topic.ref))
    elif topic.asks:
        if shows_all(notice, topic, body):
            yield Button(f"Approve{mark}", data(APPROVE, topic.ref))
        yield Button(f"Deny{mark}", data(DENY, topic.ref))
        # Telegram takes no buttons to addresses that only this machine or network has.
        if topic.link.startswith("https://") and not notice.here_only:
            yield Button(f"Review{mark}", url=topic.link)


def shows_all(notice: Notice, topic: Topic, body: str) -> bool:
    """Return True if a message shows everything that an approval of this request covers.

    Without a code, the request is of a type that only a terminal approves.
    """
    if not topic.code or notice.privacy != "full":
        return False
    if topic.beside or topic.left_out or topic.cut:
        return False
    return all(line.strip() in body for line in topic.text.splitlines())
