"""Commands that ask a running daemon and show what it answered."""

from typing import Final

import click

from safetyd.console import render
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.person import query
from safetyd.console.places import Place
from safetyd.console.plain import document
from safetyd.console.render_explain import account

SEARCH_S: Final = 30.0  # through all audit files


@click.command()
@json_option
@reaches_daemon
def status(place: Place, *, as_json: bool) -> None:
    """Show how the daemon is and what is stopped."""
    answer = query(place, "status")
    click.echo(document(answer) if as_json else render.status(answer))


@click.command()
@json_option
@reaches_daemon
def agents(place: Place, *, as_json: bool) -> None:
    """Show what agents do."""
    answer = query(place, "agents")
    click.echo(document(answer) if as_json else render.agents(answer["agents"]))


@click.command()
@click.argument("id_", metavar="ID")
@json_option
@reaches_daemon
def explain(place: Place, id_: str, *, as_json: bool) -> None:
    """Say what was decided about a proposal, and why."""
    answer = query(place, "explain", id=id_, patience_s=SEARCH_S)
    click.echo(document(answer) if as_json else account(answer))
