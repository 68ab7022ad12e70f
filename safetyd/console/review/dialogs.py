"""Dialogs of the review screen: confirmations before an answer is sent, and pages to read."""

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
OPENING: Final = Content("Loading …")

HELP: Final = """\
Pending requests, the most urgent first: urgency, time left to answer,
agent and action.

  a        approve exactly what is shown, once
  d        deny; the agent receives your reason
  g        approve, and grant similar actions for a while
  s        defer; the request stays pending
  v        view the exact text, the diff and the context in full
  space    mark; a, d and s then answer all marked requests
  t        sessions, the newest first
  c        changes by approved actions, the newest first
  j k      down and up; Page Down and Page Up scroll the card
  /        filter by text; Esc shows all again
  ?        this page
  q        quit

Lines with a bar are the agent's own text. A plus continues a long line.
Invisible characters are spelled out. Parts of a command that need approval
are underlined. Without an answer, the action does not run. If several
operators answer, the first answer counts."""


class GrantChoice(msgspec.Struct, frozen=True):
    """The terms of a grant that the operator chose."""

    uses: int
    hours: float
    program: bool = False  # True: the grant covers the unknown program with any arguments
    session: bool = False  # True: the grant covers only the session of the request

    def terms(self, now: datetime) -> RequestGrantTerms:
        """Return the terms in the form of `ApproveCommand`."""
        ends = now + timedelta(hours=self.hours)
        return RequestGrantTerms(
            uses=self.uses, until=ends, program=self.program, session=self.session
        )


PAGE_KEYS: Final = (("j k", "down and up"), ("PgDn PgUp", "scroll"), ("Esc", "back"))
ANSWER_KEYS: Final = (("Enter", "send it"), ("Esc", "back"))
GRANT_KEYS: Final = (("Enter", "send it"), ("Tab", "next box"), ("Esc", "back"))
TICK_KEYS: Final = (*GRANT_KEYS, ("Space", "tick"))
NOTICE_KEYS: Final = (("v", "view it"), ("Esc", "back"))
COLUMNS: Final = 60  # the width of the line of keys in a dialog
MAX_COLUMNS: Final = 110
MARGIN: Final = 6  # columns of frame, padding and scroll bar


class WordsDialog(Dialog[str | None]):
    """Shows the requests to be answered and asks for a message. Returns None on Esc.

    `wrong` returns why the message is invalid, or an empty string.
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
    """A checkbox whose state is visible without colour."""

    BUTTON_LEFT, BUTTON_INNER, BUTTON_RIGHT = "[", " ", "]"

    def watch_value(self) -> None:
        self.BUTTON_INNER = "x" if self.value else " "
        super().watch_value()


class GrantDialog(Dialog[GrantChoice | None]):
    """Asks for the terms of a grant. Returns None on Esc."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss(None)", "back")]

    def __init__(self, about: str, program: str = "", session: str = "") -> None:
        super().__init__()
        self._about = about
        self._program = program  # the unknown program and its verb, or empty
        self._session = session  # the session of the request, or empty

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static("Approve, and grant similar actions?", classes="question")
            with VerticalScroll(can_focus=False):
                yield Static(Content(self._about), classes="lines")
            with Horizontal(classes="boxes"):
                yield from _boxes()
            if self._program:
                yield TickBox(Content(f"{self._program} with any arguments"), id="program")
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
    """Says why a request cannot be answered. Returns True to view the request.

    It opens instead of the answer dialog, so that keys typed for that dialog have no effect.
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
    """A page on the whole screen. It opens immediately and can be filled later."""

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
        self.fill(self._text)  # it may have changed since compose()

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
    yield _labelled(box, "maximum number of uses")
    box = Input("8", id="hours", type="number", validators=[hours])
    yield _labelled(box, "maximum number of hours")


def _labelled(box: Input, label: str) -> Input:
    box.border_title = Content(label)
    return box


def dialog_columns(width: int) -> int:
    """Return the width of the text in a dialog, on a screen of this width."""
    return min(width * 9 // 10, MAX_COLUMNS) - MARGIN


def invalid_time(words: str) -> str:
    """Return why a typed time is invalid, or an empty string."""
    try:
        until(words, Clock().now().at)
    except WrongUsage as exc:
        return exc.message
    return ""
