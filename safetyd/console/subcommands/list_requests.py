"""`list`, `show` and `log`: what waits for a person, and how it ended."""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import click

from safetyd.cards.request_details import RequestDetails
from safetyd.clock import Clock
from safetyd.console.history.change_diff import change_of
from safetyd.console.locations import Location
from safetyd.console.operator_connection import Reply, connected, query
from safetyd.console.options import json_option, reaches_daemon, sends
from safetyd.console.render.request_tables import history, queue
from safetyd.console.render.terminal_card import Change, card
from safetyd.console.terminal_text import columns, document
from safetyd.operators.contract.request_contract import (
    HistoryQuestion,
    PendingQuestion,
    RequestQuestion,
)

MAX_LOG: Final = 1000  # the daemon remembers about as many; the audit files have them all

Ask = Callable[..., Awaitable[Reply]]


@sends(PendingQuestion)
@click.command("list")
@click.option("--agent", metavar="A", help="Only what this agent asks.")
@click.option("--all", "all_", is_flag=True, help="A line each, also for types nobody knows.")
@json_option
@reaches_daemon
def listed(location: Location, agent: str | None, *, all_: bool, as_json: bool) -> None:
    """The most urgent come first.

    Requests of one agent for one type of action that is not known stand on one line.
    """
    rows, told = anyio.run(_waiting, location, agent)
    shown = document({"ok": True, "requests": rows}) if as_json else queue(rows, told, all_=all_)
    click.echo(shown)


@sends(RequestQuestion)
@click.command()
@click.argument("id_", metavar="ID")
@json_option
@reaches_daemon
def show(location: Location, id_: str, *, as_json: bool) -> None:
    """ID may be cut short as long as it names one request."""
    if as_json:
        click.echo(document(query(location, "request", id=id_)))
        return
    details, change = anyio.run(_request, location, id_)
    click.echo(card(details, Clock().now().at, columns(), change))


@sends(HistoryQuestion)
@click.command()
@click.option("--limit", type=click.IntRange(1, MAX_LOG), default=20, show_default=True)
@json_option
@reaches_daemon
def log(location: Location, limit: int, *, as_json: bool) -> None:
    """Each with who answered, how, and how long it took."""
    rows = anyio.run(_ended, location, limit)
    click.echo(document({"ok": True, "history": rows}) if as_json else history(rows))


async def _request(location: Location, id_: str) -> tuple[RequestDetails, Change | None]:
    """Return a request and, if it was done, the diff of what it changed."""
    async with connected(location) as operator:
        details = (await operator.ask(RequestQuestion(id=id_))).request
        return details, await change_of(operator, details.change)


async def _waiting(location: Location, agent: str | None) -> tuple[list[Reply], list[str]]:
    """Return what waits, and the channels on which people are told."""
    async with connected(location) as operator:
        rows = await waiting(operator.query, agent)
        first = await operator.query("pending", agent=agent, limit=1)
        return rows, first["channels"]


async def _ended(location: Location, limit: int) -> list[Reply]:
    async with connected(location) as operator:
        return await ended(operator.query, limit)


async def waiting(ask: Ask, agent: str | None = None) -> list[Reply]:
    """Return every open request, oldest first, however many questions that takes."""
    answer = await ask("pending", agent=agent)
    rows: list[Reply] = answer["requests"]
    while answer["more"]:
        answer = await ask("pending", agent=agent, after=rows[-1]["id"])
        rows += answer["requests"]
    return rows


async def ended(ask: Ask, limit: int = MAX_LOG) -> list[Reply]:
    """Return the newest ends of requests, at most `limit`."""
    answer = await ask("history", limit=limit)
    rows: list[Reply] = answer["history"]
    while answer["more"] and len(rows) < limit:
        left = limit - len(rows)
        answer = await ask("history", limit=left, after=rows[-1]["request_id"])
        rows += answer["history"]
    return rows
