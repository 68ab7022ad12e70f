"""`safetyd resume`: clear the operators' stops and the stop files, and say what still holds."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import anyio
import click

from safetyd.console import stop_file
from safetyd.console.agent_list import everybody, unheard
from safetyd.console.causes import View, cause, ending
from safetyd.console.failure import BLOCKED, NotReachable
from safetyd.console.locations import Place
from safetyd.console.operator_connection import Operator, Reply, connected
from safetyd.console.options import reaches_daemon
from safetyd.console.terminal_text import plain

WAIT_S: Final = 5.0
LOOK_S: Final = 0.1


@click.command()
@click.option("--agent", metavar="A", help="Let this agent go on; files are left alone.")
@click.option("--reason", default="", help="Why, for the record.")
@click.option("--yes", is_flag=True, help="Delete stop files that others wrote without asking.")
@reaches_daemon
def resume(place: Place, reason: str, agent: str | None, *, yes: bool) -> int:
    """Let work go on after a stop.

    Stop files that `safetyd stop` wrote are deleted; those of others after you have seen them.
    """
    try:
        if agent is None:
            return anyio.run(_resume, place, reason, yes)
        return anyio.run(_resume_agent, place, reason, agent)
    except NotReachable as exc:
        raise NotReachable(exc.message + _without_daemon(place)) from exc


async def _resume(place: Place, reason: str, yes: bool) -> int:  # noqa: FBT001
    async with connected(place) as operator:
        before = await operator.query("status")
        found = [path for path in map(Path, before["stop_files"]) if stop_file.is_there(path)]
        chosen = [path for path in found if _may_go(path, yes=yes)]
        await operator.control("resume", reason=reason)
        gone = [path for path in chosen if _deleted(path)]
        left = await _left(operator, gone, set(found) - set(gone))
    held = found or any(stop["agent"] is None for stop in before["stop"]["stops"])
    holds = len(gone) < len(found) or any(stop["agent"] is None for stop in left)
    if not holds:
        click.echo("Work may go on." if held else _nothing(left))
    _still(left)
    return BLOCKED if holds else 0


async def _resume_agent(place: Place, reason: str, agent: str) -> int:
    async with connected(place) as operator:
        cleared = (await operator.control("resume", reason=reason, agent=agent))["cleared"]
        left = (await operator.query("status"))["stop"]["stops"]
        rows = await everybody(operator.query)
    left = [stop for stop in left if stop["agent"] in {None, agent}]
    if stranger := unheard(agent, rows):
        click.echo(stranger)
    click.echo(_resumed(plain(agent), lifted=bool(cleared), held=bool(left)))
    _still(left)
    return BLOCKED if left else 0


def _resumed(agent: str, *, lifted: bool, held: bool) -> str:
    if not lifted:
        return f"No stop of {agent} alone was in force."
    return f"{agent}'s own stop is lifted." if held else f"{agent} may go on."


def _nothing(left: Sequence[View]) -> str:
    return "Only single agents are stopped." if left else "Nothing was stopped."


def _still(left: Sequence[View]) -> None:
    for stop in left:
        click.echo(f"Still stopped: {cause(stop)}")
        click.echo(f"  {ending(stop)}")


def _without_daemon(place: Place) -> str:
    path = place.data_dir / stop_file.NAME
    if not stop_file.is_there(path):
        return ""
    return f"\nthe stop file {path} is there and would hold from the start; it may be deleted"


def _may_go(path: Path, *, yes: bool) -> bool:
    if yes or stop_file.is_ours(path):
        return True
    click.echo(f"Somebody else wrote {path}:")
    for line in stop_file.text_of(path).splitlines() or ["(it has no text)"]:
        click.echo(f"  {plain(line)}")
    if sys.stdin.isatty():
        return click.confirm("Delete it?", default=False)
    click.echo("It is left: there is no terminal to ask at, and no --yes.")
    return False


def _deleted(path: Path) -> bool:
    try:
        path.unlink(missing_ok=True)
    except OSError as exc:
        click.echo(f"{path} cannot be deleted ({exc.strerror}), so its stop holds.")
        return False
    return True


async def _left(operator: Operator, gone: Iterable[Path], kept: Iterable[Path]) -> list[Reply]:
    """Return what stops once the daemon knows of the files that are gone and left, or after 5 s."""
    ended, lasting = ({f"file:{path}" for path in paths} for paths in (gone, kept))
    left: list[Reply] = []
    with anyio.move_on_after(WAIT_S):
        while True:
            left = (await operator.query("status"))["stop"]["stops"]
            sources = {stop["source"] for stop in left}
            if lasting <= sources and not ended & sources:
                break
            await anyio.sleep(LOOK_S)
    return left
