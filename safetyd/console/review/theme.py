"""How the screen looks: its layout, the list that keeps its place, and the colours of text."""

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

_STYLES: Final = {"  | +": "green", "  | -": "red"}
CSS: Final = """
#heading, .question { text-style: bold; height: auto; }
#heading, #keys, #said { padding: 0 1; }
#panes { layout: vertical; height: 1fr; }
#queue { height: 35%; border: none; padding: 0; text-wrap: nowrap; text-overflow: ellipsis; }
#queue > .option-list--option-highlighted { text-style: bold reverse; }
#card { height: 1fr; border-top: solid $foreground 50%; padding: 0 1; }
.-wide #panes { layout: horizontal; }
.-wide #queue { width: 50%; height: 100%; }
.-wide #card { width: 1fr; height: 100%; border-top: none; border-left: solid $foreground 50%; }
.lines { text-wrap: nowrap; text-overflow: ellipsis; width: 100%; height: auto; }
VerticalScroll { scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
#said { text-style: bold; height: auto; }
#filter { border: none; height: 1; display: none; }
#filter.open { display: block; }
WordsDialog, GrantDialog { align: center middle; }
.dialog { width: 90%; max-width: 110; height: auto; max-height: 90%; border: solid $foreground; }
.dialog { background: $surface; padding: 0 1; }
.dialog VerticalScroll { height: auto; max-height: 10; }
PageDialog { background: $background; padding: 0 1; }
"""


class RequestList(OptionList):
    """The list of requests, by id. Pages turn the card, since lists are short and cards long."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("pagedown", "app.turn(1)", "card down"),
        ("pageup", "app.turn(-1)", "card up"),
        ("enter", "app.view", "view"),
    ]

    def show(self, lines: Sequence[tuple[str, str]]) -> None:
        """Show these; what is selected stays so, or else what took its place."""
        if [id_ for id_, _ in lines] == [option.id for option in self.options]:
            for (_, text), (index, option) in zip(lines, enumerate(self.options), strict=True):
                if str(option.prompt) != text:
                    self.replace_option_prompt_at_index(index, Content(text))
            return
        before, index = self.highlighted_option, self.highlighted or 0
        self.set_options(Option(Content(text), id_) for id_, text in lines)
        places = {id_: location for location, (id_, _) in enumerate(lines)}
        if places:
            selected = None if before is None or before.id is None else places.get(before.id)
            self.highlighted = min(index, len(places) - 1) if selected is None else selected


def coloured(text: str) -> Content:
    """Return lines with headings in bold and the lines of a diff as usual."""
    return Content("\n").join(Content.styled(row, _style(row)) for row in text.split("\n"))


def _style(row: str) -> str:
    return _STYLES.get(row[:5], "") if row[:1] == " " else "bold"
