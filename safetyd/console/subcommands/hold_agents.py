"""Commands that pause and limit agents, and that show the state of guards."""

from typing import Final, get_args

import click

from safetyd.console.agent_list import tell_about, warn
from safetyd.console.failure import BLOCKED, WrongUsage
from safetyd.console.help_page import command, group
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask
from safetyd.console.options import call_command, json_option, reaches_daemon, says_why
from safetyd.console.render import guard_tables, money_tables
from safetyd.console.render.status_page import pending
from safetyd.console.terminal_text import document, echo, plain
from safetyd.core.anonymous_pool import ANONYMOUS
from safetyd.core.guards.kernel import EVERYBODY
from safetyd.core.messages.money import MAX_USD
from safetyd.operators.contract.guard_contract import (
    AnomaliesQuestion,
    BreakersQuestion,
    BudgetsQuestion,
    LimitsQuestion,
    MoneyQuestion,
    RaiseCommand,
    RaisedScope,
    StrikeCommand,
    TypesQuestion,
)
from safetyd.operators.contract.hold_contract import (
    AckCommand,
    EnterCommand,
    ExitCommand,
    PauseCommand,
    ReloadCommand,
    Reloaded,
    ResetCommand,
    SafeModeLeft,
    SafeModeQuestion,
    UnpauseCommand,
)

RELOAD_S: Final = 15.0
RAISED: Final[dict[str, RaisedScope]] = {scope: scope for scope in get_args(RaisedScope)}

agent_argument = click.argument("agent", help="The name of an agent.")


@command(sends=PauseCommand)
@agent_argument
@says_why
@json_option
@reaches_daemon
def pause(location: Location, agent: str, reason: str, *, as_json: bool) -> int:
    """A paused agent can do nothing, not even read. To let it read, use `safetyd safe-mode enter`
    instead.

    For example:
      safetyd pause crawler "too many requests to the shop"
    """
    reply, stranger = tell_about(location, agent, PauseCommand(agent=agent, reason=reason))
    click.echo(document(reply) if as_json else f"{plain(agent)} is paused.")
    return warn(stranger, "The pause applies to that name anyway.", err=as_json)


@command(sends=UnpauseCommand)
@agent_argument
@json_option
@reaches_daemon
def unpause(location: Location, agent: str, *, as_json: bool) -> None:
    """The command ends all pauses of the agent, whether caused by operators, anomalies or budgets.

    For example:
      safetyd unpause crawler
    """
    reply, stranger = tell_about(location, agent, UnpauseCommand(agent=agent))
    said = guard_tables.unpaused(agent, reply)
    if stranger and not reply.cleared:
        said = f"{stranger} It was not paused."
    click.echo(document(reply) if as_json else said)


@command("safe-mode", sends=SafeModeQuestion)
@click.argument(
    "action",
    type=click.Choice(["status", "enter", "exit"]),
    default="status",
    help="Show, enter or leave safe mode.",
)
@click.option(
    "--agent",
    metavar="NAME",
    help='Only this agent. "*" means all agents, "*keyless" all anonymous agents.',
)
@click.option("--all", "all_", is_flag=True, help="With exit: end all safe modes.")
@click.option("--force", is_flag=True, help="With exit: skip the cooldown. Needs --reason.")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the record.")
@json_option
@reaches_daemon
def safe_mode(  # noqa: PLR0913 - one option each
    location: Location,
    action: str,
    agent: str | None,
    reason: str,
    *,
    all_: bool,
    force: bool,
    as_json: bool,
) -> int:
    """In safe mode, agents can only read.

    For example:
      safetyd safe-mode
      safetyd safe-mode enter --agent crawler --reason "investigating"
      safetyd safe-mode exit --agent crawler
    """
    _check(action, reason, leaving=all_ or force, force=force)
    if action == "enter":
        return _enter(location, agent, reason, as_json=as_json)
    if action == "exit":
        command = ExitCommand(agent=agent, all=all_, force=force, reason=reason)
        return _exit(ask(location, command), agent, as_json=as_json)
    question = SafeModeQuestion(agent=None if agent == EVERYBODY else agent)
    echo(ask(location, question), guard_tables.safe_mode, as_json=as_json)
    return 0


def _check(action: str, reason: str, *, leaving: bool, force: bool) -> None:
    """Reject options that do not apply to the action."""
    if leaving and action != "exit":
        raise WrongUsage("--all and --force work only with `safetyd safe-mode exit`")
    if force and not reason.strip():
        raise WrongUsage("--force needs --reason TEXT")
    if reason and action == "status":
        raise WrongUsage("--reason works only with enter and exit")


def _enter(location: Location, agent: str | None, reason: str, *, as_json: bool) -> int:
    whom, stranger = "All agents are", ""
    if agent is None or agent == EVERYBODY:
        reply = ask(location, EnterCommand(reason=reason))
    elif agent == ANONYMOUS:
        whom = "All anonymous agents are"
        reply = ask(location, EnterCommand(agent=agent, reason=reason))
    else:
        whom = f"{plain(agent)} is"
        command = EnterCommand(agent=agent, reason=reason)
        reply, stranger = tell_about(location, agent, command)
    said = f"{whom} in safe mode: only reading is allowed."
    click.echo(document(reply) if as_json else said)
    return warn(stranger, "Safe mode applies to that name anyway.", err=as_json)


def _exit(reply: SafeModeLeft, agent: str | None, *, as_json: bool) -> int:
    click.echo(document(reply) if as_json else guard_tables.left(agent, reply))
    return BLOCKED if reply.more else 0


ack = call_command(
    "ack",
    AckCommand,
    lambda _: "Recorded that an operator is present.",
    about="""The command resets the timer of the no_human detector, which reports that no operator
    is present.

    For example:
      safetyd ack
    """,
)


@group(invoke_without_command=True, sends=BudgetsQuestion)
@json_option
@reaches_daemon
def budgets(location: Location, *, as_json: bool) -> None:
    """Amounts are in US dollars.

    For example:
      safetyd budgets
      safetyd budgets raise day 20 --reason "release day"
      safetyd budgets strike 1234 --reason "the price was in cents"
    """
    if click.get_current_context().invoked_subcommand is None:
        echo(ask(location, BudgetsQuestion()), money_tables.budgets, as_json=as_json)


@budgets.command("raise", sends=RaiseCommand)
@click.argument("scope", metavar="SCOPE", help="day, keyless, agent:NAME or model:NAME.")
@click.argument("usd", metavar="AMOUNT", type=float, help="US dollars to add.")
@click.option("--reason", required=True, metavar="TEXT", help="Why, for the record.")
@json_option
@reaches_daemon
def budgets_raise(location: Location, scope: str, usd: float, reason: str, *, as_json: bool) -> int:
    """SCOPE day is the daily budget of all agents together, keyless that of all anonymous agents.

    For example:
      safetyd budgets raise day 20 --reason "release day"
      safetyd budgets raise agent:crawler 5 --reason "large shop"
    """
    kind, _, name = scope.partition(":")
    if kind not in RAISED:
        raise WrongUsage(f"{scope!r} is not a budget. Use day, keyless, agent:NAME or model:NAME")
    if not 0 < usd <= MAX_USD:
        raise WrongUsage(
            f"AMOUNT is {usd:g}. It must be above 0 and at most {MAX_USD:,.0f} US dollars"
        )
    command = RaiseCommand(scope=RAISED[kind], name=name, usd=usd, reason=reason)
    reply = ask(location, command)
    click.echo(document(reply) if as_json else money_tables.raised(scope, reply))
    return BLOCKED if reply.used >= reply.limit else 0


@budgets.command("strike", sends=StrikeCommand)
@click.argument("report", metavar="ID", help="The ID of a large report.")
@click.option("--reason", required=True, metavar="TEXT", help="Why, for the record.")
@json_option
@reaches_daemon
def budgets_strike(location: Location, report: str, reason: str, *, as_json: bool) -> None:
    """`safetyd budgets` lists large reports. The agent stays paused until you unpause it.

    For example:
      safetyd budgets strike 1234 --reason "the price was in cents"
    """
    echo(
        ask(location, StrikeCommand(id=report, reason=reason)), money_tables.struck, as_json=as_json
    )


breakers = call_command("breakers", BreakersQuestion, guard_tables.breakers)
limits = call_command("limits", LimitsQuestion, guard_tables.limits)
types = call_command("types", TypesQuestion, guard_tables.types)
money = call_command("money", MoneyQuestion, money_tables.money)
anomalies = call_command(
    "anomalies",
    AnomaliesQuestion,
    guard_tables.anomalies,
    click.option("--agent", metavar="NAME", help="Only anomalies of this agent."),
    click.option(
        "--sort",
        type=click.Choice(["severity", "at"]),
        default="severity",
        show_default=True,
        help="Sort by severity, or by time.",
    ),
)


@command(sends=ResetCommand)
@agent_argument
@click.option(
    "--session", metavar="ID", help="Only visits and rounds of this session, and all cooldowns."
)
@click.option("--episode", metavar="ID", help="Only loop visits of this episode.")
@json_option
@reaches_daemon
def reset(
    location: Location, agent: str, session: str | None, episode: str | None, *, as_json: bool
) -> None:
    """Use this when loop detection or a cooldown blocks legitimate work.

    For example:
      safetyd reset crawler
      safetyd reset crawler --session nightly
    """
    command = ResetCommand(agent=agent, session=session, episode=episode)
    _, stranger = tell_about(location, agent, command)
    if as_json:
        click.echo(document({"ok": True, "known": not stranger}))
    elif stranger:
        click.echo(f"{stranger} Nothing to reset.")
    else:
        what = "loop visits" if episode is not None else "loop visits, rounds and cooldowns"
        click.echo(f"Reset the {what} of {plain(agent)}.")


def said_of_reload(reply: Reloaded) -> str:
    for warning in reply.warnings or ():
        click.echo(f"safetyd: warning: {plain(warning)}", err=True)
    return "\n".join(("Reloaded.", *pending(reply.next_start)))


reload = call_command(
    "reload",
    ReloadCommand,
    said_of_reload,
    about="""If the file has errors, this prints all of them, and the daemon keeps the previous
    configuration. It also prints the warnings of `safetyd config check`.

    For example:
      safetyd config check
      safetyd reload
    """,
    patience_s=RELOAD_S,
)
