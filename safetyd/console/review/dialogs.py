"""What opens above the queue: a question before an answer is sent, and pages to read."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import ClassVar, Final

import msgspec
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.validation import Number
from textual.widgets import Checkbox, Input, Static

from safetyd.clock import Clock
from safetyd.console.failure import WrongUsage
from safetyd.console.review.key_line import keys
from safetyd.console.review.type_ahead import Dialog
from safetyd.console.time_input import until
from safetyd.operators.contract.grant_contract import RequestGrantTerms

MAX_WORDS: Final = 2000
MAX_HOURS: Final = 7 * 24
MAX_USES: Final = 1000
OPENING: Final = Content("It is being opened.")

HELP: Final = """\
Requests that wait for a person, the urgent first: urgency, how long an
answer still counts, the agent, and what it wants to do.

  a        approve: once, exactly what is shown
  d        deny; the agent is told your reason
  g        approve, and grant the same for a while
  s        put off; it stays open
  v        view the exact text, the diff and the context on the whole screen
  space    mark; a, d and s then answer all that are marked
  t        what sessions did, the newest first
  c        what approved actions changed, the newest first
  j k      down and up, as the arrows; Page Down and Page Up turn the card
  /        show only requests with some words in them; Esc shows all again
  ?        this page
  q        quit

Behind a bar are the words of an agent, with everything unseen made visible;
behind a plus a line goes on. Of a command, what does not pass is underlined.
Without an answer nothing happens. Whoever answers first decides."""


class GrantChoice(msgspec.Struct, frozen=True):
    """How often the same may be done, and for how many hours."""

    uses: int
    hours: float
    program: bool = False  # whatever an unknown program is given
    session: bool = False  # in the session of the request alone

    def terms(self, now: datetime) -> RequestGrantTerms:
        """Return the terms as they are sent."""
        ends = now + timedelta(hours=self.hours)
        return RequestGrantTerms(
            uses=self.uses, until=ends, program=self.program, session=self.session
        )


PAGE_KEYS: Final = (("j k", "down and up"), ("PgDn PgUp", "turn"), ("Esc", "back"))
ANSWER_KEYS: Final = (("Enter", "send it"), ("Esc", "back"))
GRANT_KEYS: Final = (("Enter", "send it"), ("Tab", "next box"), ("Esc", "back"))
TICK_KEYS: Final = (*GRANT_KEYS, ("Space", "tick"))
NOTICE_KEYS: Final = (("v", "view it"), ("Esc", "back"))
COLUMNS: Final = 60  # of the keys of a dialog
MAX_COLUMNS: Final = 110
MARGIN: Final = 6  # columns that its frame, its padding and a scroll bar take


class WordsDialog(Dialog[str | None]):
    """Shows what would be answered and asks for words; gives None if the person turns back.

    `wrong` says what is wrong with words that cannot be sent, and nothing of others.
    """

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)", "back")]

    def __init__(self, question: str, about: str, hint: str, wrong: Callable[[str], str]) -> None:
        super().__init__()
        self._question = question
        self._about = about
        self._hint = hint
        self._wrong = wrong

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
        if wrong := self._wrong(event.value):
            event.input.border_subtitle = Content(wrong)
        else:
            self.dismiss(event.value)


class TickBox(Checkbox):
    """A box whose tick is seen without colour."""

    BUTTON_LEFT, BUTTON_INNER, BUTTON_RIGHT = "[", " ", "]"

    def watch_value(self) -> None:
        self.BUTTON_INNER = "x" if self.value else " "
        super().watch_value()


class GrantDialog(Dialog[GrantChoice | None]):
    """Asks how far a grant reaches; gives None if the person turns back."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)", "back")]

    def __init__(self, about: str, program: str = "", session: str = "") -> None:
        super().__init__()
        self._about = about
        self._program = program  # that nobody knows, with its verb
        self._session = session  # of the request, if it has one

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static("Approve, and grant the same again?", classes="question")
            with VerticalScroll(can_focus=False):
                yield Static(Content(self._about), classes="lines")
            with Horizontal(classes="boxes"):
                yield from _boxes()
            if self._program:
                yield TickBox(Content(f"whatever {self._program} is given"), id="program")
            if self._session:
                yield TickBox(Content(f"only in session {self._session}"), id="session")
            known = TICK_KEYS if self._program or self._session else GRANT_KEYS
            yield Static(keys(known, COLUMNS), classes="foot")

    def on_mount(self) -> None:
        self.query_one("#uses", Input).focus()

    def on_input_submitted(self) -> None:
        uses, hours = self.query_one("#uses", Input), self.query_one("#hours", Input)
        if uses.is_valid and hours.is_valid:
            ticked = {str(box.id): box.value for box in self.query(TickBox)}
            self.dismiss(GrantChoice(int(uses.value), float(hours.value), **ticked))


class NoticeDialog(Dialog[bool]):
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


class PageDialog(Dialog[None]):
    """Something to read on the whole screen; it opens at once, and may be filled later."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,v,t,c,question_mark", "dismiss(None)", "back"),
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

    def on_mount(self) -> None:
        self.fill(self._text)  # which may have come since it was composed

    def fill(self, text: Content) -> None:
        self._text = text
        for part in self.query(".lines").results(Static):
            part.update(text)

    def action_scroll(self, where: str) -> None:
        page = self.query_one(VerticalScroll)
        page.scroll_relative(y=1 if where == "down" else -1, animate=False)


def _boxes() -> Iterator[Input]:
    uses, hours = Number(minimum=1, maximum=MAX_USES), Number(minimum=0.01, maximum=MAX_HOURS)
    box = Input("5", id="uses", type="integer", validators=[uses])
    yield _labelled(box, "at most how many times?")
    box = Input("8", id="hours", type="number", validators=[hours])
    yield _labelled(box, "for at most how many hours?")


def _labelled(box: Input, label: str) -> Input:
    box.border_title = Content(label)
    return box


def dialog_columns(width: int) -> int:
    """Return how much of a line has room in a dialog on a screen of this width."""
    return min(width * 9 // 10, MAX_COLUMNS) - MARGIN


def no_time(words: str) -> str:
    """Say what is wrong with a time that somebody typed; nothing if it is to come."""
    try:
        until(words, Clock().now().at)
    except WrongUsage as exc:
        return exc.message
    return ""
