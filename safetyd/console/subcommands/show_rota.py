"""`safetyd rota`: who is on call."""

import click

from safetyd.console.options import call_command
from safetyd.console.render.rota_table import rota as shown
from safetyd.operators.contract.rota_contract import RotaQuestion

rota = call_command(
    "rota",
    RotaQuestion,
    shown,
    click.option(
        "--days",
        type=click.IntRange(1, 28),
        default=7,
        show_default=True,
        metavar="N",
        help="How many days to show.",
    ),
    about="""For example:
      safetyd rota
      safetyd rota --days 28 --json
    """,
)
