"""Commands that list, add and revoke grants, and that suggest rules from past answers."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from safetyd.clock import Clock
from safetyd.console.agent_list import tell_about, warn
from safetyd.console.failure import Failure
from safetyd.console.help_page import SectionOption, group
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask
from safetyd.console.options import Decorator, call_command, json_option, reaches_daemon, together
from safetyd.console.render import grant_list
from safetyd.console.render.layout import when
from safetyd.console.terminal_text import document, echo, plain, several
from safetyd.console.time_input import until
from safetyd.operators.contract.grant_contract import (
    GrantCommand,
    GrantsQuestion,
    RevokeCommand,
    SuggestionCommand,
    SuggestionRow,
    SuggestionsQuestion,
)

grants = call_command(
    "grants",
    GrantsQuestion,
    grant_list.grants,
    about="""The output shows what each grant allows, how many uses are left, and when it expires.

    For example:
      safetyd grants
    """,
)


@group()
def grant() -> None:
    """Allow a kind of action for a while.

    For example:
      safetyd grant add --agent code --type push --uses 3 --for 2h --reason hotfix
      safetyd grants
      safetyd grant revoke grt_5c21
    """


def grant_options(*, required: bool) -> Decorator:
    """Return the options of a grant. They are `required` to add one, but not to simulate one."""
    kind: dict[str, Any] = {} if required else {"cls": SectionOption, "section": "Grant"}
    option = partial(click.option, **kind)
    return together(
        option("--agent", required=required, metavar="NAME", help="The agent that gets the grant."),
        option("--type", metavar="TYPE", help="Only this type of action."),
        option("--rule", metavar="RULE", help="A rule to lift, even one that blocks."),
        option("--text", metavar="RE2", help="Only if the whole text matches this pattern."),
        option(
            "--path",
            "paths",
            multiple=True,
            metavar="GLOB",
            help="Only if every path matches. Can be repeated.",
        ),
        option(
            "--uses",
            type=click.IntRange(1, 1000),
            metavar="N",
            required=required,
            help="Maximum number of actions, up to 1000.",
        ),
        option(
            "--for",
            "for_",
            required=required,
            metavar="TIME",
            help="How long the grant is valid, such as 2h.",
        ),
        option(
            "--max-usd",
            type=click.FloatRange(min=0),
            metavar="USD",
            help="Maximum total cost in US dollars.",
        ),
        option("--reason", required=required, metavar="TEXT", help="Why, for the record."),
    )


@grant.command("add", sends=GrantCommand)
@grant_options(required=True)
@json_option
@reaches_daemon
def grant_add(location: Location, agent: str, for_: str, *, as_json: bool, **terms: Any) -> int:
    """By default, a grant covers actions that need approval because of their type. It is valid for
    at most 7 days.

    With --rule, the grant lifts this rule of classify or of the gate's blocklist, even if the rule
    blocks. Such a grant needs --text or --path, and is limited to 20 uses and 24 hours. For the
    rule gate.own, --text must match exactly one text.

    No grant allows an agent to contact people. No grant lifts a stop, a pause, safe mode, a limit,
    a budget or a circuit breaker.

    For example:
      safetyd grant add --agent code --type push --uses 3 --for 2h --reason hotfix
      safetyd grant add --agent code --path 'docs/*' --uses 9 --for 1d --reason docs
    """
    ends = until(for_, Clock().now().at)
    command = GrantCommand(agent=agent, until=ends, **terms)
    reply, stranger = tell_about(location, agent, command)
    uses = several(command.uses, "use")
    if as_json:
        click.echo(document(reply))
    else:
        click.echo(f"{plain(reply.id)}: {uses} for {plain(agent)} until {when(reply.until)}.")
        click.echo(f"To revoke it, run `safetyd grant revoke {plain(reply.id)}`.")
    return warn(stranger, "The grant applies to that name anyway.", err=as_json)


@grant.command("revoke", sends=RevokeCommand)
@click.argument("id_", metavar="ID", help="The id of a grant, as `safetyd grants` shows it.")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the record.")
@json_option
@reaches_daemon
def grant_revoke(location: Location, id_: str, reason: str, *, as_json: bool) -> None:
    """The change takes effect immediately.

    For example:
      safetyd grant revoke grt_5c21 --reason "the release is out"
    """
    reply = ask(location, RevokeCommand(id=id_, reason=reason))
    said = f"Revoked {plain(id_)}, which had {several(reply.left, 'use')} left."
    click.echo(document(reply) if as_json else said)


@group(invoke_without_command=True, sends=SuggestionsQuestion)
@json_option
@reaches_daemon
def suggestions(location: Location, *, as_json: bool) -> None:
    """A grant is suggested for actions of one shape that were approved ten times in a month and
    never denied. A rule that blocks is suggested for a kind of action that was always denied, and a
    rule that allows for an exact text that was approved five times. For a coding agent, a grant is
    suggested after three approvals of one kind in a session.

    For example:
      safetyd suggestions
      safetyd suggestions apply 1
    """
    if click.get_current_context().invoked_subcommand is None:
        echo(ask(location, SuggestionsQuestion()), grant_list.suggestions, as_json=as_json)


@suggestions.command("apply", sends=SuggestionCommand)
@click.argument("which", metavar="N", help="The number or id of a suggested grant.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@reaches_daemon
def suggestions_apply(location: Location, which: str, *, yes: bool, as_json: bool) -> None:
    """The command shows the grant and asks for confirmation. The grant ends after 30 days, or as
    soon as an operator denies a request of the same shape.

    For example:
      safetyd suggestions apply 1
      safetyd suggestions apply sug_5c21 --yes
    """
    row = _chosen(ask(location, SuggestionsQuestion()).suggestions, which)
    click.echo(grant_list.to_apply(row), err=as_json)
    if not yes:
        _confirm("Make this grant?")
    reply = ask(location, SuggestionCommand(id=row.id))
    if as_json:
        click.echo(document(reply))
    else:
        click.echo(f"Made {plain(reply.id)}, valid until {when(reply.until)}.")
        click.echo(f"To revoke it, run `safetyd grant revoke {plain(reply.id)}`.")


def _chosen(rows: Sequence[SuggestionRow], which: str) -> SuggestionRow:
    """Return a suggested grant by its number in the list or by its id."""
    listed = {str(number): row for number, row in enumerate(rows, 1)}
    row = {**listed, **{row.id: row for row in rows if row.id}}.get(which)
    if row is None:
        raise Failure(f"there is no suggestion {which!r}; see `safetyd suggestions`")
    if not row.id:
        todo = f"run `{plain(row.command)}`" if row.command else "add it to the configuration"
        raise Failure(f"suggestion {which} is not a grant for a month; to apply it, {todo}")
    return row


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise Failure("nothing was changed. Without a terminal, confirm with --yes")
    if not click.confirm(question, default=False, err=True):
        raise Failure("nothing was changed")
