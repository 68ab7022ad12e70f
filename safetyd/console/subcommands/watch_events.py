"""`watch`: events as they happen."""

from typing import Any

import anyio
import click
import msgspec

from safetyd.console.failure import NotReachable
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import connected
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.event_line import event_line
from safetyd.console.terminal_text import CTRL_C, document


@command()
@json_option
@reaches_daemon
def watch(location: Location, *, as_json: bool) -> None:
    """Print events as they happen, until Ctrl-C.

    With --json, each event is one line.

    For example:
      safetyd watch
      safetyd watch --json | jq .event_type
    """
    try:
        anyio.run(_watch, location, as_json)
    except KeyboardInterrupt:
        click.echo(err=True)


async def _watch(location: Location, as_json: bool) -> None:  # noqa: FBT001 - called by anyio.run
    def heard(payload: bytes) -> None:
        event: dict[str, Any] = msgspec.json.decode(payload)
        click.echo(document(event) if as_json else event_line(event))

    async with connected(location) as operator:
        await operator.listen(heard)
        click.echo(f"Watching {operator.address}. {CTRL_C}", err=True)
        await operator.lost.wait()
        if operator.failed is not None:
            raise operator.failed
        raise NotReachable(f"lost the connection to {operator.address}")
