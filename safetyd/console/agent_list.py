"""The daemon's list of agents: known names, and actions without an outcome."""

import difflib
from collections.abc import Sequence
from typing import Final, TypeVar

import click

from safetyd.console.failure import BLOCKED
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ANSWER_S, OperatorConnection, with_operator
from safetyd.console.terminal_text import plain, several
from safetyd.operators.contract.agent_contract import AgentSeen, AgentsQuestion
from safetyd.operators.contract.question import Command
from safetyd.operators.replies import Done

Answer = TypeVar("Answer", bound=Done)

MAX_IDS: Final = 5  # of open actions


async def everybody(
    operator: OperatorConnection, *, patience_s: float = ANSWER_S
) -> list[AgentSeen]:
    """Return all agents, with as many queries as needed."""
    rows: list[AgentSeen] = []
    more = True
    while more:
        question = AgentsQuestion(after=rows[-1].agent if rows else "")
        answer = await operator.ask(question, patience_s=patience_s)
        rows += answer.agents
        more = answer.more
    return rows


def unheard(agent: str | None, rows: Sequence[AgentSeen] | None) -> str:
    """If the agent is unknown, return a warning that suggests the most similar known name."""
    if agent is None or rows is None or any(row.agent == agent for row in rows):
        return ""
    near = difflib.get_close_matches(agent, [row.agent for row in rows], n=1)
    meant = f" Did you mean {plain(near[0])}?" if near else ""
    return f"Unknown agent {plain(agent)}.{meant}"


def tell_about(location: Location, agent: str, command: Command[Answer]) -> tuple[Answer, str]:
    """Send a command about one agent. Return its answer, and a warning if the agent is unknown."""

    async def tell(operator: OperatorConnection) -> tuple[Answer, str]:
        return await operator.ask(command), unheard(agent, await everybody(operator))

    return with_operator(location, tell)


def warn(stranger: str, anyway: str, *, err: bool) -> int:
    """Print the warning about an unknown agent, if there is one. Return the exit code."""
    if not stranger:
        return 0
    click.echo(f"{stranger} {anyway}", err=err)
    return BLOCKED


def open_count(row: AgentSeen) -> int:
    """Return how many allowed actions of an agent have no outcome yet."""
    return len(row.open_actions) + row.unreported


def busy(rows: Sequence[AgentSeen], agent: str | None = None) -> dict[str, int]:
    """Return the number of open actions of each agent that has any, or of one agent."""
    counts = {row.agent: open_count(row) for row in rows if agent in {None, row.agent}}
    return {name: count for name, count in counts.items() if count}


def still_open(rows: Sequence[AgentSeen], agent: str | None = None) -> str:
    """Return a warning about allowed actions that may still be running, if there are any."""
    counts = busy(rows, agent)
    if not counts:
        return ""
    total = sum(counts.values())
    whose = ", ".join(f"{plain(name)} {count}" for name, count in counts.items())
    have, them = ("has", "it") if total == 1 else ("have", "them")
    ids = [id_ for row in rows if row.agent in counts for id_ in row.open_actions][:MAX_IDS]
    shown = "".join(f"\n  `safetyd explain {plain(id_)}`" for id_ in ids)
    more = f"\n  and {total - len(ids)} more: `safetyd agents`" if total > len(ids) else ""
    return (
        f"{several(total, 'allowed action')} {have} no outcome yet and may still be running "
        f"({whose}). Check {them} manually:{shown}{more}"
    )
