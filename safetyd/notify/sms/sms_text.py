"""The text of an SMS: two segments at most.

Links, codes and commands are never cut, only left out. All text is converted to the SMS alphabet
and then sanitized again, because losing an accent can create a link.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from safetyd.cards.note_cards import SingleCard, asks
from safetyd.cards.request_card import DEADLINE, CardField, RequestCard
from safetyd.notify.message import Notice
from safetyd.notify.sanitize import one_line
from safetyd.notify.shortening import deadline_second, versions, with_gist, with_short_names
from safetyd.notify.sms.gsm import BASIC, EXTENDED, ONE, PART, clip, normalise, septets

MOST: Final = 2 * PART - 1  # one septet is lost if a two-septet character is at the boundary
LINK_MOST: Final = 150
NAME_MOST: Final = 24
WORDS_CHARS: Final = 300


def text_of(notice: Notice, *, replies: bool = True) -> str:
    """Return the text of a message. `replies` is True if recipients can reply to the sender.

    The longest version that fits into two segments is chosen, or a shorter one with an approval.
    """
    link = _link(notice)
    texts = [
        (_text(version, link, replies=replies), version.single)
        for version in versions(notice.changed(_spelt), MOST)
    ]
    for most, fits in (
        (ONE, _approves),
        (MOST, _approves),
        (MOST, _has_deadline),
        (MOST, lambda _: True),
    ):
        for text, card in texts:
            if septets(text) <= most and fits(card):
                return text
    return _clipped(texts[-1][0], link)


def _approves(card: SingleCard | None) -> bool:
    return isinstance(card, RequestCard) and bool(card.code) and card.whole


def _has_deadline(card: SingleCard | None) -> bool:
    return isinstance(card, RequestCard) and bool(card.find(DEADLINE))


def _text(notice: Notice, link: str, *, replies: bool) -> str:
    made = notice.rendered("sms.txt", link=link, replies=replies)
    return normalise(" ".join(made.split()))


def _clipped(text: str, link: str) -> str:
    """Cut a text to two segments, but not its link."""
    if septets(text) <= MOST or not link or link not in text:
        return clip(text, MOST)
    words, end = text.split(link, 1)
    return f"{clip(words.rstrip(), MOST - septets(f' {link}{end}'))} {link}{end}"


def _spelt(card: SingleCard) -> SingleCard:
    """Return a card with its text in the SMS alphabet."""
    if not isinstance(card, RequestCard):
        words = {"title": _words(card.title), "text": _words(card.text)}
        return msgspec.structs.replace(card, **words)
    card = with_gist(card)
    fields = tuple(map(_spelt_field, deadline_second(card.fields)))
    spelt = msgspec.structs.replace(
        card,
        wish=_words(card.wish),
        fields=fields,
        left_out=tuple(map(_words, card.left_out)),
    )
    shown = {field.name: field.text for field in fields}
    if any(field.bound and _lossy(field.text, shown[field.name]) for field in card.fields):
        spelt = spelt.without("characters not available in SMS")
    return with_short_names(spelt, clip(card.agent, NAME_MOST), clip(_words(card.type), NAME_MOST))


def _spelt_field(field: CardField) -> CardField:
    shown = {name: _words(getattr(field, name)) for name in ("title", "label", "brief")}
    lines = (normalise(one_line(normalise(field.text), len(field.text) * 2 + 1)),)
    return msgspec.structs.replace(field, lines=lines, **shown)


def _lossy(text: str, shown: str) -> bool:
    return " ".join(text.split()) != shown


def _words(text: str) -> str:
    return normalise(one_line(normalise(text), WORDS_CHARS))


def _link(notice: Notice) -> str:
    """Return the link for a phone, if it works there and fits into an SMS."""
    if notice.here_only:
        return ""
    found = next(filter(None, _links(notice)), "")
    fits = septets(found) <= LINK_MOST and (BASIC | EXTENDED).issuperset(found)
    return found if fits else ""


def _links(notice: Notice) -> Iterator[str]:
    yield notice.list_link
    asked = [card for card in notice.cards if asks(card)] or list(notice.cards)
    if len(asked) == 1 and not notice.more:
        yield asked[0].link
