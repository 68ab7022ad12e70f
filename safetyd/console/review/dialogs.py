"""What opens above the queue: a question before an answer is sent, and pages to read."""

from typing import ClassVar, Final

import msgspec
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.validation import Number
from textual.widgets import Checkbox, Input, Static

from safetyd.console.review.theme import keys

MAX_WORDS: Final = 2000
MAX_HOURS: Final = 7 * 24
MAX_USES: Final = 1000
OPENING: Final = Content("It is being opened.")

HELP: Final = """\
Requests that wait for a person, the urgent first: urgency, how long an
answer still counts, the agent, and what it wants to do.

  a        approve: once, exactly what is shown
  d        deny; the agent is told your reason
  v        view the exact text, the diff and the context on the whole screen
  space    mark; a and d then answer all that are marked
  g        approve, and grant the same for a while, if it is offered
  t        what sessions did, the newest first
  j k      down and up, as the arrows; Page Down and Page Up turn the card
  /        show only requests with some words in them; Esc shows all again
  ?        this page
  q        quit

Behind a bar are the words of an agent, with everything unseen made visible;
behind a plus a line goes on. Without an answer nothing happens. Whoever
answers first decides."""


class GrantChoice(msgspec.Struct, frozen=True):
    """How often the same may be done, and for how many hours."""

    uses: int
    hours: float
    program: bool = False  # whatever an unknown program is given


PAGE_KEYS: Final = (("j k", "down and up"), ("Esc", "back"))
ANSWER_KEYS: Final = (("Enter", "send it"), ("Esc", "back"))
GRANT_KEYS: Final = (("Enter", "send it"), ("Tab", "next box"), ("Esc", "back"))
NOTICE_KEYS: Final = (("v", "view it"), ("Esc", "back"))
COLUMNS: Final = 60  # of the keys of a dialog


class WordsDialog(ModalScreen[str | None]):
    """Shows what would be answered and asks for words; gives None if the person turns back."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)", "back")]

    def __init__(self, question: str, about: str, hint: str) -> None:
        super().__init__()
        self._question = question
        self._about = about
        self._hint = hint

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._question), classes="question")
            with VerticalScroll(can_focus=False):
                yield Static(Content(self._about), classes="lines")
            yield _labelled(Input(max_length=MAX_WORDS), self._hint)
            yield Static(keys(ANSWER_KEYS, COLUMNS), classes="foot")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


class GrantDialog(ModalScreen[GrantChoice | None]):
    """Asks how far a grant reaches; gives None if the person turns back."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)", "back")]

    def __init__(self, about: str, program: str = "") -> None:
        super().__init__()
        self._about = about
        self._program = program  # that nobody knows, with its verb

    def compose(self) -> ComposeResult:
        uses, hours = Number(minimum=1, maximum=MAX_USES), Number(minimum=0.01, maximum=MAX_HOURS)
        with Vertical(classes="dialog"):
            yield Static("Approve, and grant the same again?", classes="question")
            with VerticalScroll(can_focus=False):
                yield Static(Content(self._about), classes="lines")
            box = Input("5", id="uses", type="integer", validators=[uses])
            yield _labelled(box, "at most how many times?")
            box = Input("8", id="hours", type="number", validators=[hours])
            yield _labelled(box, "for at most how many hours?")
            if self._program:
                yield Checkbox(Content(f"whatever {self._program} is given"), id="program")
            yield Static(keys(GRANT_KEYS, COLUMNS), classes="foot")

    def on_mount(self) -> None:
        self.query_one("#uses", Input).focus()

    def on_input_submitted(self) -> None:
        uses, hours = self.query_one("#uses", Input), self.query_one("#hours", Input)
        if uses.is_valid and hours.is_valid:
            program = bool(self._program) and self.query_one("#program", Checkbox).value
            self.dismiss(GrantChoice(int(uses.value), float(hours.value), program))


class NoticeDialog(ModalScreen[bool]):
    """Says why nothing was asked; gives True if the person wants to see more.

    It stands where a dialog was expected, so that what is typed ahead reaches nothing else.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,enter", "dismiss(False)", "back"),
        ("v", "dismiss(True)", "view"),
    ]

    def __init__(self, said: str) -> None:
        super().__init__()
        self._said = said

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Content(self._said), classes="question")
            yield Static(keys(NOTICE_KEYS, COLUMNS), classes="foot")


class PageDialog(ModalScreen[None]):
    """Something to read on the whole screen; it opens at once, and may be filled later."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,v,t,question_mark", "dismiss(None)", "back"),
        ("j", "scroll('down')", "down"),
        ("k", "scroll('up')", "up"),
    ]

    def __init__(self, title: str, text: Content = OPENING) -> None:
        super().__init__()
        self._heading = title
        self._text = text

    def compose(self) -> ComposeResult:
        yield Static(Content(self._heading), classes="question")
        with VerticalScroll():
            yield Static(self._text, classes="lines")
        yield Static(keys(PAGE_KEYS, COLUMNS), classes="foot")

    def fill(self, text: Content) -> None:
        self._text = text
        for part in self.query(".lines").results(Static):
            part.update(text)

    def action_scroll(self, where: str) -> None:
        page = self.query_one(VerticalScroll)
        page.scroll_relative(y=1 if where == "down" else -1, animate=False)


def _labelled(box: Input, label: str) -> Input:
    box.border_title = Content(label)
    return box
