"""Choose the one request that an operator means without its id, and confirm it at a terminal.

Ids are not searched for in texts, because agents write these.
"""

import sys
from typing import Final

import anyio
import click

from safetyd.cards.request_details import RequestDetails, RequestRow
from safetyd.clock import Clock
from safetyd.console.failure import Failure, WrongUsage
from safetyd.console.locations import Location
from safetyd.console.operator_connection import connected
from safetyd.console.render.terminal_card import card
from safetyd.console.subcommands.list_requests import waiting
from safetyd.console.terminal_text import columns, plain, several
from safetyd.operators.contract.request_contract import RequestQuestion

NO_TERMINAL: Final = "--last and --agent need a terminal. In a script, use an ID and --digest"


def chosen_request(location: Location, agent: str | None) -> RequestDetails | None:
    """Show the request that is meant, and return it if the operator confirms it.

    That is the agent's only pending request, or the newest of all agents. A request that arrives
    before the operator confirms makes the choice void.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise WrongUsage(NO_TERMINAL)
    shown = anyio.run(_shown, location, agent)
    if shown is None:
        click.echo(f"{plain(agent)} has no pending requests." if agent else "Nothing is pending.")
        return None
    click.echo(card(shown, Clock().now().at, columns()))
    question = f"Approve {plain(shown.id)}?"
    if not click.confirm(question, default=False):
        click.echo("Nothing was approved.")
        return None
    now = anyio.run(_meant, location, agent)
    if now is None or now.id != shown.id:
        what = f"{plain(now.id)} is newer" if now else "it is no longer pending"
        raise Failure(f"nothing was approved: {what}. Run the command again", "digest_mismatch")
    return shown


async def _shown(location: Location, agent: str | None) -> RequestDetails | None:
    """Return all details of the request that is meant."""
    meant = await _meant(location, agent)
    if meant is None:
        return None
    async with connected(location) as operator:
        return (await operator.ask(RequestQuestion(id=meant.id))).request


async def _meant(location: Location, agent: str | None) -> RequestRow | None:
    async with connected(location) as operator:
        rows = await waiting(operator, agent)
    if agent and len(rows) > 1:
        pending = several(len(rows), "pending request")
        choice = f"`safetyd list --agent {plain(agent)}` shows them"
        raise Failure(f"{plain(agent)} has {pending}, so name one by its ID; {choice}", "ambiguous")
    return rows[-1] if rows else None
