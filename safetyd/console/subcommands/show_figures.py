"""`money` and `anomalies`: what the pages of these names show."""

from typing import Literal

import click

from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask
from safetyd.console.options import json_option, reaches_daemon, sends
from safetyd.console.render import guard_tables, money_tables
from safetyd.console.terminal_text import echo
from safetyd.operators.contract.guard_contract import AnomaliesQuestion, MoneyQuestion

Order = Literal["severity", "at"]


@sends(MoneyQuestion)
@click.command()
@json_option
@reaches_daemon
def money(location: Location, *, as_json: bool) -> None:
    echo(ask(location, MoneyQuestion()), money_tables.money, as_json=as_json)


@sends(AnomaliesQuestion)
@click.command()
@click.option("--agent", metavar="A", help="Only of this agent.")
@click.option(
    "--sort",
    type=click.Choice(["severity", "at"]),
    default="severity",
    show_default=True,
    help="The worst first, or the newest.",
)
@json_option
@reaches_daemon
def anomalies(location: Location, agent: str | None, sort: Order, *, as_json: bool) -> None:
    question = AnomaliesQuestion(agent=agent, sort=sort)
    echo(ask(location, question), guard_tables.anomalies, as_json=as_json)
