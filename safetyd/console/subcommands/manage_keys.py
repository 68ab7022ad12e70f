"""`safetyd agent` and `safetyd operator`: who has a key. A running daemon is told at once."""

import shlex
from pathlib import Path

import anyio
import click

from safetyd.bus.keyring import LOCAL_OPERATOR, KeyExists, KeyMissing, Keyring, KeyUnusable, Role
from safetyd.console.failure import Failure, NotReachable
from safetyd.console.locations import Location, endpoint, look_into, make_private
from safetyd.console.operator_connection import Reply, connected
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.layout import table
from safetyd.console.render.status_page import pending
from safetyd.console.subcommands.hold_agents import RELOAD_S
from safetyd.console.terminal_text import document
from safetyd.core.messages.proposal import is_token

Row = dict[str, str | bool]


@click.group()
def agent() -> None:
    """Manage the keys of agents."""


@agent.command("add")
@click.argument("name")
@reaches_daemon
def agent_add(location: Location, name: str) -> None:
    """Make a key for an agent and say how it is used."""
    seed = _add(location, "agents", name)
    click.echo(f"An agent that already runs as {name} without this key is cut off.")
    click.echo("\nIn the agent's shell:\n")
    click.echo(f"  export SAFETYD_URL={_bus(location)}")
    click.echo(f"  export SAFETYD_KEY_FILE={shlex.quote(str(seed))}")
    click.echo("\nIn its program:\n")
    click.echo("  from safetyd.client import Safety\n")
    click.echo(f'  async with Safety("{name}") as safety:')
    click.echo('      decision = await safety.propose("read_file")')


@agent.command("list")
@json_option
@reaches_daemon
def agent_list(location: Location, *, as_json: bool) -> None:
    """List the agents that have a key."""
    rows = _rows(location, "agents")
    _show("agents", rows, as_json=as_json)


@agent.command("revoke")
@click.argument("name")
@reaches_daemon
def agent_revoke(location: Location, name: str) -> None:
    """Take an agent's key away; its connections end."""
    _revoke(location, "agents", name)
    click.echo("Where bus.open_agents is on, anybody may use the name without a key now.")


@click.group()
def operator() -> None:
    """Manage the keys of people."""


@operator.command("add")
@click.argument("name")
@click.option("--observer", is_flag=True, help="May ask questions and change nothing.")
@reaches_daemon
def operator_add(location: Location, name: str, *, observer: bool) -> None:
    """Make a key for a person and say how it is used."""
    _make_own(location)
    role: Role = "observers" if observer else "operators"
    if any(row["name"] == name for row in _people(location)):
        raise Failure(f"{name} already has a key; `safetyd operator list` shows all", "exists")
    seed = _add(location, role, name)
    click.echo(f"\n{name} uses it so:\n")
    click.echo(f"  export SAFETYD_URL={_bus(location)}")
    click.echo(f"  safetyd status --key-file {shlex.quote(str(seed))}")


@operator.command("list")
@json_option
@reaches_daemon
def operator_list(location: Location, *, as_json: bool) -> None:
    """List the people who have a key."""
    _show("operators", _people(location), as_json=as_json)


@operator.command("revoke")
@click.argument("name")
@reaches_daemon
def operator_revoke(location: Location, name: str) -> None:
    """Take a person's key away; their connections end."""
    if name == LOCAL_OPERATOR:
        raise Failure(
            f"{name} is this machine's own operator: to change its key, stop the daemon, delete "
            f"{location.keys / 'operator.nk'} and operator.pub beside it, and start again",
            "local",
        )
    observers = {row["name"] for row in _rows(location, "observers")}
    _revoke(location, "observers" if name in observers else "operators", name)


def _bus(location: Location) -> str:
    found = endpoint(location.data_dir)
    return location.given or (found.bus if found else "<the bus that `safetyd run` prints>")


def _make_own(location: Location) -> None:
    make_private(location.data_dir)
    try:
        Keyring(location.keys).make_own()
    except OSError as exc:
        raise Failure(f"no key can be made in {location.keys}: {exc.strerror}") from exc


def _add(location: Location, role: Role, name: str) -> Path:
    """Make a key that a running daemon takes on, or none at all."""
    make_private(location.data_dir)
    keyring = Keyring(location.keys)
    try:
        seed = keyring.add(role, name)
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc
    except KeyExists as exc:
        raise Failure(str(exc), "exists") from exc
    except KeyUnusable as exc:
        raise Failure(f"{exc}; delete it or put it right first", "no_key") from exc
    except OSError as exc:
        raise Failure(f"no key can be made in {location.keys}: {exc.strerror}") from exc
    try:
        lines = _reload(location, f"{name} may use it now.", f"{name} may use it")
    except Failure as exc:
        keyring.revoke(role, name)
        raise Failure(f"{name} gets no key: the daemon refuses: {exc.message}", exc.code) from exc
    click.echo("\n".join((f"{name} has a key: {seed}", *lines)))
    return seed


def _revoke(location: Location, role: Role, name: str) -> None:
    if not is_token(name):
        raise click.UsageError(f"{name!r} is not a name: use 1 to 64 of A-Z a-z 0-9 _ -")
    try:
        Keyring(location.keys).revoke(role, name)
    except KeyMissing as exc:
        raise Failure(str(exc), "not_found") from exc
    except OSError as exc:
        raise Failure(f"the key of {name} cannot be deleted: {exc.strerror}") from exc
    try:
        lines = _reload(location, f"{name} has no key any more.", f"{name}'s key ends")
    except Failure as exc:
        raise Failure(
            f"the daemon still honours the key of {name}, for it refuses: {exc.message}\n"
            "the key ends once that is mended and `safetyd reload` succeeds",
            exc.code,
        ) from exc
    click.echo("\n".join(lines))


def _reload(location: Location, done: str, later: str) -> list[str]:
    """Make a running daemon take the keys on; return what that means, and what waits besides."""
    try:
        status = anyio.run(_reloaded, location)
    except NotReachable:
        return [f"No daemon answers; {later} from its next start."]
    another = f"{later} once the bus has what `safetyd nats-config` prints now."
    return [done if status["embedded"] else another, *pending(status)]


async def _reloaded(location: Location) -> Reply:
    """Make the daemon read the keys again; return how it was, and what waits for a start."""
    async with connected(location) as operator:
        status = await operator.query("status")
        return {**status, **await operator.control("reload", patience_s=RELOAD_S)}


def _people(location: Location) -> list[Row]:
    operators = [{**row, "role": "operator"} for row in _rows(location, "operators")]
    return [*operators, *({**row, "role": "observer"} for row in _rows(location, "observers"))]


def _rows(location: Location, role: Role) -> list[Row]:
    keyring = Keyring(location.keys)
    look_into(location.keys / role)
    try:
        found = list(keyring.public(role))
    except FileNotFoundError:
        return []
    except KeyUnusable as exc:
        raise Failure(f"{exc}; delete it or put it right", "no_key") from exc
    except OSError as exc:
        raise Failure(f"{location.keys} cannot be read: {exc.strerror}") from exc
    return [
        {"name": name, "public": public, "seed_here": keyring.seed_of(role, name).exists()}
        for name, public in found
    ]


def _show(what: str, rows: list[Row], *, as_json: bool) -> None:
    if as_json:
        click.echo(document({"ok": True, what: rows}))
    elif not rows:
        click.echo("Nobody has a key.")
    else:
        shown = [tuple(_cell(value) for value in row.values()) for row in rows]
        click.echo(table([tuple(name.replace("_", " ") for name in rows[0]), *shown]))


def _cell(value: str | bool) -> str:  # noqa: FBT001
    return value if isinstance(value, str) else ("yes" if value else "no")
