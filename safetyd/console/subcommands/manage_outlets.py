"""`safetyd outlet`: the export of events to PostgreSQL."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from safetyd.clock import uptime
from safetyd.console.daemon_config import read_config
from safetyd.console.failure import BLOCKED, Failure
from safetyd.console.help_page import group
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask
from safetyd.console.options import config_option, data_dir_option, json_option, reaches_daemon
from safetyd.console.render.layout import indented, when
from safetyd.console.subcommands.read_records import some_files
from safetyd.console.terminal_text import document, plain, several
from safetyd.extras.postgres.export_problem import ExportProblem
from safetyd.extras.postgres.journal_id import journal_id
from safetyd.extras.postgres.postgres_config import PostgresConfig
from safetyd.extras.postgres.postgres_exporter import NOT_INSTALLED, dsn_of, open_loader
from safetyd.host import own_config
from safetyd.journal.audit_reading import Rests
from safetyd.operators.contract.status_contract import ExporterState, StatusAnswer, StatusQuestion

if TYPE_CHECKING:
    from safetyd.extras.postgres.database import Database
    from safetyd.extras.postgres.standing import Standing

_MAX_CHARS = 1000


class Chosen(NamedTuple):
    """The settings of the export, and the data directory."""

    config: PostgresConfig
    data_dir: Path

    @property
    def audit(self) -> Path:
        return self.data_dir / "audit"

    @property
    def journal(self) -> str:
        return journal_id(self.data_dir, make=False)


@group()
def outlet() -> None:
    """Manage the export of events to PostgreSQL.

    For example:
      safetyd outlet status
      safetyd outlet verify
    """


@outlet.command("status")
@config_option
@json_option
@reaches_daemon
def status_(location: Location, config_path: Path | None, *, as_json: bool) -> int:
    """Show how many events are exported, and the daemon's last error.

    For example:
      safetyd outlet status
    """
    status = _status(location)
    chosen = _chosen(config_path or _config_of(status), location.data_dir)
    found, error = None, ""
    try:
        found = _standing(chosen)
    except Failure as exc:
        error = exc.message
    daemon = status.outlets[0] if status and status.outlets else None
    wrong = list(filter(None, (error, *_wrong(found, daemon))))
    if as_json:
        told = {"daemon": daemon, "postgres": found, "error": error}
        given = {name: fact for name, fact in told.items() if fact or name == "daemon"}
        click.echo(document({"ok": not wrong, **given}))
    else:
        shown = _shown(found, daemon) if found else ()
        click.echo("\n".join((*shown, *(f"ERROR: {plain(one, _MAX_CHARS)}" for one in wrong))))
    return BLOCKED if wrong else 0


def _standing(chosen: Chosen) -> "Standing":
    with _outlet_errors():
        from safetyd.extras.postgres.standing import standing  # noqa: PLC0415 - needs psycopg

        with closing(_database(chosen)) as database:
            return standing(database, chosen.audit, chosen.journal)


@outlet.command("verify")
@click.option(
    "--after",
    type=click.IntRange(min=0),
    metavar="SEQ",
    default=0,
    help="Only events after this sequence number.",
)
@config_option
@json_option
@data_dir_option
def verify_outlet(config_path: Path | None, directory: Path, after: int, *, as_json: bool) -> int:
    """Compare PostgreSQL with the audit files and print the first difference.

    The exit code is 1 if there is a difference. Events that are not exported yet are ignored.

    For example:
      safetyd outlet verify --after 100000
    """
    chosen = _chosen(config_path, directory)
    some_files(chosen.audit)
    with _outlet_errors():
        from safetyd.extras.postgres.comparing import compare  # noqa: PLC0415 - needs psycopg

        with closing(_database(chosen)) as database:
            found = compare(database, chosen.audit, chosen.journal, after)
    if as_json:
        click.echo(document({"ok": not found.difference, **msgspec.to_builtins(found)}))
    elif found.difference:
        click.echo(f"DIFFERENT: {found.difference}. The first {found.events} events are equal.")
    else:
        same = several(found.events, "event")
        click.echo(f"Equal: {same} up to number {found.last_seq}, and the rows derived from them.")
        if found.missing:
            click.echo(f"Skipped: {several(found.missing, 'event')} missing from the audit files.")
    return BLOCKED if found.difference else 0


@outlet.command()
@click.option(
    "--from",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The audit files. Default: those of the data directory.",
)
@click.option("--without-missing", is_flag=True, help="Skip events that are in no audit file.")
@config_option
@json_option
@data_dir_option
def backfill(
    config_path: Path | None,
    directory: Path,
    folder: Path | None,
    *,
    without_missing: bool,
    as_json: bool,
) -> None:
    """Load missing events from the audit files into PostgreSQL.

    You can run this while the daemon is running.

    For example:
      safetyd outlet backfill
      safetyd outlet backfill --without-missing
    """
    chosen = _chosen(config_path, directory)
    audit = folder or chosen.audit
    some_files(audit)
    begun = uptime()
    with _outlet_errors():
        database, loader = open_loader(*chosen, Rests(0.0), audit, without_missing=without_missing)
        with closing(database):
            first = seq = loader.reached().seq
            while (now := loader.load().seq) != seq:
                seq = now
    took_s = uptime() - begun
    if as_json:
        click.echo(document({"ok": True, "loaded": seq - first, "seq": seq, "took_s": took_s}))
    else:
        click.echo(f"Loaded {several(seq - first, 'event')} in {took_s:.1f} s, up to number {seq}.")


@outlet.command()
@config_option
@json_option
@data_dir_option
def role(config_path: Path | None, directory: Path, *, as_json: bool) -> None:
    """Print the SQL that creates a read-only role.

    Use this if the daemon's database user is not allowed to create roles.

    For example:
      safetyd outlet role | sudo -u postgres psql safetyd
    """
    chosen = _chosen(config_path, directory)
    with _outlet_errors():
        from safetyd.extras.postgres.schema_migrations import reader_sql  # noqa: PLC0415 - needs psycopg

        lines = [part.as_string(None) for part in reader_sql(chosen.config.schema)]
    if as_json:
        click.echo(document({"ok": True, "sql": lines}))
    else:
        click.echo("\n".join(f"{line};".replace("; ", ";\n") for line in lines))


def _shown(found: "Standing", daemon: ExporterState | None) -> Iterator[str]:
    yield f"{found.server}, schema {found.schema}"
    facts = [
        ("events", f"{found.seq} of {found.audit_seq}: {several(found.behind, 'event')} behind"),
        ("loaded", when(found.loaded_at) if found.loaded_at and found.seq else "nothing yet"),
        ("readers", found.reader or "no read-only role; see `safetyd outlet role`"),
    ]
    if found.missing:
        facts.append(("missing", f"{several(found.missing, 'event')} in no audit file"))
    if daemon is not None:
        success = daemon.last_success
        facts.append(("daemon", f"last success {when(success)}" if success else "no success yet"))
        facts.append(("errors", f"{daemon.errors} since the start"))
    yield from indented(facts)


def _wrong(found: "Standing | None", daemon: ExporterState | None) -> Iterator[str]:
    if found is not None and found.other_journal:
        yield f"schema {found.schema} contains events of another daemon. Configure another schema"
    if daemon is not None and daemon.problem:
        yield f"last error of the daemon: {daemon.problem}"


def _status(location: Location) -> StatusAnswer | None:
    """Return the daemon's status, None if it does not answer."""
    try:
        return ask(location, StatusQuestion())
    except Failure:
        return None


def _config_of(status: StatusAnswer | None) -> Path | None:
    return Path(status.config) if status and status.config else None


def _chosen(path: Path | None, directory: Path) -> Chosen:
    file = path or own_config(directory)
    config = read_config(file).outlets.postgres
    if not config.dsn_file:
        where = f"in {file}" if file else "and there is no configuration file. Use --config FILE"
        raise Failure(f"outlets.postgres.dsn_file is not set {where}", "not_configured")
    return Chosen(config, directory)


def _database(chosen: Chosen) -> "Database":
    from safetyd.extras.postgres.database import Database  # noqa: PLC0415 - needs psycopg

    return Database(lambda: dsn_of(*chosen), chosen.config.schema)


@contextmanager
def _outlet_errors() -> Iterator[None]:
    try:
        yield
    except ExportProblem as exc:
        raise Failure(str(exc), "outlet") from exc
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in {"psycopg", "psycopg_binary"}:
            raise
        raise Failure(NOT_INSTALLED, "not_installed") from exc
