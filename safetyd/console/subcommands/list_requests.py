"""`list`, `show` and `log`: pending requests, and past answers."""

from typing import Final

import anyio
import click

from safetyd.cards.request_details import RequestDetails, RequestEnded, RequestRow
from safetyd.clock import Clock
from safetyd.console.failure import Failure
from safetyd.console.file_history.list_history import change_of
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import OperatorConnection, ask, connected, with_operator
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.request_tables import history, queue
from safetyd.console.render.terminal_card import Change, card
from safetyd.console.terminal_text import columns, document
from safetyd.operators.contract.request_contract import (
    HistoryQuestion,
    PendingQuestion,
    RequestQuestion,
)
from safetyd.operators.contract.status_contract import StatusQuestion, Waiting

MAX_LOG: Final = 1000  # the daemon remembers about this many; the audit files have all


@command("list", sends=PendingQuestion)
@click.option("--agent", metavar="NAME", help="Only requests of this agent.")
@click.option(
    "--all", "all_", is_flag=True, help="Print one line per request, even for unknown types."
)
@json_option
@reaches_daemon
def listed(location: Location, agent: str | None, *, all_: bool, as_json: bool) -> None:
    """The most urgent come first. Requests of one agent for the same unknown type share a line.

    For example:
      safetyd list
      safetyd list --agent crawler --all
    """
    rows, known = anyio.run(_waiting, location, agent)
    if as_json:
        click.echo(document({"ok": True, "requests": rows}))
    else:
        click.echo(queue(rows, known.channels, known.down, known.unsent, all_=all_))


@command(sends=RequestQuestion)
@click.argument("id_", metavar="ID", help="The id of a request, or a unique prefix.")
@json_option
@reaches_daemon
def show(location: Location, id_: str, *, as_json: bool) -> None:
    """The output shows the action, its risk and cost, why it needs approval, and earlier answers.

    For example:
      safetyd show req_3f2a
    """
    if as_json:
        click.echo(document(ask(location, RequestQuestion(id=id_))))
        return
    try:
        details, change = anyio.run(_request, location, id_)
    except Failure as exc:
        if exc.code != "not_found":
            raise
        hint = "run `safetyd list` to see pending requests"
        raise Failure(f"{exc.message}; {hint}", exc.code) from exc
    click.echo(card(details, Clock().now().at, columns(), change))


@command(sends=HistoryQuestion)
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_LOG),
    metavar="N",
    default=20,
    show_default=True,
    help="How many.",
)
@json_option
@reaches_daemon
def log(location: Location, limit: int, *, as_json: bool) -> None:
    """The output shows who answered, on which channel, and how long it took.

    For example:
      safetyd log --limit 5
    """
    rows = with_operator(location, lambda operator: ended(operator, limit))
    click.echo(document({"ok": True, "history": rows}) if as_json else history(rows))


async def _request(location: Location, id_: str) -> tuple[RequestDetails, Change | None]:
    """Return a request and, if its action ran, the diff of its changes."""
    async with connected(location) as operator:
        details = (await operator.ask(RequestQuestion(id=id_))).request
        return details, await change_of(operator, details.change)


async def _waiting(location: Location, agent: str | None) -> tuple[list[RequestRow], Waiting]:
    """Return pending requests, and how operators are notified of them."""
    async with connected(location) as operator:
        rows = await waiting(operator, agent)
        return rows, (await operator.ask(StatusQuestion())).requests


async def waiting(operator: OperatorConnection, agent: str | None = None) -> list[RequestRow]:
    """Return all pending requests, oldest first, with as many queries as needed."""
    rows: list[RequestRow] = []
    more = True
    while more:
        after = rows[-1].id if rows else ""
        answer = await operator.ask(PendingQuestion(agent=agent, after=after))
        rows += answer.requests
        more = answer.more
    return rows


async def ended(operator: OperatorConnection, limit: int = MAX_LOG) -> list[RequestEnded]:
    """Return the `limit` requests that ended last, newest first."""
    rows: list[RequestEnded] = []
    more = True
    while more and len(rows) < limit:
        after = rows[-1].request_id if rows else ""
        answer = await operator.ask(HistoryQuestion(limit=limit - len(rows), after=after))
        rows += answer.history
        more = answer.more
    return rows
