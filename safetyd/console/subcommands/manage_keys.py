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
def agent_add(place: Location, name: str) -> None:
    """Make a key for an agent and say how it is used."""
    seed = _add(place, "agents", name)
    click.echo(f"An agent that already runs as {name} without this key is cut off.")
    click.echo("\nIn the agent's shell:\n")
    click.echo(f"  export SAFETYD_URL={_bus(place)}")
    click.echo(f"  export SAFETYD_KEY_FILE={shlex.quote(str(seed))}")
    click.echo("\nIn its program:\n")
    click.echo("  from safetyd.client import Safety\n")
    click.echo(f'  async with Safety("{name}") as safety:')
    click.echo('      decision = await safety.propose("read_file")')


@agent.command("list")
@json_option
@reaches_daemon
def agent_list(place: Location, *, as_json: bool) -> None:
    """List the agents that have a key."""
    rows = _rows(place, "agents")
    _show("agents", rows, as_json=as_json)


@agent.command("revoke")
@click.argument("name")
@reaches_daemon
def agent_revoke(place: Location, name: str) -> None:
    """Take an agent's key away; its connections end."""
    _revoke(place, "agents", name)
    click.echo("Where bus.open_agents is on, anybody may use the name without a key now.")


@click.group()
def operator() -> None:
    """Manage the keys of people."""


@operator.command("add")
@click.argument("name")
@click.option("--observer", is_flag=True, help="May ask questions and change nothing.")
@reaches_daemon
def operator_add(place: Location, name: str, *, observer: bool) -> None:
    """Make a key for a person and say how it is used."""
    _make_own(place)
    role: Role = "observers" if observer else "operators"
    if any(row["name"] == name for row in _people(place)):
        raise Failure(f"{name} already has a key; `safetyd operator list` shows all", "exists")
    seed = _add(place, role, name)
    click.echo(f"\n{name} uses it so:\n")
    click.echo(f"  export SAFETYD_URL={_bus(place)}")
    click.echo(f"  safetyd status --key-file {shlex.quote(str(seed))}")


@operator.command("list")
@json_option
@reaches_daemon
def operator_list(place: Location, *, as_json: bool) -> None:
    """List the people who have a key."""
    _show("operators", _people(place), as_json=as_json)


@operator.command("revoke")
@click.argument("name")
@reaches_daemon
def operator_revoke(place: Location, name: str) -> None:
    """Take a person's key away; their connections end."""
    if name == LOCAL_OPERATOR:
        raise Failure(
            f"{name} is this machine's own operator: to change its key, stop the daemon, delete "
            f"{place.keys / 'operator.nk'} and operator.pub beside it, and start again",
            "local",
        )
    observers = {row["name"] for row in _rows(place, "observers")}
    _revoke(place, "observers" if name in observers else "operators", name)


def _bus(place: Location) -> str:
    found = endpoint(place.data_dir)
    return place.given or (found.bus if found else "<the bus that `safetyd run` prints>")


def _make_own(place: Location) -> None:
    make_private(place.data_dir)
    try:
        Keyring(place.keys).make_own()
    except OSError as exc:
        raise Failure(f"no key can be made in {place.keys}: {exc.strerror}") from exc


def _add(place: Location, role: Role, name: str) -> Path:
    """Make a key that a running daemon takes on, or none at all."""
    make_private(place.data_dir)
    keyring = Keyring(place.keys)
    try:
        seed = keyring.add(role, name)
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc
    except KeyExists as exc:
        raise Failure(str(exc), "exists") from exc
    except KeyUnusable as exc:
        raise Failure(f"{exc}; delete it or put it right first", "no_key") from exc
    except OSError as exc:
        raise Failure(f"no key can be made in {place.keys}: {exc.strerror}") from exc
    try:
        lines = _reload(place, f"{name} may use it now.", f"{name} may use it")
    except Failure as exc:
        keyring.revoke(role, name)
        raise Failure(f"{name} gets no key: the daemon refuses: {exc.message}", exc.code) from exc
    click.echo("\n".join((f"{name} has a key: {seed}", *lines)))
    return seed


def _revoke(place: Location, role: Role, name: str) -> None:
    if not is_token(name):
        raise click.UsageError(f"{name!r} is not a name: use 1 to 64 of A-Z a-z 0-9 _ -")
    try:
        Keyring(place.keys).revoke(role, name)
    except KeyMissing as exc:
        raise Failure(str(exc), "not_found") from exc
    except OSError as exc:
        raise Failure(f"the key of {name} cannot be deleted: {exc.strerror}") from exc
    try:
        lines = _reload(place, f"{name} has no key any more.", f"{name}'s key ends")
    except Failure as exc:
        raise Failure(
            f"the daemon still honours the key of {name}, for it refuses: {exc.message}\n"
            "the key ends once that is mended and `safetyd reload` succeeds",
            exc.code,
        ) from exc
    click.echo("\n".join(lines))


def _reload(place: Location, done: str, later: str) -> list[str]:
    """Make a running daemon take the keys on; return what that means, and what waits besides."""
    try:
        status = anyio.run(_reloaded, place)
    except NotReachable:
        return [f"No daemon answers; {later} from its next start."]
    another = f"{later} once the bus has what `safetyd nats-config` prints now."
    return [done if status["embedded"] else another, *pending(status)]


async def _reloaded(place: Location) -> Reply:
    """Make the daemon read the keys again; return how it was, and what waits for a start."""
    async with connected(place) as operator:
        status = await operator.query("status")
        return {**status, **await operator.control("reload", patience_s=RELOAD_S)}


def _people(place: Location) -> list[Row]:
    operators = [{**row, "role": "operator"} for row in _rows(place, "operators")]
    return [*operators, *({**row, "role": "observer"} for row in _rows(place, "observers"))]


def _rows(place: Location, role: Role) -> list[Row]:
    keyring = Keyring(place.keys)
    look_into(place.keys / role)
    try:
        found = list(keyring.public(role))
    except FileNotFoundError:
        return []
    except KeyUnusable as exc:
        raise Failure(f"{exc}; delete it or put it right", "no_key") from exc
    except OSError as exc:
        raise Failure(f"{place.keys} cannot be read: {exc.strerror}") from exc
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
