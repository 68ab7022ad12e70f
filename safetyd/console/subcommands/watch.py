"""`safetyd watch`: events as they happen."""

from typing import Any

import anyio
import click
import msgspec

from safetyd.console.failure import NotReachable
from safetyd.console.locations import Place
from safetyd.console.operator_connection import connected
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render import layout as render
from safetyd.console.terminal_text import document


@click.command()
@json_option
@reaches_daemon
def watch(place: Place, *, as_json: bool) -> None:
    """Print events as they happen until Ctrl-C. With --json, one a line."""
    try:
        anyio.run(_watch, place, as_json)
    except KeyboardInterrupt:
        click.echo(err=True)


async def _watch(place: Place, as_json: bool) -> None:  # noqa: FBT001 - called by anyio.run
    def heard(payload: bytes) -> None:
        event: dict[str, Any] = msgspec.json.decode(payload)
        click.echo(document(event) if as_json else render.event(event))

    async with connected(place) as operator:
        await operator.listen(heard)
        click.echo(f"Watching {operator.address}; Ctrl-C ends.", err=True)
        await operator.lost.wait()
        if operator.failed is not None:
            raise operator.failed
        raise NotReachable(f"the connection to {operator.address} broke")
