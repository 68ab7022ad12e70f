"""`money` and `anomalies`: what the pages of these names show."""

import click

from safetyd.console.options import call_command
from safetyd.console.render import guard_tables, money_tables
from safetyd.operators.contract.guard_contract import AnomaliesQuestion, MoneyQuestion

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
