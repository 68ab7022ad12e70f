"""`safetyd retention`: what is kept until when, and letting go of what is due."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
import msgspec

from safetyd.clock import Clock
from safetyd.console.failure import Failure, packages_needed
from safetyd.console.locations import Location, config_file
from safetyd.console.operator_connection import query
from safetyd.console.options import config_option, json_option, reaches_daemon
from safetyd.console.render.layout import some, table
from safetyd.console.terminal_text import document, plain
from safetyd.core.reporting.disk_words import size
from safetyd.daemon.config import Config, ConfigError, load
from safetyd.daemon.disk_space import measured
from safetyd.host import system_zone
from safetyd.keeping.retention import KeptItem, let_go, missing_days, planned
from safetyd.keeping.snapshot_days import due_day, today
from safetyd.keeping.snapshots import Busy, Snapshots
from safetyd.keeping.weekly_archives import Archives

# What safetyd deletes of its own accord, and what it never does.
RULES: Final = {
    "audit": "for ever; closed files may be moved away",
    "transcripts": "for ever; they may be moved away",
    "journal": "as far as the older checkpoint needs it",
    "checkpoints": "the two newest",
}


class _Kept(NamedTuple):
    snapshots: Snapshots
    archives: Archives
    config: Config
    day: date


@click.command()
@click.option("--now", is_flag=True, help="Delete what is due.")
@config_option
@json_option
@reaches_daemon
@packages_needed("retention")
def retention(location: Location, config_path: Path | None, *, now: bool, as_json: bool) -> None:
    """Show what is kept until when, and how large it is.

    The daemon deletes what is due after each day's snapshot; --now does it at once. Nothing else
    than safetyd's own snapshots and archives is ever deleted.
    """
    kept = _found(location, config_path)
    try:
        gone = _gone(kept) if now else []
        items = planned(kept.snapshots, kept.archives)
        parts = measured(location.data_dir)
    except Busy as exc:
        raise Failure(f"{exc}: try again in a while", "busy") from exc
    except OSError as exc:
        raise Failure(f"what is kept cannot be read or deleted: {exc}", "unreadable") from exc
    missing = _missing(kept)
    if as_json:
        told = {"ok": True, "deleted": gone, "kept": items, "missing": missing, "parts": parts}
        click.echo(document(msgspec.to_builtins(told)))
        return
    for item in gone:
        click.echo(f"Deleted the {item.kind} of {item.name}: {size(item.frees)}.")
    click.echo(_shown(items, kept))
    if missing:
        click.echo(f"MISSING: no snapshot of {some([day.isoformat() for day in missing])}.")
    click.echo(_for_ever(parts))


def _found(location: Location, given: Path | None) -> _Kept:
    path = given or _of_daemon(location) or config_file(None, location.data_dir)
    try:
        config = load(path)
    except ConfigError as exc:
        raise Failure(str(exc), "config", exc.errors) from exc
    archives = Archives(location.data_dir, config.history.archive_dir)
    snapshots = Snapshots(location.data_dir)
    zone = config.notifications.timezone or system_zone()
    return _Kept(snapshots, archives, config, today(Clock().now().at, zone))


def _of_daemon(location: Location) -> Path | None:
    """Return the file that a running daemon was started with."""
    with suppress(Failure):
        return Path(found) if (found := query(location, "status")["config"]) else None
    return None


def _gone(kept: _Kept) -> list[KeptItem]:
    if not kept.snapshots.directory.is_dir():
        return let_go(kept.snapshots, kept.archives, kept.day)
    with kept.snapshots.alone():
        return let_go(kept.snapshots, kept.archives, kept.day)


def _missing(kept: _Kept) -> list[date]:
    at = kept.config.history.snapshot_at
    if not at:
        return []
    zone = kept.config.notifications.timezone or system_zone()
    return missing_days(kept.snapshots.days(), due_day(Clock().now().at, at, zone))


def _shown(items: Sequence[KeptItem], kept: _Kept) -> str:
    if items:
        heads = ("kept", "of", "size", "frees", "goes")
        return table([heads, *(_row(item) for item in items)])
    if kept.config.history.snapshot_at:
        return "There is no snapshot yet."
    return 'No snapshots are taken: set history.snapshot_at, such as "03:30".'


def _row(item: KeptItem) -> tuple[str, ...]:
    goes = item.goes.isoformat() if item.goes else f"not yet: {plain(item.stays)}"
    return item.kind, item.name, size(item.size), size(item.frees), goes


def _for_ever(parts: Mapping[str, Any]) -> str:
    rows = [(name, size(parts.get(name, 0)), rule) for name, rule in RULES.items()]
    return table([("part", "size", "kept"), *rows])
