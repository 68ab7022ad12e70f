"""`safetyd export`: write requests, past answers and the configuration to JSON files."""

from pathlib import Path

import anyio
import click
import msgspec

from safetyd.cards.request_details import RequestEnded, RequestRow
from safetyd.console.daemon_config import read_config
from safetyd.console.failure import using_file
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import connected
from safetyd.console.options import reaches_daemon
from safetyd.console.subcommands.list_requests import ended, waiting
from safetyd.console.terminal_text import document, several
from safetyd.daemon.project_files import with_files
from safetyd.host import write_whole
from safetyd.operators.contract.status_contract import StatusQuestion


@command()
@click.argument(
    "into",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="The directory to write to. It is created if needed.",
)
@reaches_daemon
def export(location: Location, into: Path) -> None:
    """Export pending requests, past answers and the configuration as JSON.

    Writes queue.json, history.json and config.json. The daemon neither reads nor updates these
    files.

    For example:
      safetyd export ./safetyd-export
    """
    requests, history, config = anyio.run(_read, location)
    found = {"queue": requests, "history": history, "config": _settings(config)}
    with using_file(into, "write"):
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in found.items():
            # Only the owner can read the files, because they contain texts of agents.
            write_whole(into / f"{name}.json", f"{document(content, indent=2)}\n".encode())
    counts = f"{several(len(requests), 'pending request')}, {several(len(history), 'answer')}"
    click.echo(f"Wrote queue.json, history.json and config.json to {into}: {counts}.")


async def _read(
    location: Location,
) -> tuple[list[dict[str, object]], list[RequestEnded], str]:
    """Return pending requests, ended requests, and the path of the configuration."""
    async with connected(location) as operator:
        requests = [_asked(row) for row in await waiting(operator)]
        status = await operator.ask(StatusQuestion())
        return requests, await ended(operator), status.config


def _asked(row: RequestRow) -> dict[str, object]:
    """Return a request with the field names of history.json."""
    return {"request_id": row.id, "action": row.type, **msgspec.to_builtins(row)}


def _settings(path: str) -> object:
    loaded = read_config(Path(path) if path else None)
    settings = msgspec.to_builtins(loaded)
    settings["projects"] = msgspec.to_builtins(with_files(loaded.policy()).projects)
    return settings
