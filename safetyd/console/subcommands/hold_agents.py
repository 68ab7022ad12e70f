"""Commands that hold agents and let them go, and that show what the guards have counted."""

from typing import Final

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
from safetyd.operators.budget_commands import RAISED
from safetyd.operators.contract.guard_contract import (
    AnomaliesQuestion,
    BreakersQuestion,
    BudgetsQuestion,
    LimitsQuestion,
    MoneyQuestion,
    RaiseCommand,
    TypesQuestion,
)
from safetyd.operators.contract.hold_contract import (
    AckCommand,
    EnterCommand,
    ExitCommand,
    PauseCommand,
    ReloadCommand,
    ResetCommand,
    SafeModeLeft,
    SafeModeQuestion,
    UnpauseCommand,
)

RELOAD_S: Final = 15.0


@command(sends=PauseCommand)
@click.argument("agent")
@says_why
@json_option
@reaches_daemon
def pause(location: Location, agent: str, reason: str, *, as_json: bool) -> int:
    reply, stranger = tell_about(location, agent, PauseCommand(agent=agent, reason=reason))
    click.echo(document(reply) if as_json else f"{plain(agent)} is paused.")
    return warn(stranger, "The pause holds for that name anyway.", err=as_json)


@command(sends=UnpauseCommand)
@click.argument("agent")
@json_option
@reaches_daemon
def unpause(location: Location, agent: str, *, as_json: bool) -> None:
    """Every source of the pause is cleared: operators, anomalies, the budget."""
    reply, stranger = tell_about(location, agent, UnpauseCommand(agent=agent))
    said = guard_tables.unpaused(agent, reply)
    if stranger and not reply.cleared:
        said = f"{stranger} It was not paused."
    click.echo(document(reply) if as_json else said)


@command("safe-mode", sends=SafeModeQuestion)
@click.argument("action", type=click.Choice(["status", "enter", "exit"]), default="status")
@click.option(
    "--agent",
    metavar="A",
    help='Only this agent; "*" is everybody, "*keyless" are all agents without a key.',
)
@click.option("--all", "all_", is_flag=True, help="Leave safe mode wherever it is.")
@click.option("--force", is_flag=True, help="Leave before the cooldown is over; needs a reason.")
@click.option("--reason", default="", help="Why; it is recorded.")
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
    """In safe mode an agent may only read. ACTION is status, enter or exit."""
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
    """Refuse options that the action would not heed."""
    if leaving and action != "exit":
        raise WrongUsage("--all and --force are for `safetyd safe-mode exit`")
    if force and not reason.strip():
        raise WrongUsage("--force needs --reason")
    if reason and action == "status":
        raise WrongUsage("--reason is for enter and exit")


def _enter(location: Location, agent: str | None, reason: str, *, as_json: bool) -> int:
    whom, stranger = "Everybody", ""
    if agent is None or agent == EVERYBODY:
        reply = ask(location, EnterCommand(reason=reason))
    elif agent == ANONYMOUS:
        whom = "Every agent without a key"
        reply = ask(location, EnterCommand(agent=agent, reason=reason))
    else:
        whom = plain(agent)
        command = EnterCommand(agent=agent, reason=reason)
        reply, stranger = tell_about(location, agent, command)
    said = f"{whom} is in safe mode: only reading is allowed."
    click.echo(document(reply) if as_json else said)
    return warn(stranger, "Safe mode holds for that name anyway.", err=as_json)


def _exit(reply: SafeModeLeft, agent: str | None, *, as_json: bool) -> int:
    click.echo(document(reply) if as_json else guard_tables.left(agent, reply))
    return BLOCKED if reply.more else 0


ack = call_command(
    "ack",
    AckCommand,
    lambda _: "Noted: somebody is there.",
    about="What waits for somebody to be seen, as the no_human detector does, begins to wait anew.",
)


@group(invoke_without_command=True, sends=BudgetsQuestion)
@json_option
@reaches_daemon
def budgets(location: Location, *, as_json: bool) -> None:
    if click.get_current_context().invoked_subcommand is None:
        echo(ask(location, BudgetsQuestion()), money_tables.budgets, as_json=as_json)


@budgets.command("raise", sends=RaiseCommand)
@click.argument("scope", metavar="SCOPE")
@click.argument("usd", metavar="AMOUNT", type=float)
@click.option("--reason", required=True, help="Why; it is recorded.")
@json_option
@reaches_daemon
def budgets_raise(location: Location, scope: str, usd: float, reason: str, *, as_json: bool) -> int:
    """AMOUNT is in US dollars.

    SCOPE is day, keyless (all agents without a key), agent:NAME or model:NAME.
    """
    kind, _, name = scope.partition(":")
    if kind not in RAISED:
        raise WrongUsage(f"{scope!r} is no budget: use day, keyless, agent:NAME or model:NAME")
    if not 0 < usd <= MAX_USD:
        raise WrongUsage(f"AMOUNT is more than 0 and at most {MAX_USD:,.0f} US dollars")
    command = RaiseCommand(scope=RAISED[kind], name=name, usd=usd, reason=reason)
    reply = ask(location, command)
    click.echo(document(reply) if as_json else money_tables.raised(scope, reply))
    return BLOCKED if reply.used >= reply.limit else 0


breakers = call_command("breakers", BreakersQuestion, guard_tables.breakers)
limits = call_command("limits", LimitsQuestion, guard_tables.limits)
types = call_command("types", TypesQuestion, guard_tables.types)
money = call_command("money", MoneyQuestion, money_tables.money)
anomalies = call_command(
    "anomalies",
    AnomaliesQuestion,
    guard_tables.anomalies,
    click.option("--agent", metavar="A", help="Only of this agent."),
    click.option(
        "--sort",
        type=click.Choice(["severity", "at"]),
        default="severity",
        show_default=True,
        help="The worst first, or the newest.",
    ),
)


@command(sends=ResetCommand)
@click.argument("agent")
@click.option("--session", help="Only in this session.")
@click.option("--episode", help="Only in this episode.")
@json_option
@reaches_daemon
def reset(
    location: Location, agent: str, session: str | None, episode: str | None, *, as_json: bool
) -> None:
    """With --session, the visits and rounds there and all cooldowns; with --episode, its visits."""
    command = ResetCommand(agent=agent, session=session, episode=episode)
    _, stranger = tell_about(location, agent, command)
    if as_json:
        click.echo(document({"ok": True, "known": not stranger}))
    elif stranger:
        click.echo(f"{stranger} There was nothing to forget.")
    else:
        what = "loop visits" if episode is not None else "loop visits, rounds and cooldowns"
        click.echo(f"{plain(agent)} starts afresh: its {what} are forgotten.")


reload = call_command(
    "reload",
    ReloadCommand,
    lambda reply: "\n".join(("Reloaded.", *pending(reply.next_start))),
    about="A file with mistakes is refused whole and the last good one stays.",
    patience_s=RELOAD_S,
)
