"""`status`, `agents` and `version`."""

import platform
import subprocess
from importlib import metadata
from typing import Final

import anyio
import click
import msgspec

from safetyd import __version__
from safetyd.bus.embedded_server import ServerMissing, shipped_binary
from safetyd.console.agent_list import everybody, unheard
from safetyd.console.failure import Failure
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import connected, with_operator
from safetyd.console.options import call_command, json_option, reaches_daemon
from safetyd.console.render import agent_tables
from safetyd.console.render.status_page import status as shown
from safetyd.console.terminal_text import document, plain
from safetyd.operators.contract.agent_contract import (
    AgentAnswer,
    AgentQuestion,
    AgentsQuestion,
)
from safetyd.operators.contract.decision_contract import DecisionsQuestion, Row
from safetyd.operators.contract.status_contract import StatusQuestion

RUN_S: Final = 5.0
LATEST: Final = 100  # decisions and events of one agent, before equal ones are merged


status = call_command(
    "status",
    StatusQuestion,
    shown,
    about="""The output begins with problems, and ends with the most important agents.

    For example:
      safetyd status
      safetyd status --json
    """,
)


@command(sends=AgentsQuestion)
@click.argument("name", default="", help="Show everything about this agent.")
@json_option
@reaches_daemon
def agents(location: Location, name: str, *, as_json: bool) -> None:
    """With NAME, this shows the agent's stops and pauses, limits, spending, usual behaviour and
    latest decisions.

    For example:
      safetyd agents
      safetyd agents crawler
    """
    if name:
        known, timeline = anyio.run(_one, location, name)
        facts = {**msgspec.to_builtins(known), "timeline": timeline}
        click.echo(document(facts) if as_json else agent_tables.agent(known, timeline))
        return
    rows = with_operator(location, everybody)
    click.echo(document({"ok": True, "agents": rows}) if as_json else agent_tables.agents(rows))


async def _one(location: Location, name: str) -> tuple[AgentAnswer, tuple[Row, ...]]:
    async with connected(location) as operator:
        try:
            known = await operator.ask(AgentQuestion(agent=name))
            question = DecisionsQuestion(what="all", agent=name, limit=LATEST)
            return known, (await operator.ask(question)).rows
        except Failure as exc:
            if exc.code != "not_found":
                raise
            raise Failure(unheard(name, await everybody(operator)), exc.code) from None


@command()
@json_option
def version(*, as_json: bool) -> None:
    """Print the versions of safetyd and its parts.

    For example:
      safetyd version --json
    """
    found = {
        "safetyd": __version__,
        "python": platform.python_version(),
        "nats-py": metadata.version("nats-py"),
        "nats-server": nats_server_version(),
    }
    if as_json:
        click.echo(document({"ok": True, **found}))
        return
    for name, number in found.items():
        click.echo(f"{name:<12} {plain(number)}")


def nats_server_version(binary: str = "") -> str:
    """Return the version of nats-server, or `missing:` and the reason."""
    try:
        command = [binary or shipped_binary(), "--version"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=RUN_S)  # noqa: S603
    except (ServerMissing, OSError, subprocess.SubprocessError) as exc:
        return f"missing: {exc}"
    return done.stdout.strip().removeprefix("nats-server: v")
