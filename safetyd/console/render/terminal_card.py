"""The card of a request at a terminal, in full or, on the review screen, a number of lines a field.

What the agent wrote stands behind bars, so that it can pass neither for safetyd's words nor for the
end of its own: a line that is too long goes on behind a plus.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from itertools import groupby
from typing import Final, NamedTuple

from safetyd.cards.request_card import CardField, RequestCard, request_card
from safetyd.cards.request_details import RequestDetails
from safetyd.console.line_folding import BEGINS, barred, folded
from safetyd.console.render.grant_list import grant_offer, program_offer
from safetyd.console.render.layout import indented, when
from safetyd.console.terminal_text import plain
from safetyd.core.approvals.request import KeptChange
from safetyd.core.text.visible_text import visible
from safetyd.operators.contract.history_contract import SHORT, diff_command

CHANGE_LINES: Final = 400  # that are shown of what an action changed
FACT_CHARS: Final = 2000
MIN_WIDTH: Final = 20
OWN_WORDS: Final = (
    "Lines behind bars are the agent's own words, with everything unseen made visible."
)


class CardMark(NamedTuple):
    """A part of a row that stands out: a level, or a part of a command that needs approval."""

    start: int
    end: int
    role: str


class CardRow(NamedTuple):
    """A row of a card, and what it is: a title, a heading, or a line of a diff by its kind."""

    text: str
    role: str = ""
    marks: tuple[CardMark, ...] = ()


class Change(NamedTuple):
    """What an action changed: the diff of its commit, or why there is none."""

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
    """Return one request, at most `width` columns wide, and how it is answered at a terminal."""
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
    """Return a request in rows of at most `width` columns; of each field all, or at `most` some.

    A screen that is drawn again and again cannot draw tens of thousands.
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
    """Say whether a card of at most so many lines of a field leaves something out."""
    return any(field.agent and len(field.lines) > most for field in made.fields)


def change_rows(change: Change, columns: int, most: int = CHANGE_LINES) -> Iterator[CardRow]:
    """Yield what the action changed."""
    kept = change.kept
    title = f"what it changed, commit {kept.commit[:SHORT]} of {kept.project}"
    yield CardRow(f"  {visible(title)}", "heading")
    if change.diff is None:
        yield CardRow(f"  (it cannot be shown: {plain(change.lack)})")
        return
    lines = tuple(change.diff.removesuffix("\n").split("\n"))
    field = CardField(name="change", title=title, lines=lines, agent=True, diff=True)
    yield from field_rows(field, columns, most)
    if (more := len(lines) - most) > 0:
        command = plain(diff_command(kept.project, kept.commit))
        yield CardRow(f"  ({more:,} more {'line' if more == 1 else 'lines'}: {command})")


def field_rows(field: CardField, columns: int, most: int | None = None) -> Iterator[CardRow]:
    """Yield the lines of a field behind bars, with what is marked of them."""
    for line in list(field.coloured)[:most]:
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
    """Yield what of a line's parts is on the row that begins, with its bar, at `at` of it."""
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
    """Yield how a request was answered, or until when it was put off."""
    if details.until:
        yield f"It was put off until {when(details.until)}."
    answer = details.answer
    if details.state == "pending" or answer is None:
        return
    words = f": {plain(answer.words, FACT_CHARS)}" if answer.words else ""
    by = f"by {plain(answer.by)} via {plain(answer.via)}"
    yield f"It was {details.state} {by} at {when(answer.at)}{words}."
    if details.used:
        yield f"The approval was used by {plain(details.used)}."
    elif details.valid_until:
        yield f"The approval may be used once, until {when(details.valid_until)}."
    elif details.denied_until:
        yield f"The same is denied without asking until {when(details.denied_until)}."
        yield f"`safetyd deny {plain(details.id)} --once` lets the agent ask again."


def _facts(fields: Sequence[CardField]) -> Iterator[CardRow]:
    named = ((field.title, plain(line, FACT_CHARS)) for field in fields for line in field.lines)
    return map(CardRow, indented(named))


def _said(fields: Sequence[CardField], columns: int, most: int | None) -> Iterator[CardRow]:
    for field in fields:
        yield CardRow(f"  {visible(field.title)}", "heading")
        yield from field_rows(field, columns, most)
        if most is not None and len(field.lines) > most:
            yield CardRow(f"  ({len(field.lines) - most:,} more lines: v shows all of them)")


def _answers(made: RequestCard) -> Iterator[str]:
    """Yield what to type, if it waits."""
    if not made.commands:
        return
    yield ""
    yield from (f"  {plain(command)}" for command in made.commands)
    if offer := made.grant:
        yield f"  safetyd approve {plain(made.id)} --grant   permits the same for a while"
        yield from (f"    {line}" for line in (*grant_offer(offer), *program_offer(offer)))


def _fitted(row: CardRow, columns: int) -> Iterator[CardRow]:
    """Yield a row as several that fit; its marks are all at its beginning."""
    for number, text in enumerate(folded(row.text, columns)):
        yield row._replace(text=text, marks=() if number else row.marks)
