"""`approve`, `deny`, `defer` and `cancel`: an operator's answers to requests."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import anyio
import click
import msgspec

from safetyd.cards.request_details import RequestRow
from safetyd.clock import Clock
from safetyd.console.failure import BLOCKED, WrongUsage
from safetyd.console.help_page import SectionOption, command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import connected, with_operator
from safetyd.console.options import also_named, json_option, reaches_daemon
from safetyd.console.render.layout import when
from safetyd.console.subcommands.confirmed_request import chosen_request
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

AT_ONCE: Final = 100  # maximum number of requests in one message to the daemon

AnyAnswer = ApproveCommand | DenyCommand | DeferCommand | CancelCommand

ids_argument = click.argument(
    "ids",
    metavar="ID...",
    nargs=-1,
    required=True,
    help="Ids of requests, as `safetyd list` shows them, or unique prefixes.",
)

# Why an approved action is held, and how to release it.
_REMEDIES: Final[Mapping[str, str]] = {
    "stopped": "an emergency stop is active. `safetyd status` says how to end it",
    "paused": "the agent is paused. To end that, run `safetyd unpause AGENT`",
    "safe_mode": "safe mode is active. To end it, run `safetyd safe-mode exit`",
    "breaker_open": "its circuit breaker is open. See `safetyd breakers`",
    "budget": "a budget is used up. See `safetyd budgets`",
}
_REFUSALS: Final[Mapping[str, str]] = {
    "not_found": "run `safetyd list` to see pending requests",
    "digest_mismatch": "run `safetyd show` to see the current version",
}


_grant_option = partial(click.option, cls=SectionOption, section="Grant")


@command(sends=ApproveCommand)
@click.argument("ids", metavar="[ID]...", nargs=-1, help="Ids of requests, or unique prefixes.")
@click.option("--last", is_flag=True, help="Show the newest pending request, and ask.")
@click.option("--agent", metavar="NAME", help="Show this agent's one pending request, and ask.")
@click.option("--message", default="", metavar="TEXT", help="A message to the agent.")
@also_named("message", "reason")
@click.option(
    "--digest", default="", metavar="HEX", help="Approve only the version with this digest."
)
@_grant_option("--grant", is_flag=True, help="Also allow similar actions for a while.")
@_grant_option("--program", is_flag=True, help="Cover the unknown program with any arguments.")
@_grant_option("--session", is_flag=True, help="Cover only the session of the request.")
@_grant_option(
    "--uses",
    type=click.IntRange(1, 1000),
    metavar="N",
    default=5,
    show_default=True,
    help="How many actions the grant covers.",
)
@_grant_option(
    "--for",
    "for_",
    default="8h",
    show_default=True,
    metavar="TIME",
    help="How long the grant lasts.",
)
@json_option
@reaches_daemon
def approve(  # noqa: PLR0913, PLR0917 - the options of a command
    location: Location,
    ids: tuple[str, ...],
    message: str,
    digest: str,
    uses: int,
    for_: str,
    agent: str | None,
    *,
    last: bool,
    grant: bool,
    program: bool,
    session: bool,
    as_json: bool,
) -> int:
    """If several operators answer, the first answer counts. With --grant, similar actions of the
    agent are allowed for a while. `safetyd show ID` says which actions.

    --last and --agent show the request and ask you, so they need a terminal. In a script, use an ID
    and the --digest of the action that you checked.

    For example:
      safetyd approve --last
      safetyd approve req_3f2a
      safetyd approve req_3f2a --message "use the staging server"
      safetyd approve req_3f2a --grant --uses 10 --for 2h
    """
    if bool(ids) + last + (agent is not None) != 1:
        raise WrongUsage("give IDs of requests, --last or --agent NAME")
    if not ids:
        if digest or as_json:
            raise WrongUsage("--digest and --json need an ID")
        if (shown := chosen_request(location, agent)) is None:
            return BLOCKED
        ids, digest = (shown.id,), shown.digest
    if (digest or grant) and len(ids) > 1:
        option = "--grant" if grant else "--digest"
        raise WrongUsage(f"{option} needs exactly one ID, but {len(ids)} were given")
    if (program or session) and not grant:
        raise WrongUsage("--program and --session need --grant")
    terms = None
    if grant:
        until = meant(for_, Clock().now().at)
        terms = RequestGrantTerms(uses=uses, until=until, program=program, session=session)
    command = ApproveCommand(ids=ids, message=message, digest=digest, grant=terms)
    return _answer(location, command, _approved, as_json=as_json)


@command(sends=DenyCommand, widens=("--agent", "--once"))
@click.argument("ids", metavar="[ID]...", nargs=-1, help="Ids of requests, or unique prefixes.")
@click.option("--agent", metavar="NAME", help="Deny all pending requests of this agent.")
@click.option("--yes", is_flag=True, help="With --agent: do not ask for confirmation.")
@click.option("--reason", default="", metavar="TEXT", help="The reason, which the agent receives.")
@also_named("reason", "message")
@click.option("--once", is_flag=True, help="Let the agent request the same action again.")
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
    """If the agent proposes the same action again within a day, it is denied automatically. With
    --once, such a proposal creates a new request instead. `safetyd deny ID --once` also ends an
    earlier automatic denial.

    For example:
      safetyd deny req_3f2a --reason "not before Monday"
      safetyd deny --agent crawler
    """
    if bool(ids) is (agent is not None):
        raise WrongUsage("give either IDs of requests or --agent NAME")
    if agent is not None:
        rows = with_operator(location, lambda operator: waiting(operator, agent))
        _show(rows, agent, err=as_json)
        if not rows or not (yes or _confirmed(len(rows))):
            return BLOCKED if rows else 0
        ids = tuple(row.id for row in rows)
    command = DenyCommand(ids=ids, reason=reason, once=once)
    return _answer(location, command, _denied_once if once else _denied, as_json=as_json)


@command(sends=DeferCommand)
@ids_argument
@click.option(
    "--until",
    required=True,
    metavar="TIME",
    help="2h, 30min, 'tomorrow 9:00' in local time, or RFC 3339.",
)
@json_option
@reaches_daemon
def defer(location: Location, ids: tuple[str, ...], until: str, *, as_json: bool) -> int:
    """Their deadlines are extended by the same time.

    For example:
      safetyd defer req_3f2a --until "tomorrow 9:00"
    """
    later = meant(until, Clock().now().at)
    said = f"deferred until {when(later)}"
    return _answer(location, DeferCommand(ids=ids, until=later), lambda _: said, as_json=as_json)


@command(sends=CancelCommand)
@ids_argument
@json_option
@reaches_daemon
def cancel(location: Location, ids: tuple[str, ...], *, as_json: bool) -> int:
    """Cancelled actions do not run.

    For example:
      safetyd cancel req_3f2a req_91bc
    """
    return _answer(location, CancelCommand(ids=ids), lambda _: "cancelled", as_json=as_json)


def _show(rows: Sequence[RequestRow], agent: str, *, err: bool) -> None:
    """Print how many pending requests an agent has, by type."""
    if not rows:
        click.echo(f"{plain(agent)} has no pending requests.", err=err)
        return
    counts = Counter(row.type for row in rows).most_common()
    types = ", ".join(f"{count} x {plain(kind)}" for kind, count in counts)
    click.echo(f"{plain(agent)} has {several(len(rows), 'pending request')}: {types}", err=err)


def _confirmed(count: int) -> bool:
    question = f"Deny {several(count, 'request')}?"
    if sys.stdin.isatty():
        return click.confirm(question, default=False, err=True)
    click.echo("Nothing was denied. Without a terminal, confirm with --yes.", err=True)
    return False


def _answer(
    location: Location, command: AnyAnswer, done: Callable[[ReviewResult], str], *, as_json: bool
) -> int:
    """Answer each request, print the results and return the exit code."""
    results = anyio.run(_review, location, command)
    if as_json:
        click.echo(document({"ok": True, "results": results}))
    else:
        for result in results:
            said = done(result) if result.ok else _refused(result)
            click.echo(f"{plain(result.id)}: {said}", err=not result.ok)
    return 0 if all(result.ok for result in results) else BLOCKED


async def _review(location: Location, command: AnyAnswer) -> list[ReviewResult]:
    """Answer all requests, with as many messages as needed."""
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
        return f"approved, with grant {plain(result.grant)}; see `safetyd grants`"
    why = _REMEDIES.get(held, f"a guard blocks it ({plain(held)})")
    return f"approved, but HELD: {why}. The approval stays valid: the agent can retry the action"


def _denied(result: ReviewResult) -> str:
    lift = f"To deny it only this time, run `safetyd deny {plain(result.id)} --once`"
    return f"denied; the same action stays denied for one day. {lift}"


def _denied_once(_: ReviewResult) -> str:
    return "denied, once"


def _refused(result: ReviewResult) -> str:
    if result.code == "expired":
        return "expired without an answer; the agent can request it again"
    if result.code == "already_decided":
        by = f"{plain(result.by)} via {plain(result.via)}"
        return f"already {plain(result.decision)} by {by} at {when(result.at)}"
    remedy = _REFUSALS.get(result.code or "")
    return f"{plain(result.error)}{f'; {remedy}' if remedy else ''}"
