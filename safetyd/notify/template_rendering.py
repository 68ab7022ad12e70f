"""Render templates: shipped ones, and an operator's replacements in jinja's sandbox."""

import re
from collections.abc import Callable, Iterable, Iterator
from html import unescape
from pathlib import Path
from textwrap import fill, wrap
from typing import Final

from jinja2 import ChoiceLoader, FileSystemLoader, StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from safetyd.cards.note_cards import NoteCard, headed, titled
from safetyd.cards.request_card import CardField, ColouredLine, RequestCard
from safetyd.clock import uptime
from safetyd.core.text.diff_lines import holds_diff
from safetyd.html_templates import ESCAPES, coded, environment, seen

WIDTH: Final = 72
MAX_SHORT: Final = 24  # characters by which a row may be shorter, so that no word is broken
LABEL: Final = 14
MAX_CHARS: Final = 1_000_000
MAX_S: Final = 0.5

_tags = re.compile(r"<[^<>]+>").sub
_marks = re.compile(r"[\s|+>]+").sub


class TemplateFailed(Exception):
    """An operator's template is too slow or too long, or shows a code without the action."""


def bars(lines: Iterable[str], indent: str = "") -> str:
    """Prefix an agent's lines with a bar, and continuations of long lines with a plus."""
    return "\n".join(f"{indent}{row}" for line in lines for row in _barred(line))


def _barred(line: str) -> Iterator[str]:
    """Break a line after a space if there is one near the end; the space stays in its row."""
    mark = "  | "
    while len(line) > WIDTH:
        end = line.rfind(" ", WIDTH - MAX_SHORT, WIDTH) + 1 or WIDTH
        yield f"{mark}{line[:end]}".rstrip()
        mark, line = "  + ", line[end:]
    yield f"{mark}{line}".rstrip()


def quoted(lines: Iterable[str]) -> str:
    """Prefix an agent's lines with `>`, so that they cannot imitate safetyd's own lines."""
    return "\n".join(f"> {line}".rstrip() for line in lines)


def fact(field: CardField, indent: str = "") -> str:
    """Return the title of a field and its lines."""
    return "\n".join(
        fill(
            line,
            WIDTH,
            initial_indent=f"{indent}{capital(field.title):<{LABEL - 1}} ",
            subsequent_indent=" " * (len(indent) + LABEL),
            break_on_hyphens=False,
            break_long_words=False,
        )
        for line in field.lines
    )


def wrapped(words: str, indent: str = "") -> str:
    """Wrap safetyd's own text; break lines between words only."""
    return "\n".join(
        row
        for line in words.split("\n")
        for row in wrap(
            line,
            WIDTH,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        or [""]
    )


def capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def some(names: Iterable[str], most: int) -> str:
    """Return as many names as fit, and the number of the other names."""
    given, shown = list(names), list[str]()
    for name in given:
        if shown and len(", ".join((*shown, name))) > most:
            break
        shown.append(name)
    more = len(given) - len(shown)
    return f"{', '.join(shown)}{f' and {more} more' if more else ''}"


def lined(card: NoteCard) -> list[ColouredLine]:
    """Return the lines of a note, coloured if they are a diff."""
    lines = tuple(card.text.split("\n"))
    field = CardField(name="note", title="", lines=lines, diff=holds_diff(card.text))
    return list(field.coloured)


_FILTERS: Final[dict[str, Callable[..., object]]] = {
    "bars": bars,
    "quoted": quoted,
    "fact": fact,
    "wrapped": wrapped,
    "capital": capital,
    "some": some,
    "titled": titled,
    "headed": headed,
    "lined": lined,
}
_SHIPPED: Final = environment("safetyd.notify", "", **_FILTERS)
_PARTS: Final = frozenset({"dark.css", "looks.html", "parts.html", "sheet.html"})
NAMES: Final = tuple(name for name in _SHIPPED.list_templates() if name not in _PARTS)


class ReplacedTemplates(SandboxedEnvironment):
    """Renders an operator's templates, with limits on time and length."""

    def __init__(self, directory: Path) -> None:
        loaders = (FileSystemLoader(directory), _SHIPPED.loader)
        super().__init__(
            loader=ChoiceLoader([loader for loader in loaders if loader is not None]),
            autoescape=ESCAPES,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.filters |= {"seen": seen, "coded": coded, **_FILTERS}
        self.globals["range"] = self._range
        self._ends = 0.0

    def made(self, name: str, values: dict[str, object]) -> str:
        self._ends = uptime() + MAX_S
        parts, length = list[str](), 0
        for part in self.get_template(name).generate(**values):
            length += len(part)
            if length > MAX_CHARS:
                raise TemplateFailed(f"its text has more than {MAX_CHARS:,} characters")
            self._check()
            parts.append(part)
        text = "".join(parts)
        _check_code(text, values)
        return text

    def getattr(self, obj: object, attribute: str) -> object:
        self._check()
        return super().getattr(obj, attribute)

    def _range(self, *numbers: int) -> Iterator[int]:
        for number in range(*numbers):
            self._check()
            yield number

    def _check(self) -> None:
        if uptime() > self._ends:
            raise TemplateFailed(f"it takes longer than {MAX_S} s")


def shipped(name: str) -> str:
    """Return the source of a shipped template."""
    loader = _SHIPPED.loader
    return loader.get_source(_SHIPPED, name)[0] if loader is not None else ""


def rendered_as_shipped(name: str, values: dict[str, object]) -> str:
    return _SHIPPED.get_template(name).render(**values)


def _check_code(text: str, values: dict[str, object]) -> None:
    """Raise `TemplateFailed` if a text has an approval code but does not show the whole action."""
    cards = getattr(values.get("message"), "cards", ())
    shown = _bare(unescape(_tags("", text)))
    for card in cards:
        if isinstance(card, RequestCard) and card.code and card.code in text:
            for field in card.fields:
                if field.bound and any(_bare(line) not in shown for line in field.lines):
                    why = f"it shows the approval code without the field: {field.title}"
                    raise TemplateFailed(why)


def _bare(text: str) -> str:
    """Return a text without whitespace and the marks that templates put before lines."""
    return _marks("", text)


def why(exc: Exception) -> str:
    line = getattr(exc, "lineno", None) if isinstance(exc, TemplateError) else None
    return f"{f'line {line}: ' if line else ''}{exc}"[:300] or type(exc).__name__
