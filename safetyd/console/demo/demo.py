"""`safetyd demo`: a throw-away daemon and a handful of agents, in words."""

import sys
import tempfile
from pathlib import Path
from typing import Final

import anyio
import click

from safetyd.console.demo.scenes import SCENES
from safetyd.console.demo.stage import PATIENCE_S, play
from safetyd.console.demo.throwaway import daemon, forget_environment, tidy
from safetyd.console.failure import BLOCKED
from safetyd.console.locations import Place
from safetyd.console.subcommands.read_records import verified
from safetyd.console.terminal_text import several
from safetyd.journal.audit import files

FASTER: Final = 20  # how many times shorter than by default waiting is
CONFIG: Final = """\
[web]
port = 0

[safe_mode]
cooldown_ms = 3000

[breaker]
open_s = 1.5
probe_interval_s = 0.25

[cooldown]
dispatch_s = 3.0

[agents.burster]
burst = 5
tokens_per_minute = 3

[anomaly.rapid_identical]
severity = "high"
"""
OPENING: Final = (
    "This is a daemon of its own, in a directory of its own, with the defaults, except that\n"
    f"waiting times are divided by {FASTER}, and where a scene says otherwise."
)


@click.command()
@click.option("--scene", type=click.IntRange(1, len(SCENES)), help="Play only this one.")
@click.option("--auto", is_flag=True, help="Do not ask you anything; approve what waits.")
def demo(scene: int | None, *, auto: bool) -> int:
    """Show a few agents being allowed, asked about and blocked.

    One of them waits for your answer, unless there is no terminal to ask at.
    """
    forget_environment()
    directory = Path(tempfile.mkdtemp(prefix="safetyd-demo-"))
    click.echo(OPENING)
    scenes = {n: played for n, played in enumerate(SCENES, 1) if scene in {None, n}}
    try:
        with daemon(directory, CONFIG):
            answer = None if auto or not sys.stdin.isatty() else _answer
            played = anyio.run(play, Place(data_dir=directory), scenes, PATIENCE_S, answer)
        found = verified(directory / "audit")
    finally:
        tidy(directory)
    click.echo(f"\n{played.summary}")
    click.echo(f"Audit file: {files(directory / 'audit')[-1]}")
    click.echo(f"Its chain of {several(found.records, 'record')} holds.")
    click.echo(f"The rest is removed; {directory} stays, and is yours to delete.")
    return BLOCKED if played.surprises else 0


def _answer() -> bool:
    return click.confirm("   Approve it?", default=False)
