"""Commands that change something in a running daemon and are done when it says so."""

from typing import Final

import anyio
import click

from safetyd.console.agent_list import everybody, unheard
from safetyd.console.locations import Place
from safetyd.console.operator_connection import Reply, connected, control
from safetyd.console.options import reaches_daemon
from safetyd.console.render.status_page import pending
from safetyd.console.terminal_text import plain

RELOAD_S: Final = 15.0


@click.command()
@click.argument("agent")
@click.option("--session", help="Only in this session.")
@click.option("--episode", help="Only in this episode.")
@reaches_daemon
def reset(place: Place, agent: str, session: str | None, episode: str | None) -> None:
    """Forget an agent's loop visits, rounds and cooldowns.

    With --session the visits and rounds there and all cooldowns, with --episode only its visits.
    """
    if stranger := unheard(agent, anyio.run(_reset, place, agent, session, episode)):
        click.echo(f"{stranger} There was nothing to forget.")
    else:
        what = "loop visits" if episode is not None else "loop visits, rounds and cooldowns"
        click.echo(f"{plain(agent)} starts afresh: its {what} are forgotten.")


async def _reset(place: Place, agent: str, session: str | None, episode: str | None) -> list[Reply]:
    async with connected(place) as operator:
        await operator.control("reset", agent=agent, session=session, episode=episode)
        return await everybody(operator.query)


@click.command()
@reaches_daemon
def reload(place: Place) -> None:
    """Make the daemon read its configuration and keys again.

    A file with mistakes is refused whole and the last good one stays.
    """
    reply = control(place, "reload", patience_s=RELOAD_S)
    for line in ("Reloaded.", *pending(reply)):
        click.echo(line)
