"""`safetyd agent` and `safetyd operator`: who has a key. A running daemon is told at once."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import anyio
import click
import msgspec

from safetyd.bus.agent_tokens import AgentTokens
from safetyd.bus.keyring import (
    LOCAL_OPERATOR,
    KeyExists,
    KeyMissing,
    Keyring,
    KeyUnusable,
    OldKey,
    Role,
    Rotation,
)
from safetyd.clock import Clock
from safetyd.console.access.key_rotation import OVERLAP, Terms, rotated, rotation_terms
from safetyd.console.access.manage_tokens import add_token, rotate_token
from safetyd.console.failure import Failure, NotReachable
from safetyd.console.help_page import group
from safetyd.console.locations import Location, endpoint, look_into, make_private
from safetyd.console.operator_connection import connected
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.layout import aligned, when
from safetyd.console.render.status_page import pending
from safetyd.console.subcommands.hold_agents import RELOAD_S
from safetyd.console.terminal_text import document
from safetyd.core.messages.proposal import is_token
from safetyd.operators.contract.hold_contract import ReloadCommand
from safetyd.operators.contract.status_contract import StatusAnswer, StatusQuestion

Row = dict[str, Any]
Command = Callable[..., None]


def rotates(command: Command) -> Command:
    """Give a command what a rotation needs."""
    for option in reversed(_ROTATION):
        command = option(command)
    return command


_ROTATION: Final = (
    click.argument("name"),
    click.option(
        "--overlap", metavar=OVERLAP, help=f"How long the old key is trusted, else {OVERLAP}."
    ),
    click.option("--now", "at_once", is_flag=True, help="Trust the old key no longer."),
    json_option,
    reaches_daemon,
)


@group()
def agent() -> None:
    """Manage the keys of agents."""


@agent.command("add")
@click.argument("name")
@click.option("--token", is_flag=True, help="Create a token for HTTP instead, and print it once.")
@reaches_daemon
def agent_add(location: Location, name: str, *, token: bool) -> None:
    """Create a key for an agent and print how to use it."""
    if token:
        add_token(location, name)
        return
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
    """List the agents that have a key or a token."""
    rows = _with_tokens(location, _rows(location, "agents"))
    _show("agents", rows, as_json=as_json)


@agent.command("rotate")
@click.option("--token", is_flag=True, help="Replace its token for HTTP instead.")
@rotates
def agent_rotate(
    location: Location,
    name: str,
    overlap: str | None,
    *,
    at_once: bool,
    as_json: bool,
    token: bool,
) -> None:
    """Give an agent a new key; the old one is trusted for a while."""
    terms = rotation_terms("agents", name, overlap, at_once=at_once)
    if token:
        rotate_token(location, terms, as_json=as_json)
        return
    _rotate(location, terms, as_json=as_json)


@agent.command("revoke")
@click.argument("name")
@reaches_daemon
def agent_revoke(location: Location, name: str) -> None:
    """Revoke the keys and tokens of an agent; its connections end."""
    _revoke(location, "agents", name)
    click.echo("Where bus.open_agents is on, anybody may use the name without a key now.")


@group()
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
    for row in _people(location):
        if row["name"] == name:
            held = Keyring(location.keys).known(_role(row), name)
            raise Failure(f"{held}, `safetyd operator list` shows all", "exists")
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


@operator.command("rotate")
@rotates
def operator_rotate(
    location: Location, name: str, overlap: str | None, *, at_once: bool, as_json: bool
) -> None:
    """Give a person a new key; the old one is trusted for a while.

    The name local is this machine's own operator, whose token for the web API is new then, too.
    """
    _make_own(location)
    roles = {row["name"]: _role(row) for row in _people(location)}
    terms = rotation_terms(roles.get(name, "operators"), name, overlap, at_once=at_once)
    _rotate(location, terms, as_json=as_json)


@operator.command("revoke")
@click.argument("name")
@reaches_daemon
def operator_revoke(location: Location, name: str) -> None:
    """Take a person's keys away; their connections end."""
    if name == LOCAL_OPERATOR:
        raise Failure(
            f"{name} is this machine's own operator: to end its key and make another, type "
            f"`safetyd operator rotate {name} --now`",
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
        keyring.revoke(role, name, tokens=False)
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
    return [done if status.embedded else another, *pending(status.next_start)]


async def _reloaded(location: Location) -> StatusAnswer:
    """Make the daemon read the keys again; return how it was, and what waits for a start."""
    async with connected(location) as operator:
        status = await operator.ask(StatusQuestion())
        reply = await operator.ask(ReloadCommand(), patience_s=RELOAD_S)
        return msgspec.structs.replace(status, next_start=reply.next_start)


def _rotate(location: Location, terms: Terms, *, as_json: bool) -> None:
    """Make a new key that a running daemon takes on, or none at all."""
    keyring, name = Keyring(location.keys), terms.name
    was_here = keyring.seed_of(terms.role, name).exists()
    try:
        rotation, status = rotated(location, keyring, terms)
    except KeyMissing as exc:
        raise Failure(str(exc), "not_found") from exc
    except KeyUnusable as exc:
        raise Failure(f"{exc}; delete it or put it right first", "no_key") from exc
    except OSError as exc:
        raise Failure(f"{name} keeps the key it has: {exc.strerror}") from exc
    if as_json:
        click.echo(document({"ok": True, "name": name, **_facts(rotation, status)}))
        return
    click.echo(f"{name} has a new key: {rotation.seed}")
    for line in (*_rotated_lines(rotation, status), *_next_steps(terms, was_here=was_here)):
        click.echo(line)
    if terms.role == "operators" and name == LOCAL_OPERATOR:
        token = keyring.operator_token
        click.echo(f"{token} is new, too, and the old one counts no more: read it again.")
    for line in pending(status.next_start if status else ()):
        click.echo(line)


def _facts(rotation: Rotation, status: StatusAnswer | None) -> Row:
    return {
        "public": rotation.public,
        "seed": str(rotation.seed),
        "old_keys": rotation.old_keys,
        "in_force": status is not None and status.embedded,
    }


def _rotated_lines(rotation: Rotation, status: StatusAnswer | None) -> Iterator[str]:
    """Say until when which key counts, and what has to be done for it."""
    old = rotation.old_keys
    if len(old) > 1:
        yield f"{len(old)} old keys are trusted, the last until {_last(old)}."
    elif old:
        yield f"The old key is trusted until {_last(old)}; its connections end then."
    if not status:
        also = "" if old else ", and the old one no more"
        yield f"No daemon answers; the new key counts from its next start{also}."
    elif not status.embedded:
        yield "The bus refuses the new key until it has what `safetyd nats-config` prints now."
        again = f" It needs that again after {_last(old)}." if old else ""
        yield f"It goes on trusting the old one as long as nobody takes it out.{again}"
    elif not old:
        yield "The old key is trusted no longer; its connections end."


def _next_steps(terms: Terms, *, was_here: bool) -> Iterator[str]:
    if not was_here:
        yield f"{terms.name} had taken its key elsewhere: move the new one there."
        return
    if terms.role == "agents":
        yield "An agent that uses safetyd's client and this file goes on by itself."
    others = "" if terms.at_once else " before then"
    yield f"Restart what else has read this file{others}; what has a copy needs the new key."


def _last(old: tuple[OldKey, ...]) -> str:
    return when(max(key.until for key in old).isoformat())


def _role(row: Row) -> Role:
    return "observers" if row["role"] == "observer" else "operators"


def _people(location: Location) -> list[Row]:
    operators = [{**row, "role": "operator"} for row in _rows(location, "operators")]
    return [*operators, *({**row, "role": "observer"} for row in _rows(location, "observers"))]


def _rows(location: Location, role: Role) -> list[Row]:
    keyring = Keyring(location.keys)
    look_into(location.keys / role)
    try:
        found = list(keyring.public(role))
        old = keyring.old_keys(Clock().now().at)[role] if found else ()
    except FileNotFoundError:
        return []
    except KeyUnusable as exc:
        raise Failure(f"{exc}; delete it or put it right", "no_key") from exc
    except OSError as exc:
        raise Failure(f"{location.keys} cannot be read: {exc.strerror}") from exc
    return [
        {
            "name": name,
            "public": public,
            "seed_here": keyring.seed_of(role, name).exists(),
            "old_keys": tuple(key for whose, key in old if whose == name),
        }
        for name, public in found
    ]


def _with_tokens(location: Location, rows: list[Row]) -> list[Row]:
    """Add who has a token, also those who have no key."""
    try:
        tokens = AgentTokens(location.keys).hashes()
    except (OSError, KeyUnusable) as exc:
        raise Failure(f"the tokens cannot be read: {exc}", "no_key") from exc
    keyed = {row["name"]: row for row in rows}
    without: Row = {"public": "", "seed_here": False, "old_keys": ()}
    return [
        {"name": name, **without, **keyed.get(name, {}), "token": name in tokens}
        for name in sorted(keyed.keys() | tokens.keys())
    ]


def _show(what: str, rows: list[Row], *, as_json: bool) -> None:
    if as_json:
        click.echo(document({"ok": True, what: rows}))
        return
    if not rows:
        click.echo("Nobody has a key.")
        return
    if not any(row["old_keys"] for row in rows):
        rows = [{name: row[name] for name in row if name != "old_keys"} for row in rows]
    shown = [tuple(map(_cell, row.values())) for row in rows]
    click.echo(aligned([tuple(name.replace("_", " ") for name in rows[0]), *shown]))


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        number = "" if len(value) == 1 else f"{len(value)}, the last "
        return f"{number}until {_last(value)}" if value else "none"
    return value if isinstance(value, str) else ("yes" if value else "no")
