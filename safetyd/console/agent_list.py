"""What a daemon's list of agents says about names and about actions that have not ended."""

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from safetyd.console.terminal_text import plain, several

Row = Mapping[str, Any]
Ask = Callable[..., Awaitable[dict[str, Any]]]


async def everybody(ask: Ask) -> list[dict[str, Any]]:
    """Return what a daemon knows of every agent, however many questions that takes."""
    answer = await ask("agents")
    rows: list[dict[str, Any]] = answer["agents"]
    while answer["more"]:
        answer = await ask("agents", after=rows[-1]["agent"])
        rows += answer["agents"]
    return rows


def unheard(agent: str | None, rows: Sequence[Row] | None) -> str:
    """Say that no agent of that name has been heard, and who may have been meant, or nothing."""
    if agent is None or rows is None or any(row["agent"] == agent for row in rows):
        return ""
    near = difflib.get_close_matches(agent, [row["agent"] for row in rows], n=1)
    meant = f"; did you mean {plain(near[0])}?" if near else "."
    return f"No agent {plain(agent)} has been heard{meant}"


def open_count(row: Row) -> int:
    """Return how many actions an agent was allowed and has not reported the end of."""
    return len(row["open_actions"]) + int(row["unreported"])


def busy(rows: Sequence[Row], agent: str | None = None) -> dict[str, int]:
    """Return how many actions are open, of each agent that has some, or of one."""
    counts = {row["agent"]: open_count(row) for row in rows if agent in {None, row["agent"]}}
    return {name: count for name, count in counts.items() if count}


def still_open(rows: Sequence[Row], agent: str | None = None) -> str:
    """Say which allowed actions may still be under way, or nothing."""
    counts = busy(rows, agent)
    if not counts:
        return ""
    total = sum(counts.values())
    whose = ", ".join(f"{plain(name)} {count}" for name, count in counts.items())
    have, them = ("has", "it") if total == 1 else ("have", "them")
    return (
        f"Nothing new is allowed. {several(total, 'allowed action')} {have} not reported an end: "
        f"{whose}; check {them} by hand."
    )
