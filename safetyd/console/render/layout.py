"""Tables, lists, amounts and times for a terminal. Text from agents is escaped by `plain`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from safetyd.console.terminal_text import plain, several
from safetyd.core.messages.money import dollars, nano
from safetyd.core.text.time_words import to_the_second

R = TypeVar("R")

# For each heading, a function that returns the cell of a row.
Columns = Mapping[str, Callable[[R], object]]


def table(rows: Iterable[R], columns: Columns[R]) -> str:
    """Return a table with a line for each row, below the headings of the columns."""
    cells = ([_cell(cell(row)) for cell in columns.values()] for row in rows)
    return aligned([list(columns), *cells])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Align columns of text. The first row is the heading."""
    rows = [[cell.upper() for cell in rows[0]], *rows[1:]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lined = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lined)


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return when(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None or value == "" else plain(value)


def left_out(count: int, noun: str = "line") -> Iterator[str]:
    """Yield how many rows an answer omits, if any."""
    if count:
        yield f"{several(count, noun)} omitted."


def indented(facts: Iterable[tuple[str, str]]) -> list[str]:
    """Return an indented line for each fact, with the values aligned."""
    facts = list(facts)
    width = max((len(name) for name, _ in facts), default=0)
    return [f"  {name:<{width}}  {value}" for name, value in facts]


def names(found: Iterable[str], nobody: str = "nobody") -> str:
    return ", ".join(map(plain, found)) or nobody


def some(found: Sequence[str], most: int = 10) -> str:
    """Return at most `most` names, and how many more there are."""
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return f"{', '.join(map(plain, found[:most]))}{more}"


def because(reason: str, chars: int = 500) -> str:
    """Return a reason as the end of a sentence: a colon and its text, or an empty string."""
    return f": {plain(reason, chars)}" if reason else ""


def usd(amount: float) -> str:
    return dollars(nano(amount))


def when(moment: object) -> str:
    """Return a time in the reader's time zone: that of TZ, or of this machine.

    The text includes the zone, because it can change within a table (summer time).
    """
    try:
        at = moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))
        return to_the_second(at.astimezone())
    except (ValueError, OverflowError):
        return plain(moment)


def day_end(moment: datetime) -> str:
    """Return the next midnight UTC in the reader's time zone. Daily budgets are reset then."""
    tomorrow = moment.astimezone(UTC) + timedelta(days=1)
    return when(tomorrow.replace(hour=0, minute=0, second=0, microsecond=0))
