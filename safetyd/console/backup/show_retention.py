"""`safetyd retention`: list snapshots and archives, and when they expire."""

from contextlib import suppress
from pathlib import Path
from typing import Final

import click
import msgspec

from safetyd.clock import Clock
from safetyd.console.daemon_config import read_config
from safetyd.console.failure import Failure, packages_needed
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask
from safetyd.console.options import config_option, json_option, reaches_daemon
from safetyd.console.render.layout import Columns, aligned, some, table
from safetyd.console.terminal_text import document
from safetyd.core.events.disk_words import size
from safetyd.daemon.config import Config
from safetyd.daemon.disk_space import measured
from safetyd.extras.backup.history_config import today
from safetyd.extras.backup.retention import RetainedItem, Retention
from safetyd.extras.backup.snapshots import Busy
from safetyd.host import own_config, system_zone
from safetyd.operators.contract.status_contract import StatusQuestion

# How long the parts of the data directory are stored.
RULES: Final = {
    "audit": "forever (you can move all but the newest file)",
    "transcripts": "forever (you can move them)",
    "journal": "events since the older checkpoint",
    "checkpoints": "the two newest",
}


@command()
@click.option("--now", is_flag=True, help="Delete expired snapshots and archives now.")
@config_option
@json_option
@reaches_daemon
@packages_needed("retention")
def retention(location: Location, config_path: Path | None, *, now: bool, as_json: bool) -> None:
    """List snapshots and archives, their size and when they expire.

    After each daily snapshot, the daemon deletes expired snapshots and archives, and nothing else.

    For example:
      safetyd retention
      safetyd retention --now
    """
    config = _config(location, config_path)
    kept = Retention(location.data_dir, config.history.archive_dir)
    zone, at = config.notifications.timezone or system_zone(), Clock().now().at
    wanted, gone = bool(config.history.snapshot_at), list[RetainedItem]()
    try:
        if now:
            with kept.snapshots.alone():
                gone = kept.delete_due(today(at, zone))
        items = kept.planned()
        missing = kept.missing_days(config.history.due_day(at, zone)) if wanted else []
        parts = measured(location.data_dir)
    except Busy as exc:
        raise Failure(f"{exc}: try again later", "busy") from exc
    except OSError as exc:
        raise Failure(f"cannot read or delete snapshots and archives: {exc}", "unreadable") from exc
    if as_json:
        told = {"ok": True, "deleted": gone, "kept": items, "missing": missing, "parts": parts}
        click.echo(document(msgspec.to_builtins(told)))
        return
    for item in gone:
        click.echo(f"Deleted the {item.kind} of {item.name}: {size(item.frees)}.")
    if items:
        click.echo(table(items, _KEPT))
    else:
        none = 'Snapshots are off. To turn them on, set history.snapshot_at, such as "03:30".'
        click.echo("No snapshots yet." if wanted else none)
    if missing:
        click.echo(f"SNAPSHOT MISSING: {some([day.isoformat() for day in missing])}")
    rows = [(name, size(parts.get(name, 0)), rule) for name, rule in RULES.items()]
    click.echo(aligned([("part", "size", "stored"), *rows]))


def _config(location: Location, given: Path | None) -> Config:
    return read_config(given or _of_daemon(location) or own_config(location.data_dir))


def _of_daemon(location: Location) -> Path | None:
    """Return the configuration file of the running daemon."""
    with suppress(Failure):
        return Path(found) if (found := ask(location, StatusQuestion()).config) else None
    return None


_KEPT: Final[Columns[RetainedItem]] = {
    "kind": lambda item: item.kind,
    "name": lambda item: item.name,
    "size": lambda item: size(item.size),
    "frees": lambda item: size(item.frees),
    "expires": lambda item: item.goes or f"not yet: {item.stays}",
}
