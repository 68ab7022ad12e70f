"""`approve`, `deny`, `defer` and `cancel`: what people answer, to several requests at once."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import anyio
import click
import msgspec

from safetyd.cards.request_details import RequestRow
from safetyd.clock import Clock
from safetyd.console.failure import BLOCKED, WrongUsage
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import connected, with_operator
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.layout import when
from safetyd.console.subcommands.list_requests import waiting
from safetyd.console.terminal_text import document, plain, several
from safetyd.console.time_input import until as meant
from safetyd.operators.contract.grant_contract import RequestGrantTerms
from safetyd.operators.contract.request_contract import (
    ApproveCommand,
    CancelCommand,
    DeferCommand,
    DenyCommand,
    ReviewResult,
)

AT_ONCE: Final = 100  # requests that one command answers

AnyAnswer = ApproveCommand | DenyCommand | DeferCommand | CancelCommand

ids_argument = click.argument("ids", metavar="ID...", nargs=-1, required=True)

# What ends it, by what holds an approved action back.
_REMEDIES: Final[Mapping[str, str]] = {
    "stopped": "a stop is in force: see `safetyd status`, which says how to end it",
    "paused": "the agent is paused: `safetyd unpause AGENT` ends it",
    "safe_mode": "safe mode holds: `safetyd safe-mode exit` ends it",
    "breaker_open": "its breaker is open: `safetyd breakers` says for how long",
    "budget": "a budget is used up: `safetyd budgets` shows which",
}
_REFUSALS: Final[Mapping[str, str]] = {
    "not_found": "`safetyd list` shows what waits",
    "digest_mismatch": "`safetyd show` has it as it is now",
}


@command(sends=ApproveCommand)
@ids_argument
@click.option("--message", default="", help="What the agent is told.")
@click.option("--digest", default="", help="Only what has this digest, as `show` gives it.")
@click.option("--grant", is_flag=True, help="Permit the same again for a while; see `show`.")
@click.option("--program", is_flag=True, help="With --grant: all that an unknown program does.")
@click.option("--session", is_flag=True, help="With --grant: in the session of the request alone.")
@click.option(
    "--uses",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="With --grant: how often.",
)
@click.option("--for", "for_", default="8h", metavar="TIME", help="With --grant: 2h, 7d.")
@json_option
@reaches_daemon
def approve(  # noqa: PLR0913
    location: Location,
    ids: tuple[str, ...],
    message: str,
    digest: str,
    uses: int,
    for_: str,
    *,
    grant: bool,
    program: bool,
    session: bool,
    as_json: bool,
) -> int:
    """An ID may be cut short as far as it names one request. The first answer counts. With --grant
    the same is permitted for a while: the shape that `safetyd show` gives, which is the command
    with blanks for paths in the project.
    """
    if (digest or grant) and len(ids) > 1:
        option = "--grant" if grant else "--digest"
        raise WrongUsage(f"{option} is about one request, so give one ID with it")
    if (program or session) and not grant:
        raise WrongUsage("--program and --session say what a grant covers: add --grant")
    terms = None
    if grant:
        until = meant(for_, Clock().now().at)
        terms = RequestGrantTerms(uses=uses, until=until, program=program, session=session)
    command = ApproveCommand(ids=ids, message=message, digest=digest, grant=terms)
    return _answer(location, command, _approved, as_json=as_json)


@command(sends=DenyCommand)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--agent", metavar="A", help="All that this agent asks, after showing how much.")
@click.option("--yes", is_flag=True, help="Deny all of an agent without asking you.")
@click.option("--reason", default="", help="Why; the agent is told.")
@click.option("--once", is_flag=True, help="Let the agent ask for the same again at once.")
@json_option
@reaches_daemon
def deny(  # noqa: PLR0913
    location: Location,
    ids: tuple[str, ...],
    agent: str | None,
    reason: str,
    *,
    yes: bool,
    once: bool,
    as_json: bool,
) -> int:
    """The actions do not run.

    For a day the same action is denied without asking you. With --once the agent may ask for it
    again; after a denial, `safetyd deny ID --once` lifts it.
    """
    if bool(ids) is (agent is not None):
        raise WrongUsage("give the IDs of requests, or all of an agent with --agent")
    if agent is not None:
        rows = with_operator(location, lambda operator: waiting(operator, agent))
        _show(rows, agent, err=as_json)
        if not rows or not (yes or _confirmed(len(rows))):
            return BLOCKED if rows else 0
        ids = tuple(row.id for row in rows)
    command = DenyCommand(ids=ids, reason=reason, once=once)
    said = "denied, once" if once else "denied; the same is denied for a day without asking"
    return _answer(location, command, lambda _: said, as_json=as_json)


@command(sends=DeferCommand)
@ids_argument
@click.option(
    "--until", required=True, help="2h, 30min, 'tomorrow 9:00' on your clock, or RFC 3339."
)
@json_option
@reaches_daemon
def defer(location: Location, ids: tuple[str, ...], until: str, *, as_json: bool) -> int:
    """Their deadlines move along."""
    later = meant(until, Clock().now().at)
    said = f"put off until {when(later)}"
    return _answer(location, DeferCommand(ids=ids, until=later), lambda _: said, as_json=as_json)


@command(sends=CancelCommand)
@ids_argument
@json_option
@reaches_daemon
def cancel(location: Location, ids: tuple[str, ...], *, as_json: bool) -> int:
    """The actions do not run."""
    return _answer(location, CancelCommand(ids=ids), lambda _: "cancelled", as_json=as_json)


def _show(rows: Sequence[RequestRow], agent: str, *, err: bool) -> None:
    """Say how much an agent asks, and of which types."""
    if not rows:
        click.echo(f"Nothing of {plain(agent)} waits for a person.", err=err)
        return
    counts = Counter(row.type for row in rows).most_common()
    types = ", ".join(f"{count} x {plain(kind)}" for kind, count in counts)
    waits = "waits" if len(rows) == 1 else "wait"
    click.echo(f"{several(len(rows), 'request')} of {plain(agent)} {waits}: {types}", err=err)


def _confirmed(count: int) -> bool:
    question = f"Deny {several(count, 'request')}?"
    if sys.stdin.isatty():
        return click.confirm(question, default=False, err=True)
    click.echo("Nothing is denied: there is no terminal to ask at, and no --yes.", err=True)
    return False


def _answer(
    location: Location, command: AnyAnswer, done: Callable[[ReviewResult], str], *, as_json: bool
) -> int:
    """Give an answer to each request, tell what came of it, and return the exit code."""
    results = anyio.run(_review, location, command)
    if as_json:
        click.echo(document({"ok": True, "results": results}))
    else:
        for result in results:
            said = done(result) if result.ok else _refused(result)
            click.echo(f"{plain(result.id)}: {said}", err=not result.ok)
    return 0 if all(result.ok for result in results) else BLOCKED


async def _review(location: Location, command: AnyAnswer) -> list[ReviewResult]:
    """Answer all, however many commands that takes."""
    results: list[ReviewResult] = []
    async with connected(location) as operator:
        for start in range(0, len(command.ids), AT_ONCE):
            some = msgspec.structs.replace(command, ids=command.ids[start : start + AT_ONCE])
            results += (await operator.ask(some)).results
    return results


def _approved(result: ReviewResult) -> str:
    held = result.held
    if held is None:
        if result.grant is None:
            return "approved, once"
        return f"approved, with grant {plain(result.grant)}; `safetyd grants` says what it covers"
    why = _REMEDIES.get(held, f"a guard holds it back ({plain(held)})")
    return f"approved, but HELD: {why}. The approval stays good; the agent must propose it again"


def _refused(result: ReviewResult) -> str:
    if result.code == "expired":
        return "nobody answered in time; the agent may ask again"
    if result.code == "already_decided":
        by = f"{plain(result.by)} via {plain(result.via)}"
        return f"already {plain(result.decision)} by {by} at {when(result.at)}"
    remedy = _REFUSALS.get(result.code or "")
    return f"{plain(result.error)}{f'; {remedy}' if remedy else ''}"
