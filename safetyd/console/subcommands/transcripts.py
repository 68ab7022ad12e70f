"""`safetyd transcripts`: what sessions did, from the files, with or without a daemon."""

from pathlib import Path

import click
import msgspec

from safetyd.console.failure import Failure
from safetyd.console.locations import data_dir, look_into
from safetyd.console.options import data_dir_option, json_option
from safetyd.console.render.layout import table, when
from safetyd.console.terminal_text import document, plain
from safetyd.core.reporting.session_summary import summary, took
from safetyd.journal.transcript_files import DIRECTORY, Filed, names, read


@click.group(invoke_without_command=True)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="How many, the newest first.",
)
@json_option
@data_dir_option
@click.pass_context
def transcripts(ctx: click.Context, directory: str | None, limit: int, *, as_json: bool) -> None:
    """Show what sessions did, once they are over."""
    where = data_dir(directory) / DIRECTORY
    ctx.obj = where, as_json
    if ctx.invoked_subcommand is not None:
        return
    found = [(name, _read(where, name)) for name in _newest(where)[:limit]]
    if as_json:
        rows = [{"name": name, **msgspec.to_builtins(filed)} for name, filed in found]
        click.echo(document({"transcripts": rows}))
    elif found:
        click.echo(_table(found))
    else:
        click.echo("No session is over yet.")


@transcripts.command()
@click.argument("name", required=False)
@json_option
@data_dir_option
@click.pass_obj
def show(
    given: tuple[Path, bool], name: str | None, directory: str | None, *, as_json: bool
) -> None:
    """Show one transcript as people read it: the one called NAME, or the newest."""
    before, json_before = given
    where = before if directory is None else data_dir(directory) / DIRECTORY
    chosen = _chosen(where, name)
    filed = _read(where, chosen)
    if as_json or json_before:
        click.echo(document({"name": chosen, **msgspec.to_builtins(filed)}))
    else:
        click.echo(summary(filed, plain))


def _chosen(where: Path, name: str | None) -> str:
    found = _newest(where)
    wanted = found[0] if name is None and found else (name or "").removesuffix(".json")
    if wanted in found:
        return wanted
    said = "there are no transcripts" if name is None else f"there is no transcript {plain(name)}"
    raise Failure(f"{said} in {where}", "not_found")


def _newest(where: Path) -> list[str]:
    look_into(where)
    return names(where)[::-1]


def _read(where: Path, name: str) -> Filed:
    try:
        return read(where, name)
    except (OSError, msgspec.DecodeError) as exc:
        raise Failure(f"{where / name}.json cannot be read: {exc}", "unreadable") from exc


def _table(found: list[tuple[str, Filed]]) -> str:
    heading = ("NAME", "AGENT", "SESSION", "TOOK", "ENDED", "ACTIONS", "TO REVIEW")
    return table([heading, *(_row(name, filed) for name, filed in found)])


def _row(name: str, filed: Filed) -> tuple[str, ...]:
    return (
        name,
        plain(filed.agent),
        plain(filed.session_id or "-", 40),
        took(filed),
        when(filed.ended_at.isoformat()),
        str(len(filed.actions) + filed.left_out),
        str(filed.pending_permissions),
    )
