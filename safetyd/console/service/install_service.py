"""`safetyd install-service` and `uninstall-service`."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from safetyd.console.failure import Failure
from safetyd.console.help_page import command
from safetyd.console.locations import data_dir
from safetyd.console.options import json_option, together
from safetyd.console.recorded_files import Change, diff
from safetyd.console.service.service_installation import (
    ServiceInstallation,
    ServicePlaces,
    own_program,
)
from safetyd.console.service.service_manager import ServiceManager
from safetyd.console.service.service_unit import (
    SYSTEM_CONFIG,
    SYSTEM_DATA,
    DaemonCommand,
    Scope,
    unit_text,
)
from safetyd.console.terminal_text import document, plain

MAX_PATH_CHARS = 4096

_whose = together(
    click.option("--user", "scope", flag_value="user", help="For you (default, except for root)."),
    click.option("--system", "scope", flag_value="system", help="For the machine; needs root."),
)


@command()
@_whose
@click.option("--now", is_flag=True, help="Also start it, now and at every boot or login.")
@click.option(
    "--config",
    "config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help=f"The configuration file. Default with --system: {SYSTEM_CONFIG}.",
)
@click.option(
    "--data-dir",
    "directory",
    metavar="DIR",
    help=f"The data directory. Default with --system: {SYSTEM_DATA}.",
)
@click.option("--force", is_flag=True, help="Replace a unit that somebody else wrote or changed.")
@click.option("--print", "only_print", is_flag=True, help="Print the unit and write nothing.")
@json_option
def install_service(  # noqa: PLR0913 - one for each option
    scope: Scope | None,
    config: Path | None,
    directory: str | None,
    *,
    now: bool,
    force: bool,
    only_print: bool,
    as_json: bool,
) -> None:
    """Run the daemon as a service of systemd.

    Writes a unit that starts this installation of safetyd. With --system, it also creates the user
    safetyd, and a configuration if there is none.

    For example:
      safetyd install-service --now
      sudo /opt/safetyd/bin/safetyd install-service --system --now
      safetyd install-service --print
    """
    scope = scope or _usual_scope()
    daemon = _daemon(scope, config, directory)
    if only_print:
        unit = unit_text(scope, daemon)
        click.echo(document({"unit": unit}) if as_json else unit, nl=as_json)
        return
    service, manager = _service(scope)
    changes = service.planned(daemon)
    replaced = "".join(diff(one) for one in changes if one.before is not None)
    if replaced and not as_json:
        click.echo(replaced, nl=False)
    if not force:
        _refuse(service.foreign(changes))
    service.write(changes, daemon.data_dir)
    if now:
        manager.start()
    warnings = list(service.warnings(os.environ, Path.home()))
    if as_json:
        facts = {"ok": True, **_facts(scope, daemon), "wrote": _paths(changes), "diff": replaced}
        click.echo(document({**facts, "started": now, "warnings": warnings}))
    else:
        for line in _told(manager, changes, warnings, now=now):
            click.echo(plain(line, MAX_PATH_CHARS))


@command()
@_whose
@click.option("--force", is_flag=True, help="Remove the unit even if somebody changed it.")
@json_option
def uninstall_service(scope: Scope | None, *, force: bool, as_json: bool) -> None:
    """Stop the service and remove the files that `safetyd install-service` wrote.

    If it replaced a file, that file comes back. Files that you changed stay, and so do the data
    directory and the user safetyd.

    For example:
      safetyd uninstall-service
      sudo /opt/safetyd/bin/safetyd uninstall-service --system
    """
    service, _manager = _service(scope or _usual_scope())
    done = service.undo(service.undone(force=force))
    removed, left = [*map(str, done.removed)], [*map(str, done.left)]
    if as_json:
        click.echo(document({"ok": True, "removed": removed, "left": left}))
        return
    for path in removed:
        click.echo(f"Removed {plain(path, MAX_PATH_CHARS)}")
    for path in left:
        click.echo(f"Left {plain(path, MAX_PATH_CHARS)}, because it was changed")
    click.echo("The data directory stays.")


def _usual_scope() -> Scope:
    return "user" if os.geteuid() else "system"


def _daemon(scope: Scope, config: Path | None, directory: str | None) -> DaemonCommand:
    if config is not None:
        config = config.absolute()
        if not config.is_file():
            raise Failure(f"{config} does not exist. Create it with: safetyd init {config}")
    if scope == "user":
        return DaemonCommand(own_program(), config, data_dir(directory))
    place = Path(directory).absolute() if directory else SYSTEM_DATA
    return DaemonCommand(
        own_program(), config or SYSTEM_CONFIG, None if place == SYSTEM_DATA else place
    )


def _service(scope: Scope) -> tuple[ServiceInstallation, ServiceManager]:
    if scope == "system" and os.geteuid():
        raise Failure("a service for the system needs root. Run it with sudo", "not_root")
    manager = ServiceManager(scope)
    manager.check()
    if scope == "user":
        places = ServicePlaces.of_user(Path.home(), os.environ)
    else:
        places = ServicePlaces.of_system(Path("/"))
    return ServiceInstallation(scope, places, manager), manager


def _refuse(foreign: Sequence[Change]) -> None:
    for change in foreign:
        raise Failure(
            f"{change.path} exists, and `safetyd install-service` did not write it, or it was "
            "changed since. Nothing was written. To replace it, use --force; `safetyd "
            "uninstall-service` then restores it",
            "exists",
        )


def _facts(scope: Scope, daemon: DaemonCommand) -> dict[str, object]:
    return {
        "scope": scope,
        "program": " ".join(daemon.program),
        "config": str(daemon.config or ""),
        "data_dir": str(daemon.data_dir or SYSTEM_DATA),
    }


def _paths(changes: Sequence[Change]) -> list[str]:
    return [str(change.path) for change in changes]


def _told(
    manager: ServiceManager, changes: Sequence[Change], warnings: Sequence[str], *, now: bool
) -> Iterator[str]:
    yield from (f"Wrote {path}" for path in _paths(changes))
    if not changes:
        yield "The unit is up to date."
    yield from (f"Warning: {warning}." for warning in warnings)
    if now:
        yield f"The service runs. To see its state: {manager.command('status')}"
    else:
        yield f"To start it: {manager.command('enable --now')}"
