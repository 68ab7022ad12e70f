"""The review screen: its layout, its keys, and the answers that it sends."""

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import ClassVar, Final, TypeVar

import anyio.to_thread
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from safetyd.cards.request_details import RequestDetails, RequestRow
from safetyd.clock import Clock, uptime
from safetyd.console.failure import Failure
from safetyd.console.line_folding import fitted
from safetyd.console.locations import Location
from safetyd.console.review import detail
from safetyd.console.review.dialogs import (
    HELP,
    GrantChoice,
    GrantDialog,
    NoticeDialog,
    PageDialog,
    WordsDialog,
    dialog_columns,
    invalid_time,
)
from safetyd.console.review.feed import RequestFeed, WaitingRequests
from safetyd.console.review.key_line import FOOT_LINES, QUEUE_KEYS, keys, offered
from safetyd.console.review.theme import (
    CSS,
    RequestList,
    fitting_theme,
    listed,
    painted,
    topped,
)
from safetyd.console.review.type_ahead import TypeAheadApp
from safetyd.console.terminal_text import plain, several
from safetyd.console.time_input import until
from safetyd.operators.contract.grant_contract import RequestGrantTerms
from safetyd.operators.contract.question import Review
from safetyd.operators.contract.request_contract import (
    ApproveCommand,
    DeferCommand,
    DenyCommand,
    ReviewDone,
    ReviewResult,
)

TICK_S: Final = 1.0
WIDE: Final = 160  # from this width on, the card is next to the list
MARGIN: Final = 6  # columns of frame, padding and scroll bar
MIN_COLUMNS: Final = 20
NOTHING: Final = "No pending requests. New ones appear here."

VIA: Final = "tui"

MakeAnswer = Callable[[RequestRow], Review[ReviewDone]]

W = TypeVar("W", bound=Widget)


class ReviewScreen(TypeAheadApp):
    """The review screen. Every answer is confirmed in a dialog that shows the requests."""

    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012 - as textual has it
    BINDINGS: ClassVar[list[BindingType]] = [*QUEUE_KEYS, ("ctrl+c", "quit", "quit")]

    def __init__(self, location: Location) -> None:
        super().__init__()
        self.theme = fitting_theme(os.environ, self.theme)
        self.feed = RequestFeed(location, self._told)
        self._location = location
        self._marked: set[str] = set()
        self._wanted = ""
        self._card: RequestDetails | None = None
        self._read: set[str] = set()  # requests that were shown in full

    def compose(self) -> ComposeResult:
        yield Static(id="heading", markup=False)
        with Container(id="panes"):
            yield RequestList(id="queue", markup=False)
            with VerticalScroll(id="card", can_focus=False):
                yield Static(id="text", classes="lines", markup=False)
        yield Input(id="filter", placeholder="filter by text; Enter applies it, Esc shows all")
        yield Static(id="said", markup=False)
        yield Static(id="keys", classes="foot", markup=False)

    def on_mount(self) -> None:
        self._queue.focus()
        self.set_interval(TICK_S, self._tick)
        self.run_worker(self.feed.run())
        self._tick()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw_card)

    def on_option_list_option_highlighted(self) -> None:
        self._list()
        self._load_card()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "filter":
            self._wanted = event.value
            self._list()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "filter":
            self._focus(self._queue)

    def action_move(self, where: str) -> None:
        if where == "down":
            self._queue.action_cursor_down()
        else:
            self._queue.action_cursor_up()

    def action_turn(self, pages: int) -> None:
        page = self._part("#card", VerticalScroll)
        page.scroll_relative(y=pages * page.size.height, animate=False)

    def action_mark(self) -> None:
        row = self._selected
        if row is not None:
            self._marked ^= {row.id}
            self._list()
            self._queue.action_cursor_down()

    def action_filter(self) -> None:
        looked_for = self._part("#filter", Input)
        looked_for.add_class("open")
        self._focus(looked_for)

    def action_show_all(self) -> None:
        looked_for = self._part("#filter", Input)
        looked_for.value = ""
        looked_for.remove_class("open")
        self._focus(self._queue)

    def action_leave(self) -> None:
        self.exit()

    def action_help(self) -> None:
        self.push_screen(PageDialog("How to review", Content(HELP)))

    def action_view(self) -> None:
        if self._selected is not None:
            self._view(self._selected)

    def action_sessions(self) -> None:
        async def summaries() -> Content:
            told = await anyio.to_thread.run_sync(detail.sessions, self._location.data_dir)
            return Content(fitted(told, self._page_columns))

        self._open_page("Sessions, the newest first", summaries)

    def action_changes(self) -> None:
        async def diffs() -> Content:
            return painted(detail.changes(await self.feed.changes(), self._page_columns))

        self._open_page("Changes by approved actions, the newest first", diffs)

    def action_approve(self) -> None:
        rows = self._to_answer()
        if self._may_answer() and self._have_read(rows):
            self._ask_words("Approve", rows, "message for the agent (optional)", _approval)

    def action_deny(self) -> None:
        if self._may_answer():
            self._ask_words("Deny", self._to_answer(), "reason, shown to the agent", _denial)

    def action_defer(self) -> None:
        def deferral(row: RequestRow, words: str) -> DeferCommand:
            return DeferCommand(ids=(row.id,), until=until(words, Clock().now().at), via=VIA)

        if self._may_answer():
            hint = "time in your time zone: 2h, 9:00, tomorrow 9:00"
            self._ask_words("Defer", self._to_answer(), hint, deferral, invalid_time)

    def action_grant(self) -> None:
        """Approve the selected request, and grant similar actions for a while."""
        row = self._selected
        if row is None or not (self._may_answer() and self.feed.grants and self._have_read([row])):
            return

        def chose(choice: GrantChoice | None) -> None:
            if choice is not None:
                terms = choice.terms(Clock().now().at)
                self._send([row], lambda row: _approval(row, grant=terms))

        columns = dialog_columns(self.size.width)
        about = "\n\n".join((detail.chosen([row], columns), detail.covered(row, columns)))
        program = plain(row.grant.program if row.grant else "")
        self.push_screen(GrantDialog(about, program, detail.session_of(self._card, row)), chose)

    def _may_answer(self) -> bool:
        """Return True if this operator can answer requests. Otherwise show a notice."""
        if self.feed.observes:
            notice = NoticeDialog(detail.only_looks(self._location.name))
            self.push_screen(notice, lambda view: self.action_view() if view else None)
        return not self.feed.observes

    def _have_read(self, rows: Sequence[RequestRow]) -> bool:
        """Return True if all these requests were shown in full. Otherwise show a notice."""
        missing = [row for row in rows if not row.whole and row.id not in self._read]
        if missing:
            notice = NoticeDialog(detail.unread(missing))
            self.push_screen(notice, lambda view: self._view(missing[0]) if view else None)
        return not missing

    def _ask_words(
        self,
        verb: str,
        rows: Sequence[RequestRow],
        hint: str,
        answer: Callable[[RequestRow, str], Review[ReviewDone]],
        wrong: Callable[[str], str] = lambda _: "",
    ) -> None:
        """Ask for a message, and answer `rows` with it.

        `rows` does not change while the dialog is open, even if the list does.
        """
        if not rows:
            return

        def said(words: str | None) -> None:
            if words is not None:
                self._send(rows, lambda row: answer(row, words))

        question = f"{verb} {several(len(rows), 'request')}?"
        about = detail.chosen(rows, dialog_columns(self.size.width))
        self.push_screen(WordsDialog(question, about, hint, wrong), said)

    def _view(self, row: RequestRow) -> None:
        """Show a request in full. Then it can be approved."""

        async def everything() -> Content:
            known = self._card is not None and self._card.id == row.id
            card = self._card if known and self._card else await self.feed.card(row.id)
            if page in self.screen_stack:
                self._read.add(row.id)
            return painted(detail.everything(card, Clock().now().at, self._page_columns))

        page = self._open_page(plain(row.id), everything)

    def _open_page(self, title: str, content: Callable[[], Awaitable[Content]]) -> PageDialog:
        """Open a page immediately, and fill it when its content has arrived."""
        page = PageDialog(title)
        self.push_screen(page)
        self._fill(page, content)
        return page

    @work
    async def _fill(self, page: PageDialog, content: Callable[[], Awaitable[Content]]) -> None:
        try:
            page.fill(await content())
        except Failure as exc:
            page.fill(Content(plain(exc.message)))

    @property
    def _page_columns(self) -> int:
        return self.size.width - MARGIN

    @work
    async def _send(self, rows: Sequence[RequestRow], answer: MakeAnswer) -> None:
        """Answer the requests in order until one fails, and show the results."""
        results: list[ReviewResult] = []
        trouble = ""
        try:
            for row in rows:
                results.append(await self.feed.answer(answer(row)))
                self._marked.discard(row.id)
        except Failure as exc:
            trouble = f"{row.id}: NOT CONFIRMED: {exc.message}"
        self._say(detail.outcomes(results, len(rows), trouble))
        self.feed.look_again()

    def _say(self, words: str) -> None:
        said = self._part("#said", Static)
        said.update(Content(words))
        said.add_class("open")

    def _focus(self, part: Widget) -> None:
        """Focus a widget immediately. `Widget.focus` would miss the next key."""
        self.screen_stack[0].set_focus(part)

    @property
    def _queue(self) -> RequestList:
        return self._part("#queue", RequestList)

    def _part(self, name: str, kind: type[W]) -> W:
        """Return a widget of the screen, even while a dialog covers it."""
        return self.screen_stack[0].query_one(name, kind)

    @property
    def _rows(self) -> list[RequestRow]:
        """The requests in the list, in their order."""
        rows = detail.ordered(self.feed.waiting.rows)
        return [row for row in rows if detail.matches(row, self._wanted)]

    @property
    def _selected(self) -> RequestRow | None:
        option = self._queue.highlighted_option
        return next((row for row in self._rows if option and row.id == option.id), None)

    def _to_answer(self) -> list[RequestRow]:
        """Return the marked requests in the list or, if none is marked, the selected one."""
        marked = [row for row in self._rows if row.id in self._marked]
        if marked or self._selected is None:
            return marked
        return [self._selected]

    @property
    def _open(self) -> bool:
        """True while the screen is open. Ticks and answers may still arrive while it closes."""
        return bool(self.screen_stack) and bool(self.screen_stack[0].query("#heading"))

    def _told(self, waiting: WaitingRequests) -> None:
        if not self._open:
            return
        known = {row.id for row in waiting.rows}
        self._marked &= known
        self._read &= known
        self._list()
        self._describe()

    def _list(self) -> None:
        """Update the list. The selected request stays selected while it is pending."""
        self._queue.show([(row.id, self._line(row)) for row in self._rows])
        if self._queue.highlighted is None and self._card is not None:
            self._card = None
            self._draw_card()

    def _line(self, row: RequestRow) -> Content:
        text = detail.line(row, uptime() - self.feed.waiting.at, marked=row.id in self._marked)
        option = self._queue.highlighted_option
        selected = option is not None and option.id == row.id
        return listed(text, row.urgency, selected=selected)

    def _tick(self) -> None:
        """Update all remaining times."""
        if not self._open:
            return
        self._describe()
        self._list()
        self._draw_card()

    def _describe(self) -> None:
        waiting, now = self.feed.waiting, Clock().now().at
        told = detail.heading(waiting.rows, waiting.count, now) if waiting.at else "connecting"
        only = ", read-only" if self.feed.observes else ""
        wanted = f", filter: {plain(self._wanted)}" if self._wanted else ""
        review = f"Review as {self._location.name}: {told}{wanted}{only}"
        level, why = detail.standing(waiting.status) if waiting.status else ("", "")
        if waiting.trouble:
            level, why = "DISCONNECTED", f"reconnecting: {plain(waiting.trouble)}"
        self._part("#heading", Static).update(topped(level, why, review))
        self._part("#keys", Static).update(keys(self._offered(), self.size.width - 2, FOOT_LINES))

    def _offered(self) -> list[tuple[str, str]]:
        return offered(
            shown=len(self._rows),
            chosen=len(self._to_answer()),
            hidden=len(self.feed.waiting.rows) - len(self._rows),
            answers=not self.feed.observes,
            grants=self.feed.grants,
        )

    def _draw_card(self) -> None:
        if not self._open:  # a card may arrive after the screen has closed
            return
        pane = self._part("#text", Static)
        if self._card is None:
            pane.update(Content("" if self._rows else NOTHING))
            return
        columns = max(pane.size.width, MIN_COLUMNS)
        pane.update(painted(detail.card(self._card, Clock().now().at, columns)))

    @work(exclusive=True, group="card")
    async def _load_card(self) -> None:
        row = self._selected
        if row is None:
            return
        if self._card is not None and self._card.id != row.id:
            self._card = None  # never show the card of another request
            self._draw_card()
        with suppress(Failure):  # it was answered in the meantime, or the heading shows the error
            before, self._card = self._card, await self.feed.card(row.id)
            if before is None and self._open:
                self._part("#card", VerticalScroll).scroll_home(animate=False)
            if detail.whole(self._card, Clock().now().at):
                self._read.add(row.id)
            self._draw_card()


def _approval(
    row: RequestRow, words: str = "", grant: RequestGrantTerms | None = None
) -> ApproveCommand:
    """Return an approval of exactly what was shown: it includes the digest."""
    return ApproveCommand(ids=(row.id,), message=words, digest=row.digest, grant=grant, via=VIA)


def _denial(row: RequestRow, words: str) -> DenyCommand:
    return DenyCommand(ids=(row.id,), reason=words, via=VIA)
