"""The line of keys at the bottom: the keys that have an effect now, the most important first."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

from textual.content import Content

from safetyd.console.review.type_ahead import at_once

FOOT_LINES: Final = 2  # on a narrow screen
QUEUE_KEYS: Final = (
    at_once("a", "approve", "approve"),
    at_once("d", "deny", "deny"),
    at_once("g", "grant", "grant"),
    at_once("s", "defer", "defer"),
    at_once("v", "view", "view diff"),
    at_once("space", "mark", "mark"),
    at_once("j", "move('down')", "down"),
    at_once("k", "move('up')", "up"),
    at_once("t", "sessions", "sessions"),
    at_once("c", "changes", "changes"),
    at_once("slash", "filter", "filter"),
    at_once("escape", "show_all", "show all"),
    at_once("question_mark", "help", "help"),
    at_once("q", "leave", "quit"),
)


def offered(
    *, shown: int, chosen: int, hidden: int, answers: bool, grants: bool
) -> list[tuple[str, str]]:
    """Return the keys that have an effect for this number of shown, chosen and hidden requests."""
    some = chosen > 0
    count = f" {chosen}" if chosen > 1 else ""
    known = (
        (some and answers, "a", f"approve{count}"),
        (some and answers, "d", f"deny{count}"),
        (some and grants, "g", "grant"),
        (some and answers, "s", f"defer{count}"),
        (shown > 0, "v", "view diff"),
        (shown > 1, "j k", "down, up"),
        (shown > 0 and answers, "space", "mark"),
        (True, "?", "help"),
        (True, "q", "quit"),
        (hidden > 0, "Esc", "show all"),
        (shown > 1, "/", "filter"),
        (True, "t", "sessions"),
        (True, "c", "changes"),
        (shown > 0, "PgDn", "scroll the card"),
    )
    return [(key, does) for now, key, does in known if now]


def keys(pairs: Iterable[tuple[str, str]], columns: int, lines: int = 1) -> Content:
    """Return the keys on at most `lines` lines. The last keys are omitted if they do not fit."""
    shown = [Content.assemble((f"[{key}]", "bold"), f" {does}") for key, does in pairs]
    while True:
        for most, gap in product(range(1, lines + 1), ("  ", " ")):
            rows = _lined(shown, columns, gap)
            if len(rows) <= most or len(shown) == 1:
                return Content("\n").join(rows)
        shown.pop()


def _lined(shown: Sequence[Content], columns: int, gap: str) -> list[Content]:
    rows = [shown[0]]
    for one in shown[1:]:
        if len(rows[-1]) + len(gap) + len(one) <= columns:
            rows[-1] = Content(gap).join((rows[-1], one))
        else:
            rows.append(one)
    return rows
