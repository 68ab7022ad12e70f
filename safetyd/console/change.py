"""Commands that change something in a running daemon and are done when it says so."""

from typing import Final

import click

from safetyd.console.options import reaches_daemon
from safetyd.console.person import control
from safetyd.console.places import Place

RELOAD_S: Final = 15.0


@click.command()
@click.argument("agent")
@click.option("--session", help="Only in this session.")
@click.option("--episode", help="Only in this episode.")
@reaches_daemon
def reset(place: Place, agent: str, session: str | None, episode: str | None) -> None:
    """Forget an agent's loop visits."""
    control(place, "reset", agent=agent, session=session, episode=episode)
    click.echo(f"{agent} starts afresh: its loop visits are forgotten.")


@click.command()
@reaches_daemon
def reload(place: Place) -> None:
    """Make the daemon read its configuration and keys again.

    A file with mistakes is refused whole and the last good one stays.
    """
    control(place, "reload", patience_s=RELOAD_S)
    click.echo("Reloaded.")
