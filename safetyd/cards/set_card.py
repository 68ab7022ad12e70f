"""The card of a set: similar requests as one entry.

It shows what the requests have in common once, with a mark where they differ, and lists the
differing parts of each request. So it shows everything that the cards of its requests show.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import Final, NamedTuple, Self

import msgspec

from safetyd.cards.request_card import DEADLINE, TEXT, CardField, RequestCard

DIFFERENCES: Final = "differences"  # the name of the field that lists them
ROW_CHARS: Final = 60  # short differences share a line
# Facts about one request that say nothing about the action.
_OWN: Final = frozenset({"asked", "before", "suggestion", DEADLINE})
_tokens = re.compile(r"[\w./-]+|\s+|.", re.DOTALL).findall
_is_word = re.compile(r"[\w./-]+\Z").match
_has_mark = re.compile(r"\[(?:\.\.|[A-Z])\]").search

Words = tuple[str, ...]  # a differing word of each request
Found = Sequence[CardField | None]  # one field of each request


class SetMember(NamedTuple):
    """One request of a set, and the parts in which it differs."""

    id: str
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        return ", ".join(self.parts)


class SetCard(RequestCard, frozen=True, kw_only=True):
    """Several requests in words. Its id and digest depend on the id and digest of each."""

    members: tuple[SetMember, ...]

    @property
    def title(self) -> str:
        return f"{several(self.size)}{self.type} by {self.agent}{place(self.project)}"

    @property
    def names(self) -> str:
        return f"{several(self.size)}{super().names}"

    @property
    def refs(self) -> tuple[str, ...]:
        return tuple(member.id for member in self.members)

    @property
    def common(self) -> RequestCard:
        """The card without the list of differences, for a page that lists them itself."""
        fields = tuple(field for field in self.fields if field.name != DIFFERENCES)
        return msgspec.structs.replace(self, fields=fields)

    def _without(
        self, names: Sequence[str], *, required: bool, fields: tuple[CardField, ...]
    ) -> Self:
        short = super()._without(names, required=required, fields=fields)
        return msgspec.structs.replace(short, commands=self.commands)


class _Marked(NamedTuple):
    """A field of all requests, split into words. Some columns differ."""

    field: CardField
    columns: tuple[Words, ...]

    @property
    def differing(self) -> list[Words]:
        return [column for column in self.columns if len(set(column)) > 1]

    def with_marks(self, marks: Mapping[Words, str]) -> CardField:
        if not self.differing:
            return self.field
        text = "".join(marks.get(column, column[0]) for column in self.columns)
        return msgspec.structs.replace(self.field, lines=tuple(text.split("\n")), marks=())


def several(count: int) -> str:
    """Return the beginning of the title of several requests."""
    return f"{count:,} requests: " if count > 1 else ""


def place(project: str) -> str:
    return f" in {project}" if project else ""


def set_card(cards: Sequence[RequestCard], ref: str) -> SetCard:
    """Return the card of similar requests. `ref` is the name of the set."""
    names = dict.fromkeys(field.name for card in cards for field in card.fields)
    found = {name: [_find(card, name) for card in cards] for name in names if name not in _OWN}
    marked, marks = _all_marked(found)
    fields = [field.with_marks(marks) for field in marked.values() if field is not None]
    parts = [
        *([f"{_prefix(mark)}{word}" for word in words] for words, mark in marks.items()),
        *(_whole(found[name]) for name, field in marked.items() if field is None),
    ]
    members = tuple(
        SetMember(card.id, tuple(part[number] for part in parts))
        for number, card in enumerate(cards)
    )
    at = 1 if fields and fields[0].name == TEXT else 0
    first = min(cards, key=lambda card: (card.deadline is None, card.deadline, card.id))
    base = {name: getattr(first, name) for name in RequestCard.__struct_fields__}
    given = {
        "id": ref,
        "digest": ref,
        "count": 1,
        "commands": (f"safetyd list --agent {first.agent}{first.option}",),
        "grant": None,
        "fields": (*fields[:at], _listed(members), *fields[at:], *_times(first, cards)),
    }
    return SetCard(**{**base, **given}, members=members)


def _find(card: RequestCard, name: str) -> CardField | None:
    return next((field for field in card.fields if field.name == name), None)


def _all_marked(
    found: Mapping[str, Found],
) -> tuple[dict[str, _Marked | None], dict[Words, str]]:
    """Return the fields with marks, and the mark of each differing column."""
    differing, marked = dict[Words, None](), dict[str, _Marked | None]()
    for name, fields in found.items():
        field = _marked(fields)
        more = differing | dict.fromkeys(field.differing if field else ())
        if len(more) > len(ascii_uppercase):  # too many marks: list this field in full
            field, more = None, differing
        marked[name], differing = field, more
    return marked, _marks(list(differing))


def _marked(found: Found) -> _Marked | None:
    """Return a field whose words differ in some columns; None if it must be listed in full."""
    fields = [field for field in found if field is not None]
    first = fields[0]
    kinds = {(field.title, field.agent, field.bound, field.diff) for field in fields}
    if len(fields) < len(found) or len(kinds) > 1:
        return None
    texts = [field.text for field in fields]
    if len(set(texts)) == 1:
        return _Marked(first, ())
    split = [_tokens(text) for text in texts]
    if any(map(_has_mark, texts)) or len({len(words) for words in split}) > 1:
        return None
    marked = _Marked(first, tuple(zip(*split, strict=True)))
    words = (word for column in marked.differing for word in column)
    return marked if all(map(_is_word, words)) else None


def _marks(differing: Sequence[Words]) -> dict[Words, str]:
    """Return the mark of each differing column. With several, each has a letter."""
    if len(differing) == 1:
        return {differing[0]: "[..]"}
    return {words: f"[{letter}]" for words, letter in zip(differing, ascii_uppercase, strict=False)}


def _prefix(mark: str) -> str:
    return "" if mark == "[..]" else f"{mark[1]}: "


def _whole(found: Found) -> list[str]:
    """Return the whole texts of a field that cannot be shown with marks."""
    title = next(field.title for field in found if field is not None)
    return [f"{title}: {'none' if each is None else _on_one_line(each.text)}" for each in found]


def _on_one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _listed(members: Sequence[SetMember]) -> CardField:
    return CardField(
        name=DIFFERENCES,
        title=f"differences of the {len(members)} requests",
        lines=tuple(_lines(members)),
        agent=True,
        bound=True,
        label="the differences",
    )


def _lines(members: Sequence[SetMember]) -> Iterator[str]:
    """Yield the differences, numbered. Several single words share a line."""
    line = ""
    for number, member in enumerate(members, 1):
        said = f"{number}. {member.text}"
        short = _is_word(member.text) and len(line) + len(said) < ROW_CHARS
        if line and not short:
            yield line
        line = f"{line}   {said}" if line and short else said
    yield line


def _times(first: RequestCard, cards: Sequence[RequestCard]) -> Iterator[CardField]:
    """Yield the first deadline, and when the requests were made."""
    deadline = _find(first, DEADLINE)
    if deadline is not None:
        several = len({card.deadline for card in cards}) > 1
        title = f"first {deadline.title}" if several else deadline.title
        yield msgspec.structs.replace(deadline, title=title)
    asked = [field.text for card in cards if (field := _find(card, "asked")) is not None]
    if asked:
        words = asked[0] if len(set(asked)) == 1 else f"{asked[0]} to {asked[-1]}"
        yield CardField(name="asked", title="requested", lines=(words,))
