"""`money` and `anomalies`: what the pages of these names show."""

import click

from safetyd.console.locations import Location
from safetyd.console.operator_connection import query
from safetyd.console.options import json_option, reaches_daemon, sends
from safetyd.console.render.pages import anomaly_page, money_page
from safetyd.console.terminal_text import document
from safetyd.operators.contract.guard_contract import AnomaliesQuestion, MoneyQuestion


@sends(MoneyQuestion)
@click.command()
@json_option
@reaches_daemon
def money(location: Location, *, as_json: bool) -> None:
    answer = query(location, "money")
    click.echo(document(answer) if as_json else money_page.money(answer))


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
def anomalies(location: Location, agent: str | None, sort: str, *, as_json: bool) -> None:
    answer = query(location, "anomalies", agent=agent, sort=sort)
    click.echo(document(answer) if as_json else anomaly_page.anomalies(answer))
