"""Commands that show how things are: `status`, `agents`, `explain`, `watch`, `version`."""

import platform
import subprocess
from functools import partial
from importlib import metadata
from typing import Any, Final

import anyio
import click
import msgspec
from msgspec import to_builtins

from safetyd import __version__
from safetyd.bus.embedded_server import ServerMissing, shipped_binary
from safetyd.console.agent_list import everybody
from safetyd.console.failure import Failure, NotReachable
from safetyd.console.locations import Location
from safetyd.console.operator_connection import Reply, connected, query
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render import layout
from safetyd.console.render.agent_table import agents as listed
from safetyd.console.render.explanation import account
from safetyd.console.render.status_page import status as shown
from safetyd.console.subcommands.read_records import some_files
from safetyd.console.terminal_text import document, plain
from safetyd.core.engine.journal_lines import concerns
from safetyd.journal.audit import find
from safetyd.operators.explain import explain as explained
from safetyd.operators.explain import story, untold

SEARCH_S: Final = 30.0  # through all audit files
SHOWN_BYTES: Final = 1024 * 1024
RUN_S: Final = 5.0


@click.command()
@json_option
@reaches_daemon
def status(location: Location, *, as_json: bool) -> None:
    """Show how the daemon is and what is stopped.

    What is wrong comes first, then the agents that matter most; `safetyd agents` has all.
    """
    answer = query(location, "status")
    click.echo(document(answer) if as_json else shown(answer))


@click.command()
@json_option
@reaches_daemon
def agents(location: Location, *, as_json: bool) -> None:
    """Show what agents do."""
    rows = anyio.run(_everybody, location)
    click.echo(document({"ok": True, "agents": rows}) if as_json else listed(rows))


async def _everybody(location: Location) -> list[Reply]:
    async with connected(location) as operator:
        return await everybody(operator.query)


@click.command()
@click.argument("id_", metavar="ID")
@json_option
@reaches_daemon
def explain(location: Location, id_: str, *, as_json: bool) -> None:
    """Say what was decided about a proposal, why, and what would have let it pass.

    Guards that did not restrict it tell where they stand today. Without a daemon the audit files
    are read, and only what was decided then is known.
    """
    try:
        answer = query(location, "explain", id=id_, patience_s=SEARCH_S)
    except NotReachable as exc:
        answer = _from_files(location, id_, exc)
    click.echo(document(answer) if as_json else account(answer))


def _from_files(location: Location, id_: str, missing: NotReachable) -> Reply:
    """Return what the audit files here say, if there are any."""
    where = location.data_dir / "audit"
    try:
        some_files(where)
    except Failure:
        raise missing from None
    if location.given:
        raise missing
    click.echo(f"No daemon answers; this is what the files in {where} say.", err=True)
    try:
        told = story(find(where, partial(concerns, id_=id_), SHOWN_BYTES), id_)
    except OSError as exc:
        raise Failure(f"{where} cannot be read: {exc.strerror}") from exc
    if told is None:
        raise Failure(f"no decision with id {id_!r} is in the audit files", "not_found")
    return dict(to_builtins(explained(told, untold, SHOWN_BYTES)))


@click.command()
@json_option
def version(*, as_json: bool) -> None:
    """Print the versions of what is at work."""
    found = {
        "safetyd": __version__,
        "python": platform.python_version(),
        "nats-py": metadata.version("nats-py"),
        "nats-server": nats_server_version(),
    }
    if as_json:
        click.echo(document({"ok": True, **found}))
        return
    for name, number in found.items():
        click.echo(f"{name:<12} {plain(number)}")


def nats_server_version(binary: str = "") -> str:
    """Return the version of the nats-server that would be started, or why there is none."""
    try:
        command = [binary or shipped_binary(), "--version"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=RUN_S)  # noqa: S603
    except (ServerMissing, OSError, subprocess.SubprocessError) as exc:
        return f"missing: {exc}"
    return done.stdout.strip().removeprefix("nats-server: v")


@click.command()
@json_option
@reaches_daemon
def watch(location: Location, *, as_json: bool) -> None:
    """Print events as they happen until Ctrl-C. With --json, one a line."""
    try:
        anyio.run(_watch, location, as_json)
    except KeyboardInterrupt:
        click.echo(err=True)


async def _watch(location: Location, as_json: bool) -> None:  # noqa: FBT001 - called by anyio.run
    def heard(payload: bytes) -> None:
        event: dict[str, Any] = msgspec.json.decode(payload)
        click.echo(document(event) if as_json else layout.event(event))

    async with connected(location) as operator:
        await operator.listen(heard)
        click.echo(f"Watching {operator.address}; Ctrl-C ends.", err=True)
        await operator.lost.wait()
        if operator.failed is not None:
            raise operator.failed
        raise NotReachable(f"the connection to {operator.address} broke")
