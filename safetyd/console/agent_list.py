"""What a daemon's list of agents says about names and about actions that have not ended."""

import difflib
from collections.abc import Sequence
from typing import TypeVar

import click

from safetyd.console.failure import BLOCKED
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ANSWER_S, OperatorConnection, with_operator
from safetyd.console.terminal_text import plain, several
from safetyd.operators.contract.agent_contract import AgentSeen, AgentsQuestion
from safetyd.operators.contract.question import Command
from safetyd.operators.replies import Done

Answer = TypeVar("Answer", bound=Done)


async def everybody(
    operator: OperatorConnection, *, patience_s: float = ANSWER_S
) -> list[AgentSeen]:
    """Return what a daemon knows of every agent, however many questions that takes."""
    rows: list[AgentSeen] = []
    more = True
    while more:
        question = AgentsQuestion(after=rows[-1].agent if rows else "")
        answer = await operator.ask(question, patience_s=patience_s)
        rows += answer.agents
        more = answer.more
    return rows


def unheard(agent: str | None, rows: Sequence[AgentSeen] | None) -> str:
    """Say that no agent of that name has been heard, and who may have been meant, or nothing."""
    if agent is None or rows is None or any(row.agent == agent for row in rows):
        return ""
    near = difflib.get_close_matches(agent, [row.agent for row in rows], n=1)
    meant = f"; did you mean {plain(near[0])}?" if near else "."
    return f"No agent {plain(agent)} has been heard{meant}"


def tell_about(location: Location, agent: str, command: Command[Answer]) -> tuple[Answer, str]:
    """Give a command about one agent; return its answer, and a doubt about the name if any."""

    async def tell(operator: OperatorConnection) -> tuple[Answer, str]:
        return await operator.ask(command), unheard(agent, await everybody(operator))

    return with_operator(location, tell)


def warn(stranger: str, anyway: str, *, err: bool) -> int:
    """Print a doubt about an agent's name, if there is one, and return the exit code."""
    if not stranger:
        return 0
    click.echo(f"{stranger} {anyway}", err=err)
    return BLOCKED


def open_count(row: AgentSeen) -> int:
    """Return how many actions an agent was allowed and has not reported the end of."""
    return len(row.open_actions) + row.unreported


def busy(rows: Sequence[AgentSeen], agent: str | None = None) -> dict[str, int]:
    """Return how many actions are open, of each agent that has some, or of one."""
    counts = {row.agent: open_count(row) for row in rows if agent in {None, row.agent}}
    return {name: count for name, count in counts.items() if count}


def still_open(rows: Sequence[AgentSeen], agent: str | None = None) -> str:
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
