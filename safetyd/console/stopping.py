"""`safetyd stop`: the command first, then the file, then who has heard it."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import click
import msgspec

from safetyd.clock import Clock
from safetyd.console import stop_file
from safetyd.console.failure import BLOCKED, Failure
from safetyd.console.options import reaches_daemon
from safetyd.console.person import Operator, Reply, connected
from safetyd.console.places import Place, make_private
from safetyd.console.plain import plain
from safetyd.console.render import indented, names

WAIT_S: Final = 5.0
LOOK_S: Final = 0.1
COMMAND_S: Final = 60.0


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """Who knows of the stop after waiting for them."""

    acknowledged: Sequence[str] = ()
    silent: Sequence[str] = ()
    known: bool = True  # False: the daemon did not say


@click.command()
@click.argument("reason", default="")
@click.option("--agent", metavar="A", help="Stop this agent only; no file is written.")
@reaches_daemon
def stop(place: Place, reason: str, agent: str | None) -> int:
    """Stop everything now, or one agent.

    Waits up to 5 s for agents to acknowledge it, then runs the `commands` of [stop].
    """
    try:
        return anyio.run(_stop, place, reason, agent)
    except Failure as exc:
        if agent is not None:
            raise
        return _by_file(place, reason, exc)


async def _stop(place: Place, reason: str, agent: str | None) -> int:
    async with connected(place) as operator:
        reply = await operator.control("stop", reason=reason, agent=agent)
        click.echo(f"{plain(agent) if agent else 'Everything'} is stopped.")
        if not reply["journalled"]:
            click.echo("It is in force, but not yet written down: the journal does not answer.")
        status = await _status(operator)
        files = [Path(file) for file in status.get("stop_files", ())]
        path = files[0] if files else place.data_dir / stop_file.NAME
        written = agent is None and _write(path, operator.name, reason)
        heard = await _wait(operator, agent, f"file:{path}" if written and files else "")
        waiting = await _open_actions(operator, agent)
    _tell(heard, waiting)
    commands = status.get("stop_commands", ()) if agent is None else ()
    failed = [command for command in commands if not _run(command)]
    return _end(heard, failed, agent)


def _by_file(place: Place, reason: str, exc: Failure) -> int:
    """Do what can be done without the daemon's word."""
    click.echo(f"safetyd: {plain(exc.message, 2000)}", err=True)
    make_private(place.data_dir)
    if _write(place.data_dir / stop_file.NAME, place.name, reason):
        click.echo("It will hold from the start of a daemon that looks there, as by default.")
        click.echo("No daemon has acknowledged the stop, and no [stop] commands were run.")
    return exc.exit_code


def _write(path: Path, by: str, reason: str) -> bool:
    try:
        stop_file.write(path, by, Clock().now().at, reason)
    except OSError as exc:
        click.echo(f"The stop file {path} cannot be written: {exc.strerror}.", err=True)
        return False
    click.echo(f"The stop file is {path}.")
    return True


async def _wait(operator: Operator, agent: str | None, source: str) -> Heard:
    """Return who has heard, once all have or the time is over."""
    heard = Heard(known=False)
    with anyio.move_on_after(WAIT_S):
        while True:
            status = await _status(operator)
            if status:
                heard = _heard(status["stop"], agent)
                sources = {stop["source"] for stop in status["stop"]["stops"]}
                if not heard.silent and (not source or source in sources):
                    break
            await anyio.sleep(LOOK_S)
    return heard


async def _status(operator: Operator) -> Reply:
    """Return the daemon's status; a stop holds also while it cannot be asked for one."""
    try:
        return await operator.query("status", patience_s=1.0)
    except Failure:
        return {}


def _heard(view: dict[str, Any], agent: str | None) -> Heard:
    return Heard(
        acknowledged=[name for name in view["acknowledged"] if agent in {None, name}],
        silent=[name for name in view["silent"] if agent in {None, name}],
    )


async def _open_actions(operator: Operator, agent: str | None) -> dict[str, int]:
    """Return how many actions of each agent were allowed and have no outcome yet."""
    try:
        rows = (await operator.query("agents", patience_s=1.0))["agents"]
    except Failure:
        return {}
    found = {row["agent"]: len(row["open_actions"]) + row["unreported"] for row in rows}
    return {name: count for name, count in found.items() if count and agent in {None, name}}


def _tell(heard: Heard, waiting: dict[str, int]) -> None:
    if not heard.known:
        click.echo("The daemon does not say who has acknowledged it.")
        return
    facts = [
        ("acknowledged by", names(heard.acknowledged)),
        ("silent", names(heard.silent)),
        ("allowed and not yet reported", names([f"{name} {waiting[name]}" for name in waiting])),
    ]
    click.echo("\n".join(indented(facts)))


def _run(command: str) -> bool:
    """Run one of the operator's own commands with the operator's rights."""
    try:
        done = subprocess.run(command, shell=True, check=False, timeout=COMMAND_S)  # noqa: S602
    except subprocess.TimeoutExpired:
        click.echo(f"{plain(command)}: no end after {COMMAND_S:g} s")
        return False
    click.echo(f"{plain(command)}: exit code {done.returncode}")
    return done.returncode == 0


def _end(heard: Heard, failed: Sequence[str], agent: str | None) -> int:
    if heard.silent:
        click.echo(f"Not acknowledged by {names(heard.silent)}: look after them by hand.")
    if failed:
        click.echo(f"{len(failed)} of the [stop] commands failed.")
    if heard.silent or failed or not heard.known:
        return BLOCKED
    click.echo(f"{plain(agent)} is halted" if agent else "All autonomous operations halted")
    return 0
