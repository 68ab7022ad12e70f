"""Grants: listed, made and revoked; and the rules that people's answers suggest."""

from functools import partial
from typing import Any

import click

from safetyd.clock import Clock
from safetyd.console.agent_list import tell_about, warn
from safetyd.console.help_page import SectionOption, group
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask
from safetyd.console.options import Decorator, call_command, json_option, reaches_daemon, together
from safetyd.console.render import grant_list
from safetyd.console.render.layout import when
from safetyd.console.terminal_text import document, plain, several
from safetyd.console.time_input import until
from safetyd.operators.contract.grant_contract import (
    GrantCommand,
    GrantsQuestion,
    RevokeCommand,
    SuggestionsQuestion,
)

grants = call_command("grants", GrantsQuestion, grant_list.grants)


@group()
def grant() -> None:
    """Permit a kind of action for a while, or end that."""


def grant_options(*, required: bool) -> Decorator:
    """Return the options that say what a grant permits: to make one, or only to try it."""
    kind: dict[str, Any] = {} if required else {"cls": SectionOption, "section": "Grant"}
    option = partial(click.option, **kind)
    return together(
        option("--agent", required=required, metavar="A", help="Whom it is for."),
        option("--type", metavar="T", help="Only this type of action."),
        option("--rule", metavar="R", help="A rule that it lifts, even if that blocks."),
        option("--text", metavar="RE2", help="A pattern that all words of a proposal match."),
        option("--path", "paths", multiple=True, metavar="GLOB", help="What each path matches."),
        option(
            "--uses", type=click.IntRange(1, 1000), required=required, help="How often, at most."
        ),
        option("--for", "for_", required=required, metavar="2h", help="How long, at most."),
        option("--max-usd", type=click.FloatRange(min=0), help="What all of it may cost."),
        option("--reason", required=required, help="Why; it is recorded."),
    )


@grant.command("add", sends=GrantCommand)
@grant_options(required=True)
@json_option
@reaches_daemon
def grant_add(location: Location, agent: str, for_: str, *, as_json: bool, **terms: Any) -> int:
    """A grant lifts what the type of an action is asked about. With --rule it lifts that rule of
    classify or of the gate's blocklist instead, even where it blocks; it then needs --text or
    --path and has at most 20 uses and 24 h. The rule gate.own it lifts for one exact --text only.
    Others have at most 7 days. None lets an agent speak to a person, and none lifts a stop, a
    pause, safe mode, a limit, a budget or a breaker.
    """
    ends = until(for_, Clock().now().at)
    command = GrantCommand(agent=agent, until=ends, **terms)
    reply, stranger = tell_about(location, agent, command)
    uses = several(command.uses, "use")
    if as_json:
        click.echo(document(reply))
    else:
        click.echo(f"{plain(reply.id)}: {uses} for {plain(agent)} until {when(reply.until)}.")
        click.echo(f"It ends at once with `safetyd grant revoke {plain(reply.id)}`.")
    return warn(stranger, "The grant holds for that name anyway.", err=as_json)


@grant.command("revoke", sends=RevokeCommand)
@click.argument("id_", metavar="ID")
@click.option("--reason", default="", help="Why; it is recorded.")
@json_option
@reaches_daemon
def grant_revoke(location: Location, id_: str, reason: str, *, as_json: bool) -> None:
    reply = ask(location, RevokeCommand(id=id_, reason=reason))
    said = f"{plain(id_)} is revoked; {several(reply.left, 'use')} had been left."
    click.echo(document(reply) if as_json else said)


suggestions = call_command(
    "suggestions",
    SuggestionsQuestion,
    grant_list.suggestions,
    about="""An exact text of one agent, type and project that was approved five times and never
    denied might be allowed; a kind of action that was only ever denied might be blocked. Nothing
    applies by itself.
    """,
)
