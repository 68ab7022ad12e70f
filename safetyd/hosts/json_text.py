"""Edits JSON in place: settings files that people write, with comments and trailing commas.

Only the edited part changes; comments, order and layout of the rest stay.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

MAX_DEPTH: Final = 100
INDENT: Final = "  "

_SPACE: Final = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR: Final = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


class NotJson(Exception):
    """The text is not JSON; the message names the line."""


class Span(NamedTuple):
    """A value and where it is. Members of objects start at their key."""

    start: int
    end: int
    value: object
    key: str = ""
    key_start: int = -1
    items: tuple["Span", ...] = ()

    @property
    def first(self) -> int:
        return self.start if self.key_start < 0 else self.key_start


def parse(text: str) -> object:
    """Return the value of a text with comments and trailing commas."""
    return scan(text).value


def scan(text: str) -> Span:
    """Return the value of a text, and where each part of it is."""
    found = _Scanner(text)
    span = found.value(found.skip(1 if text.startswith("\ufeff") else 0), 0)
    end = found.skip(span.end)
    if end != len(text):
        raise found.wrong(end)
    return span


def appended(text: str, keys: Sequence[str], value: object) -> str:
    """Return the text with `value` appended to the array at `keys`; create missing objects."""
    *above, last = keys
    inside = scan(text)
    for depth, key in enumerate(above):
        below = _member(inside, key)
        if below is None:
            return _with_member(text, inside, key, _nested([*above[depth + 1 :], last], [value]))
        inside = below
    array = _member(inside, last)
    if array is None:
        return _with_member(text, inside, last, [value])
    if not isinstance(array.value, list):
        raise NotJson(f"{'.'.join(keys)} is not a list")
    return _with(text, array, lambda indent: _written(value, indent))


def with_value(text: str, keys: Sequence[str], value: object) -> str:
    """Return the text with `value` at `keys`, unless there is a value already."""
    inside = scan(text)
    for depth, key in enumerate(keys):
        below = _member(inside, key)
        if below is None:
            return _with_member(text, inside, key, _nested(keys[depth + 1 :], value))
        inside = below
    return text


def without(text: str, keys: Sequence[str], ours: Callable[[object], bool]) -> str:
    """Return the text without the values at `keys` that are ours.

    If the value is an array, this removes elements. Containers that become empty are removed, too.
    """
    spans = [scan(text)]
    for key in keys:
        if (below := _member(spans[-1], key)) is None:
            return text
        spans.append(below)
    target = spans[-1]
    if isinstance(target.value, list):
        for span in reversed(target.items):
            if ours(span.value):
                text = _removed(text, target, span)
                target = _again(text, keys)
        if target.items:
            return text
        spans[-1] = target
    elif not ours(target.value):
        return text
    return _without_empty(text, keys)


def _without_empty(text: str, keys: Sequence[str]) -> str:
    """Remove the member at `keys`, and the objects that contained nothing else."""
    for size in range(len(keys), 0, -1):
        holder, member = _again(text, keys[: size - 1]), _again(text, keys[:size])
        text = _removed(text, holder, member)
        if _again(text, keys[: size - 1]).items:
            break
    return text


def _again(text: str, keys: Sequence[str]) -> Span:
    span = scan(text)
    for key in keys:
        below = _member(span, key)
        if below is None:
            raise NotJson(f"there is no {key}")
        span = below
    return span


def _member(span: Span, key: str) -> Span | None:
    """Return a member of an object. If a key is repeated, its last member counts."""
    if not isinstance(span.value, dict):
        raise NotJson(f"{key} must be in an object, but there is {span.value!r}"[:200])
    return next((item for item in reversed(span.items) if item.key == key), None)


def _nested(keys: Sequence[str], value: object) -> object:
    for key in reversed(keys):
        value = {key: value}
    return value


def _with_member(text: str, holder: Span, key: str, value: object) -> str:
    return _with(text, holder, lambda indent: f"{json.dumps(key)}: {_written(value, indent)}")


def _with(text: str, holder: Span, write: Callable[[str], str]) -> str:
    """Return the text with another item at the end of an array or object."""
    outer = _indent_at(text, holder.first)
    indent, at = outer + INDENT, holder.start + 1
    if holder.items:
        last = holder.items[-1]
        if "\n" in text[holder.start : last.first]:
            indent = _indent_at(text, last.first)
        at, added = last.end, f",\n{indent}{write(indent)}"
    else:
        added = f"\n{indent}{write(indent)}\n{outer}"
    return text[:at] + added.replace("\n", "\r\n" if "\r\n" in text else "\n") + text[at:]


def _removed(text: str, holder: Span, span: Span) -> str:
    """Return the text without an item, and without the comma that separated it."""
    index = holder.items.index(span)
    start, end = span.first, span.end
    if index > 0:
        comma = _comma(text, holder.items[index - 1].end)
        return text[:comma] + text[comma + 1 : _line_before(text, start)] + text[end:]
    if text[_comma(text, end)] == ",":
        end = _comma(text, end) + 1
    start = _line_before(text, start)
    if not (text[holder.start + 1 : start] + text[end : holder.end - 1]).strip():
        start, end = holder.start + 1, holder.end - 1
    return text[:start] + text[end:]


def _comma(text: str, at: int) -> int:
    """Return where the next comma or closing bracket is."""
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _line_before(text: str, at: int) -> int:
    """Return the end of the previous line, if only spaces follow it."""
    before = len(text[:at].rstrip(" \t"))
    if text[:before].endswith("\r\n"):
        return before - 2
    return before - 1 if text[:before].endswith("\n") else before


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _written(value: object, indent: str) -> str:
    return json.dumps(value, indent=INDENT, ensure_ascii=False).replace("\n", f"\n{indent}")


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, at: int, depth: int) -> Span:
        if depth > MAX_DEPTH:
            raise NotJson(f"nested deeper than {MAX_DEPTH} levels")
        text = self._text
        match text[at : at + 1]:
            case "{":
                return self._object(at, depth)
            case "[":
                return self._array(at, depth)
            case '"':
                value, end = self._string(at)
                return Span(at, end, value)
        found = _SCALAR.match(text, at)
        if found is None:
            raise self.wrong(at)
        return Span(at, found.end(), json.loads(found[0]))

    def skip(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return found.end() if found else at

    def wrong(self, at: int) -> NotJson:
        line = self._text.count("\n", 0, at) + 1
        found = self._text[at : at + 20].split("\n")[0] or "end of the file"
        return NotJson(f"line {line}: unexpected {found}")

    def _string(self, at: int) -> tuple[str, int]:
        found = _STRING.match(self._text, at)
        if found is None:
            raise self.wrong(at)
        try:
            return str(json.loads(found[0])), found.end()
        except ValueError:
            raise self.wrong(at) from None

    def _object(self, start: int, depth: int) -> Span:
        items: list[Span] = []
        at = self.skip(start + 1)
        while self._text[at : at + 1] != "}":
            key, end = self._string(at)
            colon = self.skip(end)
            if self._text[colon : colon + 1] != ":":
                raise self.wrong(colon)
            span = self.value(self.skip(colon + 1), depth + 1)
            items.append(span._replace(key=key, key_start=at))
            at = self._next(span.end, "}")
        value = {item.key: item.value for item in items}
        return Span(start, at + 1, value, items=tuple(items))

    def _array(self, start: int, depth: int) -> Span:
        items: list[Span] = []
        at = self.skip(start + 1)
        while self._text[at : at + 1] != "]":
            items.append(self.value(at, depth + 1))
            at = self._next(items[-1].end, "]")
        return Span(start, at + 1, [item.value for item in items], items=tuple(items))

    def _next(self, at: int, closing: str) -> int:
        """Return where the next item or the closing bracket is."""
        at = self.skip(at)
        if self._text[at : at + 1] == ",":
            return self.skip(at + 1)
        if self._text[at : at + 1] != closing:
            raise self.wrong(at)
        return at
