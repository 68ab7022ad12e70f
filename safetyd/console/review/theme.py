"""Layout and colours of the review screen, and the list of requests.

Colours come from the theme, light or dark. They add no information to the text.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from safetyd.console.render.terminal_card import CardRow
from safetyd.console.review.type_ahead import at_once

LIGHT: Final = "textual-light"

_BAD, _DOUBTFUL, _GOOD = "bold $text-error", "$text-warning", "$text-success"
_LEVELS: Final = {"prohibited": _BAD, "high": _BAD, "medium": _DOUBTFUL, "low": _GOOD}
_URGENCIES: Final = {"high": _BAD, "low": "$text-muted"}
_URGENCY_COLUMNS: Final = slice(2, 8)  # the columns of a list line that show the urgency
_ROLES: Final = {
    **{f"risk {level}": style for level, style in _LEVELS.items()},
    **{f"urgency {level}": style for level, style in _URGENCIES.items()},
    **dict.fromkeys(("title", "heading", "file"), "bold"),
    "added": _GOOD,
    "removed": "$text-error",
    "hunk": "$text-primary",
    "part": "bold underline $text-warning",
}
_is_light = re.compile(r".*;(7|15)").fullmatch  # the background is ANSI colour 7 or 15

CSS: Final = """
#heading, .question { text-style: bold; height: auto; }
#heading, #said { padding: 0 1; }
#panes { layout: vertical; height: 1fr; }
#queue { height: auto; max-height: 35%; border: none; padding: 0; }
#queue { text-wrap: nowrap; text-overflow: ellipsis; }
#queue > .option-list--option-highlighted, #queue:focus > .option-list--option-highlighted {
    color: $foreground; background: $primary 20%; text-style: bold;
}
#card { height: 1fr; border-top: solid $foreground 50%; padding: 0 1; }
.-wide #panes { layout: horizontal; }
.-wide #queue { width: 45%; height: 100%; max-height: 100%; }
.-wide #card { width: 1fr; height: 100%; border-top: none; border-left: solid $foreground 50%; }
.lines { text-wrap: nowrap; text-overflow: ellipsis; width: 100%; height: auto; }
VerticalScroll { scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
#said { text-style: bold; height: auto; display: none; }
#said.open { display: block; }
#filter { border: none; height: 1; display: none; }
#filter.open { display: block; }
.foot { height: auto; padding: 0 1; background: $panel; }
.foot { text-wrap: nowrap; text-overflow: ellipsis; }
WordsDialog, GrantDialog, NoticeDialog { align: center middle; }
.dialog { width: 90%; max-width: 110; height: auto; max-height: 90%; border: solid $foreground; }
.dialog { background: $surface; padding: 0 1; }
.dialog VerticalScroll { height: auto; max-height: 10; }
.dialog .boxes { height: auto; }
.boxes Input { width: 1fr; }
.dialog Checkbox { border: none; background: $surface; padding: 0 1; }
.dialog Input { border: round $foreground 50%; background: $surface; }
.dialog Input:focus { border: round $primary; }
.dialog Input.-invalid { border: round $error; }
PageDialog { background: $background; }
PageDialog .question, PageDialog VerticalScroll { padding: 0 1; }
"""


class RequestList(OptionList):
    """The list of requests. Page Down and Page Up scroll the card instead."""

    BINDINGS: ClassVar[list[BindingType]] = [
        at_once("down", "cursor_down", "down"),
        at_once("up", "cursor_up", "up"),
        at_once("home", "first", "first"),
        at_once("end", "last", "last"),
        at_once("pagedown", "app.turn(1)", "card down"),
        at_once("pageup", "app.turn(-1)", "card up"),
        at_once("enter", "app.view", "view"),
    ]

    def action_cursor_down(self) -> None:
        """Move down, without wrapping at the end."""
        if self.highlighted is None or self.highlighted < self.option_count - 1:
            super().action_cursor_down()

    def action_cursor_up(self) -> None:
        """Move up, without wrapping at the start."""
        if self.highlighted != 0:
            super().action_cursor_up()

    def show(self, lines: Sequence[tuple[str, Content]]) -> None:
        """Show these lines. Keep the selection; if it is gone, select the line in its place."""
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
    """Return a line of the list with coloured urgency, and with `>` if it is selected."""
    sign = ">" if selected else " "
    return _styled(f"{line[:1]}{sign}{line[2:]}", _URGENCIES.get(urgency, ""), _URGENCY_COLUMNS)


def painted(rows: Iterable[CardRow]) -> Content:
    """Return the rows of a card, each in the colour of its role.

    Important parts are also bold or underlined, for readers who do not see colours.
    """
    return Content("\n").join(map(_painted, rows))


def topped(level: str, why: str, told: str) -> Content:
    """Return the heading: the level as a badge, the reason if there is one, and `told`."""
    style = "bold reverse $text-error" if why else "bold reverse $text-success"
    badge = (f" {level} " if level else "", style)
    if not why:
        return Content.assemble(badge, f" {told}")
    return Content.assemble(badge, f" {why}\n{told}")


def fitting_theme(environment: Mapping[str, str], default: str) -> str:
    """Return the light theme if the terminal is light and no theme is set."""
    light = _is_light(environment.get("COLORFGBG", "")) and "TEXTUAL_THEME" not in environment
    return LIGHT if light else default


def _painted(row: CardRow) -> Content:
    content = Content.styled(row.text, _ROLES.get(row.role, ""))
    for mark in row.marks:
        content = content.stylize(_ROLES.get(mark.role, ""), mark.start, mark.end)
    return content


def _styled(row: str, style: str, where: slice) -> Content:
    return Content(row).stylize(style, where.start, where.stop)
