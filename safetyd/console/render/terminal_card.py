"""A request card for the terminal.

Every line of the agent's text begins with a bar, or with a plus where a long line continues. So the
agent cannot imitate safetyd's text.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from itertools import groupby
from typing import Final, NamedTuple

from safetyd.cards.request_card import CardField, ColouredLine, RequestCard, request_card
from safetyd.cards.request_details import RequestDetails
from safetyd.console.line_folding import BEGINS, barred, folded
from safetyd.console.render.grant_list import grant_offer, program_offer
from safetyd.console.render.layout import indented, when
from safetyd.console.terminal_text import plain
from safetyd.core.approvals.request import KeptChange
from safetyd.core.text.visible_text import visible
from safetyd.operators.contract.history_contract import SHORT, diff_command

CHANGE_LINES: Final = 400  # the maximum length of a diff
FACT_CHARS: Final = 2000
MAX_BLANK: Final = 3  # blank lines in a row that are printed
MIN_WIDTH: Final = 20
OWN_WORDS: Final = (
    "Lines with a bar are the agent's own text. Invisible characters are spelled out."
)


class CardMark(NamedTuple):
    """A highlighted part of a row: the urgency, the risk, or a command that needs approval."""

    start: int
    end: int
    role: str


class CardRow(NamedTuple):
    """A row of a card and its role: title, heading, or a kind of diff line."""

    text: str
    role: str = ""
    marks: tuple[CardMark, ...] = ()


class Change(NamedTuple):
    """The diff of an action's commit, or why it is missing."""

    kept: KeptChange
    diff: str | None = None
    lack: str = ""


def card(
    details: RequestDetails,
    now: datetime,
    width: int = 100,
    change: Change | None = None,
    zone: tzinfo | None = None,
) -> str:
    """Return a request as text of at most `width` columns, and the commands to answer it."""
    made = request_card(details, zone, now)
    shown = [row.text for row in card_rows(details, made, width, change=change)]
    return "\n".join((*shown, *_answers(made)))


def card_rows(
    details: RequestDetails,
    made: RequestCard,
    width: int,
    most: int | None = None,
    change: Change | None = None,
) -> list[CardRow]:
    """Return a request in rows of at most `width` columns, with at most `most` lines per field.

    The review screen sets `most`, because it redraws often.
    """
    columns = max(width, MIN_WIDTH)
    rows = [*_top(made), *map(CardRow, _end(details)), CardRow("")]
    if change is not None:
        rows += [*change_rows(change, columns), CardRow("")]
    for agent, group in groupby(made.fields, lambda field: field.agent):
        fields = tuple(group)
        rows += [*(_said(fields, columns, most) if agent else _facts(fields)), CardRow("")]
    rows.append(CardRow(OWN_WORDS))
    return [fit for row in rows for fit in _fitted(row, columns)]


def is_cut(made: RequestCard, most: int) -> bool:
    """Return True if a card with at most `most` lines per field omits something."""
    return any(field.agent and len(field.lines) > most for field in made.fields)


def change_rows(change: Change, columns: int, most: int = CHANGE_LINES) -> Iterator[CardRow]:
    """Yield the diff of an action, at most `most` lines."""
    kept = change.kept
    title = f"changes by this action, commit {kept.commit[:SHORT]} of {kept.project}"
    yield CardRow(f"  {visible(title)}", "heading")
    if change.diff is None:
        yield CardRow(f"  (cannot be shown: {plain(change.lack)})")
        return
    lines = tuple(change.diff.removesuffix("\n").split("\n"))
    field = CardField(name="change", title=title, lines=lines, agent=True, diff=True)
    yield from field_rows(field, columns, most)
    if (more := len(lines) - most) > 0:
        command = plain(diff_command(kept.project, kept.commit))
        yield CardRow(f"  ({more:,} more {'line' if more == 1 else 'lines'}: {command})")


def field_rows(field: CardField, columns: int, most: int | None = None) -> Iterator[CardRow]:
    """Yield the lines of a field with bars and their highlighted parts.

    Many blank lines would push the others off the screen, so they are only counted.
    """
    for blank, run in groupby(list(field.coloured)[:most], _is_blank):
        lines = list(run)
        if blank and len(lines) > MAX_BLANK:
            yield CardRow(f"  ({len(lines):,} blank lines)")
        else:
            yield from _line_rows(lines, columns)


def _is_blank(line: ColouredLine) -> bool:
    return not any(piece.strip() for piece, _ in line.pieces)


def _line_rows(lines: Sequence[ColouredLine], columns: int) -> Iterator[CardRow]:
    for line in lines:
        shown, parts = "", []
        for piece, marked in line.pieces:
            seen = visible(piece)
            parts += [(len(shown), len(shown) + len(seen))] if marked else []
            shown += seen
        at = -len(BEGINS)
        for row in barred(shown, columns):
            yield CardRow(row, line.kind, tuple(_on_row(parts, at, len(row))))
            at += len(row) - len(BEGINS)


def _on_row(parts: Sequence[tuple[int, int]], at: int, length: int) -> Iterator[CardMark]:
    """Yield marks for the parts of a line that are on this row. `at` is where the row begins."""
    for start, end in parts:
        first, last = max(start - at, len(BEGINS)), min(end - at, length)
        if first < last:
            yield CardMark(first, last, "part")


def _top(made: RequestCard) -> Iterator[CardRow]:
    yield CardRow(f"{plain(made.title)} ({plain(made.id)}, {made.state})", "title")
    urgency, tags = f"{made.urgency} urgency", f"{made.urgency} urgency, {made.risk} risk"
    marks = (
        CardMark(0, len(urgency), f"urgency {made.urgency}"),
        CardMark(len(urgency) + 2, len(tags), f"risk {made.risk}"),
    )
    yield CardRow(tags, "", marks)


def _end(details: RequestDetails) -> Iterator[str]:
    """Yield how a request was answered, or when a deferred request is due again."""
    if details.until:
        yield f"Deferred until {when(details.until)}."
    answer = details.answer
    if details.state == "pending" or answer is None:
        return
    words = f": {plain(answer.words, FACT_CHARS)}" if answer.words else ""
    by = f"by {plain(answer.by)} via {plain(answer.via)}"
    yield f"{details.state.capitalize()} {by} at {when(answer.at)}{words}."
    if details.used:
        yield f"The approval was used by {plain(details.used)}."
    elif details.valid_until:
        yield f"The approval can be used once, until {when(details.valid_until)}."
    elif details.denied_until:
        yield f"The same action is denied automatically until {when(details.denied_until)}."
        yield f"To let the agent request it again: `safetyd deny {plain(details.id)} --once`"


def _facts(fields: Sequence[CardField]) -> Iterator[CardRow]:
    named = ((field.title, plain(line, FACT_CHARS)) for field in fields for line in field.lines)
    return map(CardRow, indented(named))


def _said(fields: Sequence[CardField], columns: int, most: int | None) -> Iterator[CardRow]:
    for field in fields:
        yield CardRow(f"  {visible(field.title)}", "heading")
        yield from field_rows(field, columns, most)
        if most is not None and len(field.lines) > most:
            yield CardRow(f"  ({len(field.lines) - most:,} more lines: press v to see all)")


def _answers(made: RequestCard) -> Iterator[str]:
    """Yield the commands that answer a pending request."""
    if not made.commands:
        return
    yield ""
    yield from (f"  {plain(command)}" for command in made.commands)
    if offer := made.grant:
        command = f"safetyd approve {plain(made.id)} --grant"
        yield f"  {command}   also allows similar actions for a while"
        yield from (f"    {line}" for line in (*grant_offer(offer), *program_offer(offer)))


def _fitted(row: CardRow, columns: int) -> Iterator[CardRow]:
    """Wrap a row to rows of at most `columns`. Its marks stay on the first."""
    for number, text in enumerate(folded(row.text, columns)):
        yield row._replace(text=text, marks=() if number else row.marks)
