"""What was unusual as people read it, and the numbers that detectors compare."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from safetyd.console.render.layout import table, when
from safetyd.console.terminal_text import plain, several
from safetyd.core.guards.anomaly.measures import Measure
from safetyd.core.text.time_words import duration
from safetyd.operators.contract.guard_contract import AnomaliesAnswer, Finding

NOTHING: Final = "Nothing unusual was found."


def anomalies(view: AnomaliesAnswer) -> str:
    """Return the findings, what holds now, and the numbers behind them."""
    parts = [findings(view.findings)]
    if view.holding:
        parts.append("\n".join(("Holds now:", *_holding(view.holding))))
    if view.measures:
        parts.append(measures(view.measures))
    if view.left_out:
        parts.append(f"{several(view.left_out, 'line')} left out.")
    parts.append(f"A person was last seen {duration(view.since_human_s)} ago.")
    return "\n\n".join(parts)


def findings(rows: Sequence[Finding]) -> str:
    """Return a line for each finding; what nobody has seen since is new."""
    if not rows:
        return NOTHING
    return table((("severity", "time", "of", "what", "rule"), *map(_finding, rows)))


def measures(rows: Sequence[Measure]) -> str:
    """Return a line for each number that a detector compares."""
    head = ("detector", "of", "now", "usual", "at least", "at most", "counted in")
    return table((head, *map(_measure, rows)))


def _finding(row: Finding) -> tuple[str, ...]:
    new = "" if row.seen else "new: "
    whose = plain(row.agent or row.breaker or "everybody")
    said = f"{new}{plain(row.message)}"
    return (plain(row.severity), when(row.at), whose, said, plain(row.rule))


def _holding(holding: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for agent, held in holding.items():
        told = ", ".join(f"{plain(name)} {several(count, 'time')}" for name, count in held.items())
        yield f"  {plain(agent)}: {told}"


def _measure(row: Measure) -> tuple[str, ...]:
    whose = row.agent or row.breaker or "everybody"
    model = f", {plain(row.model)}" if row.model else ""
    numbers = map(_number, (row.now, row.usual, row.least, row.most))
    return (plain(row.detector), f"{plain(whose)}{model}", *numbers, plain(row.unit))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
