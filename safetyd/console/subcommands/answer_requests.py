"""`approve`, `deny`, `defer` and `cancel`: what people answer, to several requests at once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import anyio
import click

from safetyd.clock import Clock
from safetyd.console.failure import BLOCKED, WrongUsage
from safetyd.console.locations import Location
from safetyd.console.operator_connection import Reply, connected
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.layout import when
from safetyd.console.terminal_text import document, plain
from safetyd.console.time_input import until as meant

ids_argument = click.argument("ids", metavar="ID...", nargs=-1, required=True)

# What ends it, by what holds an approved action back.
_REMEDIES: Final[Mapping[str, str]] = {
    "stopped": "a stop holds: `safetyd resume` ends it",
    "paused": "the agent is paused: `safetyd unpause AGENT` ends it",
    "safe_mode": "safe mode holds: `safetyd safe-mode exit` ends it",
    "breaker_open": "its breaker is open: `safetyd breakers` says for how long",
    "budget": "a budget is used up: `safetyd budgets` shows which",
}
_REFUSALS: Final[Mapping[str, str]] = {
    "not_found": "`safetyd list` shows what waits",
    "digest_mismatch": "`safetyd show` has it as it is now",
}


@click.command()
@ids_argument
@click.option("--message", default="", help="What the agent is told.")
@click.option("--digest", default="", help="Only what has this digest, as `show` gives it.")
@json_option
@reaches_daemon
def approve(
    location: Location, ids: Sequence[str], message: str, digest: str, *, as_json: bool
) -> int:
    """Let what was asked happen, once.

    An ID may be cut short as far as it names one request. The first answer counts.
    """
    if digest and len(ids) > 1:
        raise WrongUsage("--digest names one request, so give one ID with it")
    fields = {"ids": ids, "message": message, "digest": digest}
    return _answer(location, "approve", fields, _approved, as_json=as_json)


@click.command()
@ids_argument
@click.option("--reason", default="", help="Why; the agent is told.")
@json_option
@reaches_daemon
def deny(location: Location, ids: Sequence[str], reason: str, *, as_json: bool) -> int:
    """Say no. What was asked does not happen."""
    fields = {"ids": ids, "reason": reason}
    return _answer(location, "deny", fields, lambda _: "denied", as_json=as_json)


@click.command()
@ids_argument
@click.option("--until", required=True, help="2h, 30min, 'tomorrow 9:00' or RFC 3339.")
@json_option
@reaches_daemon
def defer(location: Location, ids: Sequence[str], until: str, *, as_json: bool) -> int:
    """Put requests off; they stay open.

    Their deadlines move along.
    """
    later = meant(until, Clock().now().at)
    said = f"put off until {when(later)}"
    fields = {"ids": ids, "until": later}
    return _answer(location, "defer", fields, lambda _: said, as_json=as_json)


@click.command()
@ids_argument
@json_option
@reaches_daemon
def cancel(location: Location, ids: Sequence[str], *, as_json: bool) -> int:
    """Withdraw requests that nobody needs to answer any more. What was asked does not happen."""
    return _answer(location, "cancel", {"ids": ids}, lambda _: "cancelled", as_json=as_json)


def _answer(
    location: Location, command: str, fields: Reply, done: Callable[[Reply], str], *, as_json: bool
) -> int:
    """Give an answer to each request, tell what came of it, and return the exit code."""
    reply = anyio.run(_review, location, command, fields)
    if as_json:
        click.echo(document(reply))
    else:
        for result in reply["results"]:
            said = done(result) if result["ok"] else _refused(result)
            click.echo(f"{plain(result['id'])}: {said}", err=not result["ok"])
    return 0 if all(result["ok"] for result in reply["results"]) else BLOCKED


async def _review(location: Location, command: str, fields: Reply) -> Reply:
    async with connected(location) as operator:
        return await operator.review(command, **fields)


def _approved(result: Reply) -> str:
    held = result.get("held")
    if held is None:
        return "approved, once"
    why = _REMEDIES.get(held, f"a guard holds it back ({plain(held)})")
    return f"approved, but HELD: {why}. The approval stays good; the agent must propose it again"


def _refused(result: Reply) -> str:
    if result["code"] == "expired":
        return "nobody answered in time; the agent may ask again"
    if result["code"] == "already_decided":
        by = f"{plain(result['by'])} via {plain(result['via'])}"
        return f"already {plain(result['decision'])} by {by} at {when(result['at'])}"
    remedy = _REFUSALS.get(result["code"])
    return f"{plain(result['error'])}{f'; {remedy}' if remedy else ''}"
