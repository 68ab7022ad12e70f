"""`safetyd agent` and `safetyd operator`: manage keys. A running daemon reloads them."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import click
import msgspec
from msgspec import UNSET, UnsetType

from safetyd.bus.agent_tokens import AgentTokens
from safetyd.bus.keyring import LOCAL_OPERATOR, Keyring, OldKey, Role, Rotation
from safetyd.clock import Clock
from safetyd.console.access.key_changes import (
    OVERLAP,
    SHARED,
    Terms,
    key_errors,
    name_argument,
    on_standby,
    reloaded,
    rotated,
    rotation_terms,
)
from safetyd.console.access.manage_tokens import add_token, rotate_token
from safetyd.console.failure import Failure
from safetyd.console.help_page import group
from safetyd.console.locations import Location, endpoint, look_into, make_private
from safetyd.console.options import json_option, reaches_daemon, together
from safetyd.console.render.layout import Columns, table, when
from safetyd.console.render.status_page import pending
from safetyd.console.terminal_text import document
from safetyd.operators.contract.status_contract import StatusAnswer

_AGENT_USAGE: Final = """\
From now on, only agents with this key can use the name {name}.

In the agent's shell:

  export SAFETYD_URL={bus}
  export SAFETYD_KEY_FILE={seed}

In its program:

  from safetyd.client import Safety

  async with Safety("{name}") as safety:
      decision = await safety.propose("read_file")"""
_FOLLOWED: Final = "If `safetyd nats-accounts` runs on the bus, it does this by itself."
_OPERATOR_USAGE: Final = """
To use it, {name} runs:

  export SAFETYD_URL={bus}
  safetyd status --key-file {seed}"""


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """An agent or operator with a key, or an agent with a token."""

    name: str
    public: str = ""
    seed_here: bool = False
    old_keys: tuple[OldKey, ...] = ()
    role: Literal["operator", "observer"] | UnsetType = UNSET  # UNSET for agents
    token: bool | UnsetType = UNSET  # whether the agent has a token; UNSET for operators


rotates = together(
    name_argument,
    click.option(
        "--overlap", metavar=OVERLAP, help=f"How long the old key stays valid. Default: {OVERLAP}."
    ),
    click.option("--now", "at_once", is_flag=True, help="Revoke the old key immediately."),
    json_option,
    reaches_daemon,
)


@group()
def agent() -> None:
    """Manage keys and tokens of agents."""


@agent.command("add")
@name_argument
@click.option("--token", is_flag=True, help="Create a token for HTTP instead of a key.")
@reaches_daemon
def agent_add(location: Location, name: str, *, token: bool) -> None:
    """Create a key for an agent and print how to use it.

    For example:
      safetyd agent add code
      safetyd agent add code --token
    """
    if token:
        add_token(location, name)
    else:
        add_key(location, "agents", name, _AGENT_USAGE)


@agent.command("list")
@json_option
@reaches_daemon
def agent_list(location: Location, *, as_json: bool) -> None:
    """List agents with a key or a token."""
    keyed = {row.name: row for row in key_rows(location, "agents")}
    with key_errors("cannot read the tokens"):
        tokens = AgentTokens(location.keys).hashes()
    rows = [
        msgspec.structs.replace(keyed.get(name, KeyRow(name=name)), token=name in tokens)
        for name in sorted(keyed.keys() | tokens.keys())
    ]
    show_keys("agents", rows, {"token": lambda row: row.token}, as_json=as_json)


@agent.command("rotate")
@click.option("--token", is_flag=True, help="Replace the token for HTTP instead of the key.")
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
    """Replace the key of an agent. The old key stays valid for a while.

    For example:
      safetyd agent rotate code --overlap 2h
      safetyd agent rotate code --now
    """
    terms = rotation_terms("agents", name, overlap, at_once=at_once)
    rotate = rotate_token if token else rotate_key
    rotate(location, terms, as_json=as_json)


@agent.command("revoke")
@name_argument
@reaches_daemon
def agent_revoke(location: Location, name: str) -> None:
    """Revoke the keys and tokens of an agent and close its connections."""
    revoke_key(location, "agents", name)
    click.echo("If bus.open_agents is on, any agent can now use the name without a key.")


@group()
def operator() -> None:
    """Manage keys of operators and observers."""


@operator.command("add")
@name_argument
@click.option("--observer", is_flag=True, help="Create an observer, who can only read.")
@reaches_daemon
def operator_add(location: Location, name: str, *, observer: bool) -> None:
    """Create a key for an operator and print how to use it.

    For example:
      safetyd operator add alice
      safetyd operator add wall --observer
    """
    _make_own(location)
    if (role := _role(location, name)) is not None:
        held = Keyring(location.keys).known(role, name)
        raise Failure(f"{held}. To list all keys, run `safetyd operator list`", "exists")
    add_key(location, "observers" if observer else "operators", name, _OPERATOR_USAGE)


@operator.command("list")
@json_option
@reaches_daemon
def operator_list(location: Location, *, as_json: bool) -> None:
    """List operators and observers."""
    show_keys("operators", _people(location), {"role": lambda row: row.role}, as_json=as_json)


@operator.command("rotate")
@rotates
def operator_rotate(
    location: Location, name: str, overlap: str | None, *, at_once: bool, as_json: bool
) -> None:
    """Replace the key of an operator. The old key stays valid for a while.

    For the operator "local" of this machine, this also replaces the token of the web API.

    For example:
      safetyd operator rotate alice
      safetyd operator rotate local --now
    """
    _make_own(location)
    role = _role(location, name) or "operators"
    rotate_key(location, rotation_terms(role, name, overlap, at_once=at_once), as_json=as_json)


@operator.command("revoke")
@name_argument
@reaches_daemon
def operator_revoke(location: Location, name: str) -> None:
    """Revoke the keys of an operator and close their connections."""
    if name == LOCAL_OPERATOR:
        raise Failure(
            f"{name} is the operator of this machine and must have a key. To replace it, run "
            f"`safetyd operator rotate {name} --now`",
            "local",
        )
    observers = {row.name for row in key_rows(location, "observers")}
    revoke_key(location, "observers" if name in observers else "operators", name)


def _make_own(location: Location) -> None:
    make_private(location.data_dir)
    with key_errors(f"cannot create a key in {location.keys}"):
        Keyring(location.keys).make_own()


def add_key(location: Location, role: Role, name: str, usage: str) -> None:
    """Create a key and reload the daemon. If the daemon refuses, delete the key."""
    make_private(location.data_dir)
    keyring = Keyring(location.keys)
    with key_errors(f"cannot create a key in {location.keys}"):
        seed = keyring.add(role, name)
    try:
        lines = _reload(location, "It is valid now.", "it is valid")
    except Failure as exc:
        keyring.revoke(role, name, tokens=False)
        raise Failure(
            f"no key was created for {name}, because the daemon refused: {exc.message}", exc.code
        ) from exc
    found = endpoint(location.data_dir)
    bus = location.given or (found.bus if found else "<the bus that `safetyd run` prints>")
    how = usage.format(name=name, bus=bus, seed=shlex.quote(str(seed)))
    click.echo("\n".join((f"Created a key for {name}: {seed}", *lines, how)))


def revoke_key(location: Location, role: Role, name: str) -> None:
    with key_errors(f"cannot delete the key of {name}"):
        Keyring(location.keys).revoke(role, name)
    try:
        lines = _reload(location, f"Revoked the key of {name}.", f"the key of {name} is revoked")
    except Failure as exc:
        raise Failure(
            f"the key of {name} is still valid, because the daemon refused: {exc.message}\n"
            "Fix that, then run `safetyd reload` to revoke the key.",
            exc.code,
        ) from exc
    click.echo("\n".join(lines))


def _reload(location: Location, done: str, later: str) -> list[str]:
    """Reload the daemon and return lines to print.

    The first line is `done` if the change is in force. Otherwise it contains `later`, and says when
    the change will be in force. The other lines name settings that need a restart.
    """
    another = f"Update the bus with the output of `safetyd nats-config`; then {later}."
    if on_standby(location):
        return [SHARED, another, _FOLLOWED]
    status = reloaded(location)
    if status is None:
        return [f"No daemon is running; {later} when it starts."]
    said = [done] if status.embedded else [another, _FOLLOWED]
    return [*said, *pending(status.next_start)]


def rotate_key(location: Location, terms: Terms, *, as_json: bool) -> None:
    """Replace a key and reload the daemon. If the daemon refuses, restore the old key."""
    keyring, name = Keyring(location.keys), terms.name
    was_here = keyring.seed_of(terms.role, name).exists()
    with key_errors(f"the key of {name} is unchanged"):
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
        lines.append(f"The token of the web API is also new. It is in {keyring.operator_token}.")
    click.echo("\n".join((*lines, *pending(status.next_start if status else ()))))


def _rotated_lines(rotation: Rotation, status: StatusAnswer | None) -> Iterator[str]:
    """Yield lines that say how long the old keys are valid and what the user must do."""
    old = rotation.old_keys
    if len(old) > 1:
        yield f"{len(old)} old keys are still valid, the last until {_last(old)}."
    elif old:
        yield f"The old key is valid until {_last(old)}. Then its connections are closed."
    if not status:
        also = "" if old else ", and rejects the old one"
        yield f"No daemon is running. When it starts, it accepts the new key{also}."
    elif not status.embedded:
        again = f", and again after {_last(old)}" if old else ""
        yield f"Update the bus with the output of `safetyd nats-config` now{again}."
        yield "Until you do, the bus accepts the old key and rejects the new one."
        yield _FOLLOWED
    elif not old:
        yield "The old key is no longer valid, and its connections are closed."


def _next_steps(terms: Terms, *, was_here: bool) -> Iterator[str]:
    if not was_here:
        yield "The old key file was moved. Move the new one to the same place."
        return
    if terms.role == "agents":
        yield "Agents that use safetyd's client with this file load the new key automatically."
    others = "" if terms.at_once else " before then"
    yield f"Restart other programs that use this file{others}, and replace copies of it."


def _last(old: Sequence[OldKey]) -> str:
    return when(max(key.until for key in old))


def _role(location: Location, name: str) -> Role | None:
    """Return the role of the operator or observer with this name, or None if it has no key."""
    roles: dict[object, Role] = {"operator": "operators", "observer": "observers"}
    return next((roles[row.role] for row in _people(location) if row.name == name), None)


def _people(location: Location) -> list[KeyRow]:
    replace = msgspec.structs.replace
    operators = [replace(row, role="operator") for row in key_rows(location, "operators")]
    return [*operators, *(replace(row, role="observer") for row in key_rows(location, "observers"))]


def key_rows(location: Location, role: Role) -> list[KeyRow]:
    keyring = Keyring(location.keys)
    look_into(location.keys / role)
    with key_errors(f"cannot read {location.keys}"):
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


def show_keys(what: str, rows: Sequence[KeyRow], more: Columns[KeyRow], *, as_json: bool) -> None:
    if as_json:
        click.echo(document({"ok": True, what: rows}))
    elif not rows:
        click.echo("No keys yet.")
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
