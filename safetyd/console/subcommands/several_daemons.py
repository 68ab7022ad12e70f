"""`cluster` and `handover`: several daemons on one bus."""

import urllib.error
import urllib.request
from typing import Final

import anyio
import click
import msgspec

from safetyd.bus.keyring import Keyring, KeyUnusable
from safetyd.clock import uptime
from safetyd.console.failure import Failure, NotReachable
from safetyd.console.help_page import command
from safetyd.console.locations import Location, endpoint
from safetyd.console.operator_connection import OperatorConnection, ask, connected
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.cluster_page import cluster as shown
from safetyd.console.terminal_text import document, echo, plain
from safetyd.operators.contract.cluster_contract import (
    ClusterAnswer,
    ClusterQuestion,
    ClusterSummary,
    HandoverCommand,
)
from safetyd.operators.contract.status_contract import StatusQuestion

LOCAL_S: Final = 5.0
TAKEN_S: Final = 30.0  # how long `handover` waits for the next writer
LOOK_S: Final = 0.1

_decode = msgspec.json.Decoder(ClusterAnswer).decode


@command(sends=ClusterQuestion)
@json_option
@reaches_daemon
def cluster(location: Location, *, as_json: bool) -> None:
    """The output begins with problems and what to do about them. If no daemon decides, the daemon
    of this machine answers.

    For example:
      safetyd cluster
      safetyd cluster --json
    """
    try:
        answer = ask(location, ClusterQuestion())
    except NotReachable as exc:
        answer = _local(location, exc)
    echo(answer, shown, as_json=as_json)


def _local(location: Location, silence: NotReachable) -> ClusterAnswer:
    """Return the answer of the daemon on this machine, or raise `silence`."""
    found = endpoint(location.data_dir)
    if found is None:
        raise silence
    try:
        token = Keyring(location.keys).bearer()
        request = urllib.request.Request(  # noqa: S310 - our own daemon
            f"{found.web}/api/v1/cluster", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=LOCAL_S) as answer:  # noqa: S310
            return _decode(answer.read())
    except (OSError, KeyUnusable, msgspec.DecodeError):
        raise silence from None


@command(sends=HandoverCommand)
@click.option("--force", is_flag=True, help="Do it even if no standby can take over.")
@json_option
@reaches_daemon
def handover(location: Location, *, force: bool, as_json: bool) -> None:
    """The daemon that decides finishes its work and becomes a standby. The command waits until
    another daemon decides, and prints its name. Agents notice at most a short delay.

    For example:
      safetyd handover
    """
    begun = uptime()
    before, after = anyio.run(_handed_over, location, force)
    took_s = uptime() - begun
    if as_json:
        facts = {"before": before, "writer": after.writer, "term": after.term}
        click.echo(document({"ok": True, **facts, "seconds": round(took_s, 2)}))
    elif after.writer == before:
        click.echo(f"No other daemon took over: {plain(before)} decides again.")
    else:
        click.echo(f"{plain(after.writer)} decides now, {took_s:.1f} s after the handover began.")


async def _handed_over(
    location: Location,
    force: bool,  # noqa: FBT001 - of a call by anyio
) -> tuple[str, ClusterSummary]:
    """Hand over. Return the old writer, and what the new one says."""
    async with connected(location) as operator:
        done = await operator.ask(HandoverCommand(force=force))
        with anyio.move_on_after(TAKEN_S):
            while True:
                after = await _seen(operator)
                if after is not None and after.term > done.term:
                    return done.writer, after
                await anyio.sleep(LOOK_S)
    raise Failure(
        f"{done.writer} has handed over, but no daemon decided within {TAKEN_S:g} s. "
        "Run `safetyd cluster`",
        "no_writer",
    )


async def _seen(operator: OperatorConnection) -> ClusterSummary | None:
    """Return what the writer says, or None while there is none."""
    try:
        status = await operator.ask(StatusQuestion(), patience_s=1.0)
    except Failure:
        return None
    return status.cluster or None
