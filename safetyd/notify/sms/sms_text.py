"""The text of an SMS: one segment if possible, and never more than two.

Links, codes and commands are never cut, only left out. All text is converted to the SMS alphabet
and then sanitized again, because losing an accent can create a link.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from safetyd.cards.note_cards import SingleCard, asks
from safetyd.cards.request_card import CardField, RequestCard
from safetyd.notify.message import Notice
from safetyd.notify.sanitize import one_line
from safetyd.notify.shortening import versions
from safetyd.notify.sms.gsm import BASIC, EXTENDED, ONE, PART, clip, normalise, septets

MOST: Final = 2 * PART - 1  # one septet is lost if a two-septet character is at the boundary
LINK_MOST: Final = 150
NAME_MOST: Final = 40
WORDS_CHARS: Final = 300


def text_of(notice: Notice, *, replies: bool = True) -> str:
    """Return the text of a message. `replies` is True if recipients can reply to the sender.

    The text has two segments only if that makes an approval possible, or if one is too short.
    """
    link = _link(notice)
    texts = [
        (_text(version, link, replies=replies), version.single)
        for version in versions(notice.changed(_spelt), MOST)
    ]
    for most, approved in ((ONE, True), (MOST, True), (ONE, False)):
        for text, card in texts:
            may = isinstance(card, RequestCard) and bool(card.code) and card.whole
            if septets(text) <= most and (may or not approved):
                return text
    return _clipped(texts[-1][0], link)


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
    fields = tuple(map(_spelt_field, card.fields))
    spelt = msgspec.structs.replace(
        card,
        type=clip(_words(card.type), NAME_MOST),
        project=clip(_words(card.project), NAME_MOST),
        fields=fields,
        left_out=tuple(map(_words, card.left_out)),
    )
    lost = any(
        field.bound and _lossy(field.text, shown.text)
        for field, shown in zip(card.fields, fields, strict=True)
    )
    if lost:
        spelt = spelt.without("characters not available in SMS")
    return spelt if spelt.type == card.type else spelt.without("the full type name")


def _spelt_field(field: CardField) -> CardField:
    shown = {"title": _words(field.title), "label": _words(field.label)}
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
