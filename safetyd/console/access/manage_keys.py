"""`safetyd agent` and `safetyd operator`: who has a key. A running daemon is told at once."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

import click
import msgspec
from msgspec import UNSET, UnsetType

from safetyd.bus.agent_tokens import AgentTokens
from safetyd.bus.keyring import LOCAL_OPERATOR, Keyring, OldKey, Role, Rotation
from safetyd.clock import Clock
from safetyd.console.access.key_changes import (
    OVERLAP,
    Terms,
    key_errors,
    name_argument,
    reloaded,
    rotated,
    rotation_terms,
)
from safetyd.console.access.manage_tokens import add_token, rotate_token
from safetyd.console.failure import Failure
from safetyd.console.help_page import group
from safetyd.console.locations import Location, endpoint, look_into, make_private
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.layout import Columns, table, when
from safetyd.console.render.status_page import pending
from safetyd.console.terminal_text import document
from safetyd.operators.contract.status_contract import StatusAnswer

Command = Callable[..., None]

_HOW_AN_AGENT_USES_IT: Final = """\
An agent that already runs as {name} without this key is cut off.

In the agent's shell:

  export SAFETYD_URL={bus}
  export SAFETYD_KEY_FILE={seed}

In its program:

  from safetyd.client import Safety

  async with Safety("{name}") as safety:
      decision = await safety.propose("read_file")"""
_HOW_A_PERSON_USES_IT: Final = """
{name} uses it so:

  export SAFETYD_URL={bus}
  safetyd status --key-file {seed}"""


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """Who has a key, or only a token."""

    name: str
    public: str = ""
    seed_here: bool = False
    old_keys: tuple[OldKey, ...] = ()
    role: Literal["operator", "observer"] | UnsetType = UNSET  # of a person
    token: bool | UnsetType = UNSET  # whether an agent has one


def rotates(command: Command) -> Command:
    """Give a command what a rotation needs."""
    for option in reversed(_ROTATION):
        command = option(command)
    return command


_ROTATION: Final = (
    name_argument,
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
@name_argument
@click.option("--token", is_flag=True, help="Create a token for HTTP instead, and print it once.")
@reaches_daemon
def agent_add(location: Location, name: str, *, token: bool) -> None:
    """Create a key for an agent and print how to use it."""
    if token:
        add_token(location, name)
    else:
        _add(location, "agents", name, _HOW_AN_AGENT_USES_IT)


@agent.command("list")
@json_option
@reaches_daemon
def agent_list(location: Location, *, as_json: bool) -> None:
    """List the agents that have a key or a token."""
    keyed = {row.name: row for row in _rows(location, "agents")}
    with key_errors("the tokens cannot be read"):
        tokens = AgentTokens(location.keys).hashes()
    rows = [
        msgspec.structs.replace(keyed.get(name, KeyRow(name=name)), token=name in tokens)
        for name in sorted(keyed.keys() | tokens.keys())
    ]
    _show("agents", rows, {"token": lambda row: row.token}, as_json=as_json)


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
    rotate = rotate_token if token else _rotate
    rotate(location, terms, as_json=as_json)


@agent.command("revoke")
@name_argument
@reaches_daemon
def agent_revoke(location: Location, name: str) -> None:
    """Revoke the keys and tokens of an agent; its connections end."""
    _revoke(location, "agents", name)
    click.echo("Where bus.open_agents is on, anybody may use the name without a key now.")


@group()
def operator() -> None:
    """Manage the keys of people."""


@operator.command("add")
@name_argument
@click.option("--observer", is_flag=True, help="May ask questions and change nothing.")
@reaches_daemon
def operator_add(location: Location, name: str, *, observer: bool) -> None:
    """Make a key for a person and say how it is used."""
    _make_own(location)
    if (role := _role(location, name)) is not None:
        held = Keyring(location.keys).known(role, name)
        raise Failure(f"{held}, `safetyd operator list` shows all", "exists")
    _add(location, "observers" if observer else "operators", name, _HOW_A_PERSON_USES_IT)


@operator.command("list")
@json_option
@reaches_daemon
def operator_list(location: Location, *, as_json: bool) -> None:
    """List the people who have a key."""
    _show("operators", _people(location), {"role": lambda row: row.role}, as_json=as_json)


@operator.command("rotate")
@rotates
def operator_rotate(
    location: Location, name: str, overlap: str | None, *, at_once: bool, as_json: bool
) -> None:
    """Give a person a new key; the old one is trusted for a while.

    The name local is this machine's own operator, whose token for the web API is new then, too.
    """
    _make_own(location)
    role = _role(location, name) or "operators"
    _rotate(location, rotation_terms(role, name, overlap, at_once=at_once), as_json=as_json)


@operator.command("revoke")
@name_argument
@reaches_daemon
def operator_revoke(location: Location, name: str) -> None:
    """Take a person's keys away; their connections end."""
    if name == LOCAL_OPERATOR:
        raise Failure(
            f"{name} is this machine's own operator: to end its key and make another, type "
            f"`safetyd operator rotate {name} --now`",
            "local",
        )
    observers = {row.name for row in _rows(location, "observers")}
    _revoke(location, "observers" if name in observers else "operators", name)


def _make_own(location: Location) -> None:
    make_private(location.data_dir)
    with key_errors(f"no key can be made in {location.keys}"):
        Keyring(location.keys).make_own()


def _add(location: Location, role: Role, name: str, usage: str) -> None:
    """Make a key that a running daemon takes on, or none at all."""
    make_private(location.data_dir)
    keyring = Keyring(location.keys)
    with key_errors(f"no key can be made in {location.keys}"):
        seed = keyring.add(role, name)
    try:
        lines = _reload(location, f"{name} may use it now.", f"{name} may use it")
    except Failure as exc:
        keyring.revoke(role, name, tokens=False)
        raise Failure(f"{name} gets no key: the daemon refuses: {exc.message}", exc.code) from exc
    found = endpoint(location.data_dir)
    bus = location.given or (found.bus if found else "<the bus that `safetyd run` prints>")
    how = usage.format(name=name, bus=bus, seed=shlex.quote(str(seed)))
    click.echo("\n".join((f"{name} has a key: {seed}", *lines, how)))


def _revoke(location: Location, role: Role, name: str) -> None:
    with key_errors(f"the key of {name} cannot be deleted"):
        Keyring(location.keys).revoke(role, name)
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
    status = reloaded(location)
    if status is None:
        return [f"No daemon answers; {later} from its next start."]
    another = f"{later} once the bus has what `safetyd nats-config` prints now."
    return [done if status.embedded else another, *pending(status.next_start)]


def _rotate(location: Location, terms: Terms, *, as_json: bool) -> None:
    """Make a new key that a running daemon takes on, or none at all."""
    keyring, name = Keyring(location.keys), terms.name
    was_here = keyring.seed_of(terms.role, name).exists()
    with key_errors(f"{name} keeps the key it has"):
        rotation, status = rotated(location, keyring, terms)
    if as_json:
        facts = {
            "public": rotation.public,
            "seed": str(rotation.seed),
            "old_keys": rotation.old_keys,
            "in_force": status is not None and status.embedded,
        }
        click.echo(document({"ok": True, "name": name, **facts}))
        return
    lines = [f"{name} has a new key: {rotation.seed}"]
    lines += [*_rotated_lines(rotation, status), *_next_steps(terms, was_here=was_here)]
    if terms.role == "operators" and name == LOCAL_OPERATOR:
        lines.append(
            f"{keyring.operator_token} is new, too, and the old one counts no more: read it again."
        )
    click.echo("\n".join((*lines, *pending(status.next_start if status else ()))))


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


def _last(old: Sequence[OldKey]) -> str:
    return when(max(key.until for key in old))


def _role(location: Location, name: str) -> Role | None:
    """Return the role of a person who has a key."""
    roles: dict[object, Role] = {"operator": "operators", "observer": "observers"}
    return next((roles[row.role] for row in _people(location) if row.name == name), None)


def _people(location: Location) -> list[KeyRow]:
    replace = msgspec.structs.replace
    operators = [replace(row, role="operator") for row in _rows(location, "operators")]
    return [*operators, *(replace(row, role="observer") for row in _rows(location, "observers"))]


def _rows(location: Location, role: Role) -> list[KeyRow]:
    keyring = Keyring(location.keys)
    look_into(location.keys / role)
    with key_errors(f"{location.keys} cannot be read"):
        try:
            found = list(keyring.public(role))
        except FileNotFoundError:
            return []
        old = keyring.old_keys(Clock().now().at)[role] if found else ()
    return [
        KeyRow(
            name=name,
            public=public,
            seed_here=keyring.seed_of(role, name).exists(),
            old_keys=tuple(key for whose, key in old if whose == name),
        )
        for name, public in found
    ]


def _show(what: str, rows: Sequence[KeyRow], more: Columns[KeyRow], *, as_json: bool) -> None:
    if as_json:
        click.echo(document({"ok": True, what: rows}))
    elif not rows:
        click.echo("Nobody has a key.")
    else:
        old = _OLD_KEYS if any(row.old_keys for row in rows) else {}
        click.echo(table(rows, {**_KEYS, **old, **more}))


def _old_keys(row: KeyRow) -> str:
    number = "" if len(row.old_keys) == 1 else f"{len(row.old_keys)}, the last "
    return f"{number}until {_last(row.old_keys)}" if row.old_keys else "none"


_KEYS: Final[Columns[KeyRow]] = {
    "name": lambda row: row.name,
    "public": lambda row: row.public,
    "seed here": lambda row: row.seed_here,
}
_OLD_KEYS: Final[Columns[KeyRow]] = {"old keys": _old_keys}
