"""`safetyd run`: the daemon in the foreground."""

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import click

from safetyd.bus.embedded_server import ServerMissing
from safetyd.console.locations import data_dir, make_private, naming
from safetyd.console.render.request_tables import telling
from safetyd.daemon.config import ConfigError, load
from safetyd.daemon.file_ownership import Foreign, check_owners
from safetyd.daemon.lifecycle import Daemon
from safetyd.host import AlreadyRunning, Endpoint, Unusable, check_room, files_needed
from safetyd.journal.recovery import JournalLost, JournalTrimmed
from safetyd.journal.stream import Displaced, JournalUnusable
from safetyd.monitoring import event_log

# What an operator can mend; anything else is ours and shows where it happened.
_EXPECTED = (
    AlreadyRunning,
    ConfigError,
    Displaced,
    Foreign,
    JournalLost,
    JournalTrimmed,
    JournalUnusable,
    ServerMissing,
    Unusable,
)


@click.command()
@click.option("--config", "config_path", type=click.Path(path_type=Path), help="A TOML file.")
@click.option("--data-dir", "directory", help="Where everything is kept.")
@click.option("--verbose", is_flag=True, help="Log every decision, allowed ones too.")
def run(config_path: Path | None, directory: str | None, *, verbose: bool) -> None:
    """Run the daemon in the foreground until Ctrl-C."""
    event_log.set_up(verbose=verbose)
    where = data_dir(directory)
    make_private(where)
    try:
        daemon = _daemon(config_path, where)
        anyio.run(daemon.run, lambda endpoint: _announce(endpoint, where, daemon.channels))
    except* _EXPECTED as group:
        for line in "\n".join(_texts(group)).splitlines():
            click.echo(f"safetyd: {line}", err=True)
        sys.exit(1)


def _daemon(config_path: Path | None, where: Path) -> Daemon:
    config = load(config_path)
    with files_needed(where):
        check_owners(where)
        check_room(where)
        return Daemon(config, config_path, where)


def _texts(group: BaseExceptionGroup[BaseException]) -> list[str]:
    texts: list[str] = []
    for exc in group.exceptions:
        texts += _texts(exc) if isinstance(exc, BaseExceptionGroup) else [str(exc)]
    return texts


def _announce(endpoint: Endpoint, where: Path, channels: Sequence[str]) -> None:
    """Say where everything is; a daemon whose words nobody reads runs all the same."""
    with suppress(BrokenPipeError):
        click.echo(_welcome(endpoint, where, channels))


def _welcome(endpoint: Endpoint, where: Path, channels: Sequence[str]) -> str:
    command, there = _own_command(), naming(where)
    return (
        f"safetyd {endpoint.version} is ready\n"
        f"  bus   {endpoint.bus}\n"
        f"  web   {endpoint.web}\n"
        f"  data  {where}\n"
        f"  {telling(channels)}\n"
        "\n"
        "In another terminal:\n"
        f"  {command} check code run_shell --text 'rm -rf /'{there}\n"
        f"  {command} status{there}\n"
        "Ctrl-C stops it."
    )


def _own_command() -> str:
    """Return what to type for this very program: its name if the shell finds it, else its path."""
    found = shutil.which("safetyd")
    own = Path(sys.executable).with_name("safetyd")
    if found and Path(found).resolve() == own.resolve():
        return "safetyd"
    return os.path.relpath(own) if own.is_relative_to(Path.cwd()) else str(own)
