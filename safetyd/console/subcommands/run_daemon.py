"""`safetyd run`: the daemon in the foreground."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import click

from safetyd.bus.embedded_server import ServerMissing
from safetyd.client.discovery import naming
from safetyd.console.help_page import command
from safetyd.console.locations import activate_command, make_private, own_command
from safetyd.console.options import data_dir_option
from safetyd.console.render.profiles import judged_by
from safetyd.console.render.request_tables import notified_by
from safetyd.console.terminal_text import CTRL_C
from safetyd.core.action_types import Profile
from safetyd.daemon.config import Config, ConfigError, load_to_run
from safetyd.daemon.file_ownership import Foreign, check_owners
from safetyd.daemon.lifecycle import Daemon
from safetyd.host import (
    AlreadyRunning,
    Endpoint,
    Unusable,
    check_room,
    files_needed,
    own_config,
    raise_open_files,
)
from safetyd.journal.journals import JournalTrimmed
from safetyd.journal.recovery import JournalLost, UnknownEvent
from safetyd.journal.stream import Displaced, JournalUnusable
from safetyd.monitoring import event_log

SIGN_IN: Final = "Sign in to the control room (one browser, within five minutes):"

# Errors that an operator can fix. Any other error is a bug and shows its traceback.
_EXPECTED = (
    AlreadyRunning,
    ConfigError,
    Displaced,
    Foreign,
    JournalLost,
    JournalTrimmed,
    JournalUnusable,
    ServerMissing,
    UnknownEvent,
    Unusable,
)


@command()
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The configuration file. Default: safetyd.toml in the data directory, if it exists.",
)
@data_dir_option
@click.option("--verbose", is_flag=True, help="Also log actions that are allowed.")
def run(config_path: Path | None, directory: Path, *, verbose: bool) -> None:
    """Run the daemon in the foreground, until Ctrl-C.

    For example:
      safetyd run
      safetyd run --config /etc/safetyd/safetyd.toml --data-dir /var/lib/safetyd
    """
    event_log.set_up(verbose=verbose)
    raise_open_files()
    make_private(directory)
    file = config_path or own_config(directory)
    try:
        config = load_to_run(file)
        daemon = _daemon(config, file, directory)
        anyio.run(
            daemon.run,
            lambda endpoint: _announce(
                _welcome(endpoint, directory, file, config.profile, daemon.channels), daemon
            ),
        )
    except* _EXPECTED as group:
        for line in "\n".join(_texts(group)).splitlines():
            click.echo(f"safetyd: {line}", err=True)
        sys.exit(1)


def _daemon(config: Config, file: Path | None, where: Path) -> Daemon:
    with files_needed(where):
        check_owners(where)
        check_room(where)
        return Daemon(config, file, where)


def _texts(group: BaseExceptionGroup[BaseException]) -> list[str]:
    texts: list[str] = []
    for exc in group.exceptions:
        texts += _texts(exc) if isinstance(exc, BaseExceptionGroup) else [str(exc)]
    return texts


def _announce(welcome: str, daemon: Daemon) -> None:
    """Print the addresses of the daemon. A closed standard output is not an error.

    The sign-in link is printed only on a terminal: other users may be able to read a log.
    """
    with suppress(BrokenPipeError):
        if sys.stdout.isatty():
            welcome = f"{welcome}\n{SIGN_IN}\n  {daemon.sign_in_link()}"
        click.echo(f"{welcome}\n{CTRL_C}")


def _welcome(
    endpoint: Endpoint, where: Path, file: Path | None, profile: Profile, channels: Sequence[str]
) -> str:
    command, there = own_command(), naming(where)
    activation = activate_command()
    command = "safetyd" if activation else command
    steps = [
        *([activation] if activation else ()),
        *([] if file else [f"{command} init{there}"]),
        f"{command} check code run_shell --text 'rm -rf /'{there}",
        f"{command} status{there}",
        f"{command} open{there}",
    ]
    said = "\n".join(f"  {line}" for line in (*judged_by(profile), notified_by(channels)))
    config = file.absolute() if file else f"none; create one with `{command} init{there}`"
    state = "follows the journal and can take over" if endpoint.standby else "is ready"
    return (
        f"safetyd {endpoint.version} {state}\n"
        f"  bus     {endpoint.bus}\n"
        f"  web     {endpoint.web}\n"
        f"  data    {where}\n"
        f"  config  {config}\n"
        f"{said}\n"
        "\nIn another terminal:\n" + "\n".join(f"  {step}" for step in steps)
    )
