"""Change keys and reload the daemon. If the daemon refuses the change, undo it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import anyio
import click
import msgspec

from safetyd.bus.keyring import KeyExists, KeyMissing, Keyring, KeyUnusable, Role, Rotation
from safetyd.clock import Clock, uptime
from safetyd.console.failure import Failure, NotReachable
from safetyd.console.locations import Location, endpoint
from safetyd.console.operator_connection import connected
from safetyd.console.render.layout import when
from safetyd.console.subcommands.hold_agents import RELOAD_S
from safetyd.console.time_input import until as meant
from safetyd.core.messages.proposal import is_token
from safetyd.operators.contract.hold_contract import ReloadCommand, Reloaded
from safetyd.operators.contract.status_contract import StatusAnswer, StatusQuestion

OVERLAP: Final = "24h"
# The old key must stay valid until the daemon has loaded the new one.
STEP: Final = timedelta(minutes=1)
LET_IN_S: Final = 5.0
AGAIN_S: Final = 0.05


def _checked(_: click.Context, __: click.Parameter, name: str) -> str:
    if not is_token(name):
        raise click.UsageError(f"invalid name {name!r}: use 1 to 64 of A-Z a-z 0-9 _ -")
    return name


name_argument = click.argument("name", callback=_checked)


SHARED: Final = "This daemon is a standby. All daemons in bus.daemons know it within a second."


@contextmanager
def key_errors(failed: str) -> Iterator[None]:
    """Turn key errors into `Failure`. The message for an OSError begins with `failed`."""
    try:
        yield
    except KeyExists as exc:
        raise Failure(str(exc), "exists") from exc
    except KeyMissing as exc:
        raise Failure(str(exc), "not_found") from exc
    except KeyUnusable as exc:
        raise Failure(f"{exc}; fix or delete it first", "no_key") from exc
    except OSError as exc:
        raise Failure(f"{failed}: {exc.strerror}") from exc


def on_standby(location: Location) -> bool:
    """Return whether the daemon of the data directory is a standby.

    It notices changed key files by itself, and shares them with the others (`bus.daemons`). The
    bus may not know the key of its operator yet.
    """
    found = None if location.given else endpoint(location.data_dir)
    return found is not None and found.standby


def reloaded(location: Location) -> StatusAnswer | None:
    """Make the daemon reload its keys. Return its status, or None if no daemon answers."""

    async def reload() -> StatusAnswer:
        async with connected(location) as operator:
            status = await operator.ask(StatusQuestion())
            reply = await operator.ask(ReloadCommand(), patience_s=RELOAD_S)
            return msgspec.structs.replace(status, next_start=reply.next_start)

    try:
        return anyio.run(reload)
    except NotReachable:
        return None


class Terms(NamedTuple):
    """The terms of a rotation: whose key is replaced, and how long the old one stays valid."""

    role: Role
    name: str
    now: datetime
    until: datetime
    at_once: bool


def rotation_terms(role: Role, name: str, overlap: str | None, *, at_once: bool) -> Terms:
    if at_once and overlap is not None:
        raise click.UsageError("give --now or --overlap, not both")
    now = Clock().now().at
    return Terms(role, name, now, now if at_once else meant(overlap or OVERLAP, now), at_once)


def rotated(
    location: Location, keyring: Keyring, terms: Terms
) -> tuple[Rotation, StatusAnswer | None]:
    """Rotate a key. Return the new key, and the daemon's status or None if no daemon answers."""
    try:
        return anyio.run(_rotate, location, keyring, terms)
    except NotReachable:
        return keyring.rotate(terms.role, terms.name, now=terms.now, until=terms.until), None


async def _rotate(
    location: Location, keyring: Keyring, terms: Terms
) -> tuple[Rotation, StatusAnswer | None]:
    """Rotate a key, which may be the one that this connection uses.

    The daemon loads the new key while the old one is still valid. With --now, it then reloads
    without the old key.
    """
    role, name, now, until, at_once = terms
    async with connected(location) as operator:
        status = await operator.ask(StatusQuestion())
        two_steps = at_once and status.embedded
        until = now + STEP if two_steps else until
        rotation = keyring.rotate(role, name, now=now, until=until)
        try:
            reply = await operator.ask(ReloadCommand(), patience_s=RELOAD_S)
        except NotReachable:
            return rotation, None
        except Failure as exc:
            keyring.undo(rotation)
            said = f"the key of {name} is unchanged, because the daemon refused: {exc.message}"
            raise Failure(said, exc.code) from exc
    if two_steps:
        keyring.end_old_keys(role, name)
        rotation = rotation._replace(old_keys=())
        if role in {"operators", "observers"} and location.name == name:
            location = msgspec.structs.replace(location, key_file=rotation.seed, operator=name)
        try:
            reply = await _reloaded_with_new_key(location)
        except Failure as exc:
            said = f"{name} has a new key, {rotation.seed}, but the old one stays valid"
            raise Failure(f"{said} until {when(until)}: {exc.message}", exc.code) from exc
    return rotation, msgspec.structs.replace(status, next_start=reply.next_start)


async def _reloaded_with_new_key(location: Location) -> Reloaded:
    """Make the daemon reload its keys. Retry while the bus does not accept the new key yet."""
    end = uptime() + LET_IN_S
    while True:
        try:
            async with connected(location) as operator:
                return await operator.ask(ReloadCommand(), patience_s=RELOAD_S)
        except Failure as exc:
            if exc.code != "refused" or uptime() > end:
                raise
        await anyio.sleep(AGAIN_S)
