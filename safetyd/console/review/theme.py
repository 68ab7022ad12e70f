"""How the screen looks: its layout, the list that keeps its place, and the colours of text.

Colours are the theme's, light or dark, and only repeat what the words say.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

LIGHT: Final = "textual-light"

_BAD, _DOUBTFUL, _GOOD = "bold $text-error", "$text-warning", "$text-success"
_LEVELS: Final = {"prohibited": _BAD, "high": _BAD, "medium": _DOUBTFUL, "low": _GOOD}
_URGENCIES: Final = {"high": _BAD, "low": "$text-muted"}
_URGENCY_COLUMNS: Final = slice(2, 8)  # of a line of the list
_DIFF: Final = {"+": _GOOD, "-": "$text-error", "@": "$text-primary"}
_find_diff = re.compile(r" {2}\| (?: {2})?([-+@])").match  # on a page, or in a field of the card
_find_level = re.compile(r" {2}(risk|urgency) +(\w+)").match
_find_urgency = re.compile(r"\S+ asks, (\w+) urgency").match
_is_light = re.compile(r".*;(7|15)").fullmatch  # the colour behind the text, as terminals number it

CSS: Final = """
#heading, .question { text-style: bold; height: auto; }
#heading, #said { padding: 0 1; }
#panes { layout: vertical; height: 1fr; }
#queue { height: 35%; border: none; padding: 0; text-wrap: nowrap; text-overflow: ellipsis; }
#queue > .option-list--option-highlighted, #queue:focus > .option-list--option-highlighted {
    color: $foreground; background: $primary 20%; text-style: bold;
}
#card { height: 1fr; border-top: solid $foreground 50%; padding: 0 1; }
.-wide #panes { layout: horizontal; }
.-wide #queue { width: 50%; height: 100%; }
.-wide #card { width: 1fr; height: 100%; border-top: none; border-left: solid $foreground 50%; }
.lines { text-wrap: nowrap; text-overflow: ellipsis; width: 100%; height: auto; }
VerticalScroll { scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
#said { text-style: bold; height: auto; display: none; }
#said.open { display: block; }
#filter { border: none; height: 1; display: none; }
#filter.open { display: block; }
.foot { height: 1; padding: 0 1; background: $panel; text-wrap: nowrap; text-overflow: ellipsis; }
WordsDialog, GrantDialog, NoticeDialog { align: center middle; }
.dialog { width: 90%; max-width: 110; height: auto; max-height: 90%; border: solid $foreground; }
.dialog { background: $surface; padding: 0 1; }
.dialog VerticalScroll { height: auto; max-height: 10; }
.dialog Input { border: round $foreground 50%; background: $surface; }
.dialog Input:focus { border: round $primary; }
.dialog Input.-invalid { border: round $error; }
PageDialog { background: $background; }
PageDialog .question, PageDialog VerticalScroll { padding: 0 1; }
"""


class RequestList(OptionList):
    """The list of requests, by id. Pages turn the card, since lists are short and cards long."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("pagedown", "app.turn(1)", "card down"),
        ("pageup", "app.turn(-1)", "card up"),
        ("enter", "app.view", "view"),
    ]

    def action_cursor_down(self) -> None:
        """Go down, and at the end stay there."""
        if self.highlighted is None or self.highlighted < self.option_count - 1:
            super().action_cursor_down()

    def action_cursor_up(self) -> None:
        """Go up, and at the beginning stay there."""
        if self.highlighted != 0:
            super().action_cursor_up()

    def show(self, lines: Sequence[tuple[str, Content]]) -> None:
        """Show these; what is selected stays so, or else what took its place."""
        if [id_ for id_, _ in lines] == [option.id for option in self.options]:
            for (_, text), (index, option) in zip(lines, enumerate(self.options), strict=True):
                if str(option.prompt) != text.plain:
                    self.replace_option_prompt_at_index(index, text)
            return
        before, index = self.highlighted_option, self.highlighted or 0
        self.set_options(Option(text, id_) for id_, text in lines)
        places = {id_: location for location, (id_, _) in enumerate(lines)}
        if places:
            selected = None if before is None or before.id is None else places.get(before.id)
            self.highlighted = min(index, len(places) - 1) if selected is None else selected


def listed(line: str, urgency: str, *, selected: bool) -> Content:
    """Return a line of the list with its urgency in colour, and a sign before the selected one."""
    sign = ">" if selected else " "
    return _styled(f"{line[:1]}{sign}{line[2:]}", _URGENCIES.get(urgency, ""), _URGENCY_COLUMNS)


def coloured(text: str) -> Content:
    """Return lines with headings in bold, the lines of a diff as usual, and levels by their risk.

    Words of an agent stand behind a bar, so that no level can be made up there.
    """
    return Content("\n").join(map(_row, text.split("\n")))


def keys(pairs: Iterable[tuple[str, str]], columns: int) -> Content:
    """Return the line of keys, the first of them if there is no room for all."""
    shown = [Content.assemble((f"[{key}]", "bold"), f" {does}") for key, does in pairs]
    while len(shown) > 1 and len(Content(" ").join(shown)) > columns:
        shown.pop()
    roomy = Content("  ").join(shown)
    return roomy if len(roomy) <= columns else Content(" ").join(shown)


def fitting_theme(environment: Mapping[str, str], default: str) -> str:
    """Return the light theme if the terminal says that it is light and nobody chose another."""
    light = _is_light(environment.get("COLORFGBG", "")) and "TEXTUAL_THEME" not in environment
    return LIGHT if light else default


def _row(row: str) -> Content:
    if found := _find_diff(row):
        return Content.styled(row, _DIFF[found[1]])
    if found := _find_level(row):
        levels = _URGENCIES if found[1] == "urgency" else _LEVELS
        return _styled(row, levels.get(found[2], ""), slice(*found.span(2)))
    if found := _find_urgency(row):
        content = Content.styled(row, "bold")
        return content.stylize(_URGENCIES.get(found[1], ""), *found.span(1))
    return Content.styled(row, "" if row[:1] == " " else "bold")


def _styled(row: str, style: str, where: slice) -> Content:
    return Content(row).stylize(style, where.start, where.stop)
