"""Tables, lists and times as a terminal shows them. Words of agents go through `plain`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from safetyd.console.terminal_text import plain, several
from safetyd.core.messages.money import dollars, nano
from safetyd.core.text.time_words import to_the_second

R = TypeVar("R")

Columns = Mapping[str, Callable[[R], object]]  # the name of each column, and its cell in a row


def table(rows: Iterable[R], columns: Columns[R]) -> str:
    """Return a line for each row, below the names of the columns."""
    cells = ([_cell(cell(row)) for cell in columns.values()] for row in rows)
    return aligned([list(columns), *cells])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Line up cells that are text already; the first row is the heading."""
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
    """Say how many rows had no room in an answer, if any."""
    if count:
        yield f"{several(count, noun)} left out."


def indented(facts: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line each, names lined up."""
    facts = list(facts)
    width = max((len(name) for name, _ in facts), default=0)
    return [f"  {name:<{width}}  {value}" for name, value in facts]


def names(found: Iterable[str], nobody: str = "nobody") -> str:
    return ", ".join(map(plain, found)) or nobody


def some(found: Sequence[str], most: int = 10) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return f"{', '.join(map(plain, found[:most]))}{more}"


def because(reason: str, chars: int = 500) -> str:
    """Return a reason as it ends a sentence, or nothing."""
    return f": {plain(reason, chars)}" if reason else ""


def usd(amount: float) -> str:
    return dollars(nano(amount))


def when(moment: object) -> str:
    """Return a time of the wire in the zone of whoever reads it: of TZ, or of this machine.

    Each has the name of its zone, because two lines of a table may differ in it.
    """
    try:
        at = moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))
        return to_the_second(at.astimezone())
    except (ValueError, OverflowError):
        return plain(moment)


def day_end(moment: datetime) -> str:
    """Return when the day of budgets ends, which is one of UTC, on the reader's clock."""
    tomorrow = moment.astimezone(UTC) + timedelta(days=1)
    return when(tomorrow.replace(hour=0, minute=0, second=0, microsecond=0))
