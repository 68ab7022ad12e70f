"""`safetyd resume`: clear the operators' stops and the stop files, and say what still holds."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio
import click

from safetyd.console import stop_file
from safetyd.console.failure import BLOCKED
from safetyd.console.options import reaches_daemon
from safetyd.console.person import Operator, connected
from safetyd.console.places import Place
from safetyd.console.plain import plain
from safetyd.console.render import View, one_stop

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
    return anyio.run(_resume, place, reason, agent, yes)


async def _resume(place: Place, reason: str, agent: str | None, yes: bool) -> int:  # noqa: FBT001
    async with connected(place) as operator:
        found = await _files(operator) if agent is None else []
        chosen = [path for path in found if _may_go(path, yes=yes)]
        await operator.control("resume", reason=reason, agent=agent)
        gone = [path for path in chosen if _deleted(path)]
        left = await _left(operator, [f"file:{path}" for path in gone])
    holding = [stop for stop in left if stop["agent"] in {None, agent}]
    if not holding and len(gone) == len(found):
        click.echo(f"{plain(agent)} may go on." if agent else "Work may go on.")
    for stop in left:
        click.echo(f"Still stopped: {one_stop(stop)}")
    return BLOCKED if holding or len(gone) < len(found) else 0


async def _files(operator: Operator) -> list[Path]:
    status = await operator.query("status")
    return [path for path in map(Path, status["stop_files"]) if stop_file.is_there(path)]


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


async def _left(operator: Operator, gone: Sequence[str]) -> list[View]:
    """Return what stops once the daemon has noticed which files are gone, at the latest in 5 s."""
    left: list[View] = []
    with anyio.move_on_after(WAIT_S):
        while True:
            left = (await operator.query("status"))["stop"]["stops"]
            if not any(stop["source"] in gone for stop in left):
                break
            await anyio.sleep(LOOK_S)
    return left
