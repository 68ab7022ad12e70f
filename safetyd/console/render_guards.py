"""What the guards say to people: pure functions from answers to text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safetyd.console.plain import plain, several
from safetyd.console.render import duration, table, when
from safetyd.core.money import dollars, nano

EVERYBODY: Final = "*"  # the kernel that holds all agents

View = Mapping[str, Any]


def unpaused(agent: str, reply: View) -> str:
    if not reply["cleared"]:
        return f"{plain(agent)} was not paused."
    return f"{plain(agent)} may go on; it was paused by: {', '.join(map(plain, reply['cleared']))}."


def safe_mode(view: View) -> str:
    """Say who is in safe mode and when it can be left, or how far away it is."""
    if not view["active"]:
        return _not_in_safe_mode(view)
    who = ", ".join(map(_kernel, view["agents"]))
    left_ms = view["cooldown_remaining_ms"]
    leave = f"in {duration(left_ms / 1000)}" if left_ms else "now"
    return (
        f"SAFE MODE since {when(view['since'])}: {who}. Only reading is allowed.\n"
        f"It can be left {leave}: safetyd safe-mode exit"
    )


def _not_in_safe_mode(view: View) -> str:
    errors = several(view["consecutive_errors"], "error")
    count = f"{errors} in a row, safe mode at {view['threshold']}"
    if view["agent"]:
        return f"{plain(view['agent'])} is not in safe mode ({plain(view['state'])}; {count})."
    return f"Nobody is in safe mode (at most {count})."


def left(agent: str | None, reply: View) -> str:
    if reply["left"]:
        return f"Out of safe mode: {', '.join(map(_kernel, reply['left']))}."
    if agent is None:
        return "Nobody was in safe mode."
    return f"There was no safe mode of {_kernel(agent)} to leave."


def _kernel(name: object) -> str:
    return "everybody" if name == EVERYBODY else plain(name)


def budgets(view: View) -> str:
    """Return a line for each budget, then what was spent by agent, session and model."""
    head = ("budget", "name", "agent", "spent", "set aside", "limit")
    parts = [table((head, *map(_budget, view["budgets"])))]
    if view["spending"]:
        columns = ("agent", "session", "model", "spent")
        parts.append(table((columns, *map(_spend, view["spending"]))))
    if view["left_out"]:
        parts.append(f"{several(view['left_out'], 'line')} with less in them left out.")
    return "\n\n".join(parts)


def _budget(row: View) -> tuple[str, ...]:
    limit = "none" if row["limit"] is None else _usd(row["limit"])
    amounts = (_usd(row["spent"]), _usd(row["reserved"]), limit)
    return (plain(row["scope"]), _or_dash(row["id"]), _or_dash(row["agent"]), *amounts)


def _spend(row: View) -> tuple[str, ...]:
    names = (row["agent"], row["session"], row["model"])
    return (*map(_or_dash, names), _usd(row["spent"]))


def breakers(rows: Sequence[View]) -> str:
    if not rows:
        return "No dependency has been called yet."
    head = ("breaker", "state", "for", "calls", "failed", "why")
    return table((head, *map(_breaker, rows)))


def _breaker(row: View) -> tuple[str, ...]:
    since = "" if row["open_s"] is None else f", {duration(row['open_s'])} ago"
    why = f"{plain(row['reason'])}{since}" if row["reason"] else "-"
    counts = (str(row["calls"]), str(row["failures"]))
    state = plain(row["state"]).replace("_", " ")
    return (plain(row["breaker"]), state, plain(row["agent"] or "everybody"), *counts, why)


def types(view: View) -> str:
    """Return the table of known types, then what to write to make the others known."""
    head = ("type", "tier", "risk", "reversibility")
    known = table((head, *(tuple(plain(row[name]) for name in head) for row in view["types"])))
    return "\n".join((known, *_unknown(view["unknown"])))


def _unknown(rows: Sequence[View]) -> Iterator[str]:
    if rows:
        yield ""
        yield "Proposed, but not known. To make one known, put into the configuration:"
    for row in rows:
        yield ""
        yield f"# {plain(row['type'])}: proposed {several(row['count'], 'time')}"
        yield from map(plain, row["toml"].split("\n"))


def _or_dash(name: str | None) -> str:
    return plain(name) if name else "-"


def _usd(amount: float) -> str:
    return dollars(nano(amount))
