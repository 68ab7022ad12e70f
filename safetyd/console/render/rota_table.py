"""The rota as text."""

from collections.abc import Iterator
from typing import Final

from safetyd.console.render.layout import Columns, names, table, when
from safetyd.console.terminal_text import plain, several
from safetyd.core.text.time_words import duration
from safetyd.operators.contract.rota_contract import DutyTurn, OnCallNow, RotaAnswer

NOBODY: Final = "nobody"
_NONE: Final = (
    "There is no rota, so urgent requests are sent to everybody. See `safetyd docs notifications`."
)
_TURNS: Final[Columns[DutyTurn]] = {
    "from": lambda turn: turn.starts,
    "to": lambda turn: turn.ends or "",
    "on call": lambda turn: names(turn.names, NOBODY),
}


def on_call(now: OnCallNow) -> str:
    """Return who is on call and who is next, in one line."""
    until = f" until {when(now.until)}, then {names(now.then, NOBODY)}" if now.until else ""
    everybody = "" if now.names else "; urgent requests are sent to everybody"
    return f"{names(now.names, NOBODY)}{until}{everybody}"


def rota(view: RotaAnswer) -> str:
    """Return who is on call now, the next turns, gaps, and problems of the calendar."""
    if view.on_call is None:
        return _NONE
    parts = [f"On call now: {on_call(view.on_call)}", table(view.turns, _TURNS)]
    parts += ["\n".join(notes)] if (notes := list(_notes(view))) else []
    return "\n\n".join(parts)


def _notes(view: RotaAnswer) -> Iterator[str]:
    gaps = [turn for turn in view.turns if not turn.names]
    if gaps:
        seconds = sum((gap.ends - gap.starts).total_seconds() for gap in gaps if gap.ends)
        long = f", {duration(seconds)} in total" if seconds else ""
        yield f"NOBODY ON CALL: {several(len(gaps), 'time')}{long}"
        yield "  Urgent requests are then sent to everybody."
    if view.problem:
        yield f"CALENDAR: {plain(view.calendar)} cannot be read: {plain(view.problem)}"
        yield "  The shifts that were read before still apply. To read it again: `safetyd reload`"
    elif view.calendar and view.read_until is None:
        yield f"CALENDAR: {plain(view.calendar)} was not read yet."
    if view.unmatched:
        yield f"CALENDAR: entries that name no recipient are ignored: {names(view.unmatched)}"
