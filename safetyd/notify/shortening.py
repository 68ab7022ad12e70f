"""Shorten messages to fit a channel, by dropping whole fields from the end of a card.

If even the first fields are too long, the exact text is cut in the middle. A digest first shows
less of each card, and then fewer cards.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from safetyd.cards.digest_lines import MAX_LINES, line_of, merged
from safetyd.cards.note_cards import AlertCard, DigestCard, SingleCard, SummaryCard
from safetyd.cards.request_card import DEADLINE, CardField, RequestCard, cut_middle
from safetyd.notify.message import Notice

CUT: Final = "…"
TEXTS: Final = (
    4000,
    2000,
    1000,
    500,
    160,
    60,
    30,
)  # lengths of the exact text to try, in characters
ENTRIES: Final = (900, 500, 250, 120, 60)  # lengths of each card in a digest to try
DIGEST_LINES: Final = 78  # lines of the text of a digest, without a title
NUMBERS_OF_LINES: Final = (MAX_LINES, 6, 1)  # to try, for the entries without a card

ROW_CHARS: Final = 60  # characters of a field in a row of a mail

GIST_CHARS: Final = 60  # a target or paths that are longer are shown in a few words on a phone

Size = Callable[[str], int]


def in_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def in_units(text: str) -> int:
    """Return the number of UTF-16 code units, in which chat services count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def fitted(
    notice: Notice, template: str, most: int, size: Size = len
) -> tuple[str, tuple[SingleCard, ...]]:
    """Return the longest text of a template whose size is at most `most`, and the cards in it."""
    if notice.quiet:
        notice = of_lines(notice, lambda version: version.rendered(template).strip())
    text, cards = "", notice.cards
    for version in versions(notice, most):
        text, cards = version.rendered(template).strip(), version.cards
        if size(text) <= most:
            return text, cards
    ended = (c.without("the rest") if isinstance(c, RequestCard) else c for c in cards)
    return clip(text, most, size), tuple(ended)


def clip(text: str, most: int, size: Size = len) -> str:
    """Return a text, or its beginning with a mark where it is cut."""
    if size(text) <= most:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(text[:middle] + CUT) <= most else (low, middle - 1)
    return text[:low] + CUT if size(CUT) <= most else ""


def versions(notice: Notice, most: int) -> Iterator[Notice]:
    """Yield shorter and shorter versions of a message; skip most that exceed `most` characters."""
    single = notice.single
    if isinstance(single, RequestCard):
        cards: Iterator[SingleCard | DigestCard] = _requests(single, most)
    elif single is not None:
        cards = iter([_short_note(single, chars) for chars in (len(single.text), *TEXTS, 0)])
    else:
        cards = _digests(notice)
    return (msgspec.structs.replace(notice, card=card) for card in cards)


def _requests(card: RequestCard, most: int) -> Iterator[RequestCard]:
    """Yield shorter and shorter cards: first with fewer fields, then with a shorter text."""
    total = len(card.fields)
    required = max((at + 1 for at, field in enumerate(card.fields) if field.required), default=0)
    for count in range(total, 0, -1):
        if count in {1, required} or _length(card, count) <= most:
            yield card.first(count)
    for chars in TEXTS:
        short = card.with_text(chars)
        if short.left_out != card.left_out:
            for count in range(total, 0, -1):
                if _length(short, count) <= most:
                    yield short.first(count)
    yield card.with_text(TEXTS[-1]).first(1)


def _length(card: RequestCard, count: int) -> int:
    return sum(len(field.text) for field in card.fields[:count])


def _digests(notice: Notice) -> Iterator[DigestCard]:
    digest = notice.card
    if isinstance(digest, DigestCard):
        for chars in ENTRIES:
            cards = tuple(entry(card, chars) for card in digest.cards)
            yield msgspec.structs.replace(digest, cards=cards)
        for shown in range(len(digest.cards) - 1, -1, -1):
            for most in NUMBERS_OF_LINES:
                fewer = _with_lines(digest, range(shown), most)
                cards = tuple(entry(card, ENTRIES[-1]) for card in fewer.cards)
                yield msgspec.structs.replace(fewer, cards=cards)


def _with_lines(digest: DigestCard, kept: Collection[int], most: int = MAX_LINES) -> DigestCard:
    """Return a digest with these of its cards, and a line for each other entry."""
    cards = tuple(card for at, card in enumerate(digest.cards) if at in kept)
    rest = [line_of(card) for at, card in enumerate(digest.cards) if at not in kept]
    lines = merged([*rest, *digest.lines], digest.list_link, most)
    return msgspec.structs.replace(digest, cards=cards, lines=lines)


def of_lines(notice: Notice, render: Callable[[Notice], str]) -> Notice:
    """Return a digest whose text has at most `DIGEST_LINES` lines, if that is possible.

    Requests that have no room get a line each. Alerts and summaries are only shortened.
    """

    def fits(version: Notice) -> bool:
        return render(version).count("\n") < DIGEST_LINES

    digest = notice.card
    if not isinstance(digest, DigestCard) or fits(notice):
        return notice
    asked = [at for at, card in enumerate(digest.cards) if isinstance(card, RequestCard)]
    notes = set(range(len(digest.cards))) - set(asked)
    bare = _with_lines(digest, notes)
    version = msgspec.structs.replace(notice, card=bare)
    for chars in ENTRIES:
        if fits(version):
            break
        version = version.changed(partial(entry, chars=chars))
    room = DIGEST_LINES - render(version).count("\n")
    kept = list[int]()
    for at in asked:
        if (needed := _height(digest.cards[at])) <= room:
            kept.append(at)
            room -= needed
    while kept:
        # If lines had to be joined, join them again, so that cards have room.
        card = _with_lines(digest, {*notes, *kept}, max(1, len(bare.lines)))
        longer = msgspec.structs.replace(notice, card=card)
        if fits(longer):
            return longer
        kept.pop()
    return version


def _height(card: SingleCard) -> int:
    """Estimate the lines of a card in a mail, without those that it has in any case."""
    fields = card.fields if isinstance(card, RequestCard) else ()
    lines = [line for field in fields for line in field.lines]
    titles = sum(field.agent or len(field.lines) > 1 for field in fields)
    return titles + sum(len(line) // ROW_CHARS + 1 for line in lines) + len(card.commands) + 2


def entry(card: SingleCard, chars: int) -> SingleCard:
    """Return a card for a digest, cut to about `chars` characters; a report is not cut."""
    if not isinstance(card, RequestCard):
        return card if card.kind == "summary" and card.sheet else _short_note(card, chars)
    short, count, used = card.with_text(chars // 3), 0, 0
    for field in short.fields:
        used += len(field.title) + len(field.text)
        if used > chars and count:
            break
        count += 1
    return short.first(count)


def _short_note(card: AlertCard | SummaryCard, chars: int) -> SingleCard:
    shown, cut = cut_middle(card.text, chars)
    return msgspec.structs.replace(card, text=shown if chars else "", cut=card.cut + cut)


def with_short_names(card: RequestCard, agent: str, type_: str) -> RequestCard:
    """Return a card with shortened names. If one of them is cut, it offers no approval."""
    short = msgspec.structs.replace(card, agent=agent, type=type_)
    return short if short.names == card.names else short.without("the full names")


def deadline_second(fields: Sequence[CardField]) -> Iterator[CardField]:
    """Yield the deadline after the first field, because the last fields are left out first."""
    yield from fields[:1]
    yield from sorted(fields[1:], key=lambda field: field.name != DEADLINE)


def with_gist(card: RequestCard) -> RequestCard:
    """Return a card that shows a long target, or many paths, in a few words."""
    first = next(iter(card.fields), None)
    if first is None or not first.gist or len(first.text) <= GIST_CHARS:
        return card
    gist = first.gist.replace('"', "")
    return card.with_field(0, gist, max(len(first.text) - len(gist), 1))
