"""`safetyd demo`: runs a temporary daemon and plays the scenes."""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import anyio
import click

from safetyd.console.demo.demo_daemon import daemon
from safetyd.console.demo.scenes import SCENES
from safetyd.console.demo.stage import PATIENCE_S, play
from safetyd.console.demo.takeover_demo import play_takeover
from safetyd.console.failure import BLOCKED, need
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.subcommands.read_records import verified
from safetyd.console.terminal_text import several
from safetyd.journal.audit import files

_OURS: Final = ("SAFETYD_", "AI_COMPANY_", "STATE_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_")
FASTER: Final = 20  # CONFIG divides the default waiting times by this

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
    "This demo runs its own daemon in a temporary directory. The daemon has the default settings,\n"
    f"but waiting times are {FASTER} times shorter. Scenes mention other exceptions."
)


def forget_environment() -> None:
    """Delete environment variables that would select another daemon or disable agents."""
    for name in tuple(os.environ):
        if name.startswith(_OURS):
            del os.environ[name]


def tidy(directory: Path) -> None:
    """Delete everything except the audit files."""
    for path in directory.iterdir():
        if path.is_dir() and path.name != "audit":
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_file():
            path.unlink()


@command()
@click.option(
    "--scene", type=click.IntRange(1, len(SCENES)), metavar="N", help="Play only this scene."
)
@click.option("--auto", is_flag=True, help="Approve requests automatically.")
@click.option("--cluster", is_flag=True, help="Show instead how a standby takes over.")
def demo(scene: int | None, *, auto: bool, cluster: bool) -> int:
    """Play scenes in which actions are allowed, blocked, or need approval.

    In the last scene you answer a request. Without a terminal, the demo approves it.

    For example:
      safetyd demo
      safetyd demo --scene 14
      safetyd demo --cluster
    """
    need("demo", "aiohttp", "genai_prices", "prometheus_client")
    forget_environment()
    if cluster:
        return BLOCKED if play_takeover() else 0
    directory = Path(tempfile.mkdtemp(prefix="safetyd-demo-"))
    click.echo(OPENING)
    scenes = {n: played for n, played in enumerate(SCENES, 1) if scene in {None, n}}
    try:
        with daemon(directory, CONFIG):
            answer = None if auto or not sys.stdin.isatty() else _answer
            played = anyio.run(play, Location(data_dir=directory), scenes, PATIENCE_S, answer)
        found = verified(directory / "audit")
    finally:
        tidy(directory)
    click.echo(f"\n{played.summary}")
    click.echo(f"Audit file: {files(directory / 'audit')[-1]}")
    click.echo(f"Its hash chain of {several(found.records, 'record')} is intact.")
    click.echo(f"All other files were deleted. You can delete {directory}.")
    return BLOCKED if played.surprises else 0


def _answer() -> bool:
    return click.confirm("   Approve it?", default=False)
