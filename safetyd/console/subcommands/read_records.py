"""`safetyd audit` and `safetyd transcripts`: read audit files and transcripts without a daemon."""

import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Final

import click
import msgspec

from safetyd.clock import Clock
from safetyd.console.failure import Failure, NotReachable, using_file
from safetyd.console.help_page import group
from safetyd.console.locations import Location, look_into
from safetyd.console.options import data_dir_option, json_option
from safetyd.console.render.audit_lines import agent_of, record, tells_something
from safetyd.console.render.layout import aligned, when
from safetyd.console.terminal_text import document, plain, several
from safetyd.console.time_input import since as read_since
from safetyd.core.reporting.session_summary import summary, took
from safetyd.journal.audit import BrokenAudit, Numbered, Verified, files, verify
from safetyd.journal.audit_reading import (
    WITHOUT_BOUNDS,
    NewestFirst,
    Rests,
    is_before,
    second_of,
    seq_of,
)
from safetyd.journal.transcript_files import DIRECTORY, Filed, names, read

LOOK_S: Final = 0.25


class _Dated(Numbered):
    at: str = ""


@group()
def audit() -> None:
    """Read and verify the audit files.

    For example:
      safetyd audit tail --follow
      safetyd audit verify
    """


@audit.command("verify")
@json_option
@data_dir_option
def verify_(directory: Path, *, as_json: bool) -> None:
    """Check that no line was changed, added or removed.

    For example:
      safetyd audit verify
    """
    found = verified(directory / "audit")
    if as_json:
        click.echo(document({"ok": True, **msgspec.to_builtins(found)}))
        return
    records, paths = several(found.records, "record"), several(found.files, "file")
    click.echo(f"The audit chain is intact: {records} in {paths}.")
    for gap in gaps(found):
        click.echo(gap)
    click.echo(f"  last seq   {found.last_seq}\n  last hash  {found.last_hash}")


@audit.command("tail")
@click.option(
    "-n",
    "count",
    type=click.IntRange(min=1),
    metavar="N",
    default=20,
    show_default=True,
    help="How many records.",
)
@click.option("--agent", metavar="NAME", help="Only records of this agent.")
@click.option("--since", metavar="TIME", help="Only since this time: 2h, 9:00, 'yesterday 9:00'.")
@click.option("--all", "all_", is_flag=True, help="Include routine records.")
@click.option("-f", "--follow", is_flag=True, help="Print new records until Ctrl-C.")
@json_option
@data_dir_option
def tail_(  # noqa: PLR0913 - the options of a command
    directory: Path,
    *,
    count: int,
    agent: str | None,
    since: str | None,
    all_: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Show the newest records.

    Routine records, such as sent notifications, are shown only with --all. With --json, each record
    is one line.

    For example:
      safetyd audit tail -n 50 --agent crawler
      safetyd audit tail --since 2h --follow
    """
    where = directory / "audit"
    some_files(where)
    begin = second_of(read_since(since, Clock().now().at)) if since else b""
    wanted = Wanted(agent, begin, all_=all_)
    try:
        with using_file(where, "read"):
            for line in _followed(where, count, wanted) if follow else _last(where, count, wanted):
                click.echo(document(msgspec.json.decode(line)) if as_json else record(line))
    except KeyboardInterrupt:
        click.echo(err=True)
    except msgspec.DecodeError as exc:
        raise Failure(f"damaged record: {exc}. Run `safetyd audit verify`") from exc


class Wanted:
    """Returns True for the records to show."""

    def __init__(self, agent: str | None, begin: bytes, *, all_: bool) -> None:
        self._agent = agent
        self._begin = begin
        self._all = all_

    def __call__(self, line: bytes) -> bool:
        if self.ends(line) or not (self._all or tells_something(line)):
            return False
        return self._agent is None or self._agent == agent_of(line)

    def ends(self, line: bytes) -> bool:
        """Return True if a record is too old. Then all earlier records are too old as well."""
        return bool(self._begin) and is_before(line, self._begin)


def verified(where: Path) -> Verified:
    """Verify the hash chain. If it is broken, raise `Failure` with the first broken place."""
    some_files(where)
    with using_file(where, "read"):
        try:
            with suppress(BrokenAudit, msgspec.DecodeError):
                return verify(where)
            return verify(where)  # retry, because a daemon may have been writing a line
        except (BrokenAudit, msgspec.DecodeError) as exc:
            said = f"the audit chain is broken: {where}/{exc}{_event_at(where, str(exc))}"
            advice = "Compare the file with your backup. Do not overwrite the backup"
            raise Failure(f"{said}. {advice}", "broken") from exc


def gaps(found: Verified) -> Iterator[str]:
    """Yield warnings about records that are missing although the chain is intact."""
    before = max(0, found.first_seq - 1)
    between = found.last_seq - before - found.records if found.records else 0
    if before:
        yield f"The chain starts at event {found.first_seq}: earlier events are not in these files."
    if between:
        missing = several(between, "record")
        yield f"Missing in the chain: {missing}. Look in the audit files of the other daemon."


def some_files(where: Path) -> None:
    """Raise `Failure` if there are no audit files, or they cannot be read."""
    look_into(where)
    if not files(where):
        raise Failure(f"no audit files in {where}", "not_found")


def readable(location: Location, missing: NotReachable) -> Path:
    """Return the directory of the audit files, and print that no daemon answers.

    Raises `missing` if there are no audit files, or if the user gave the address of a daemon.
    """
    where = location.data_dir / "audit"
    try:
        some_files(where)
    except Failure:
        raise missing from None
    if location.given:
        raise missing
    click.echo(f"No daemon answers. Reading the audit files in {where}.", err=True)
    return where


def _event_at(where: Path, location: str) -> str:
    """Return the number and time of the event that an error is about."""
    name, number, *_ = *location.split(":", 2), ""
    try:
        with (where / name).open("rb") as file:
            line = next(islice(file, int(number) - 1, None), b"")
        view = msgspec.json.decode(line, type=_Dated)
    except (OSError, ValueError, msgspec.DecodeError):
        return ""
    return f" (event {view.seq} of {when(view.at)})" if view.seq else ""


def _last(where: Path, count: int, wanted: Wanted, before: int | None = None) -> list[bytes]:
    """Return the last selected records, oldest first."""
    newest = takewhile(lambda line: not wanted.ends(line), _backwards(where, before))
    return list(islice(filter(wanted, newest), count))[::-1]


def _backwards(where: Path, before: int | None = None) -> Iterator[bytes]:
    return iter(NewestFirst(where, before, WITHOUT_BOUNDS, Rests(0.0)))


def _followed(where: Path, count: int, wanted: Wanted) -> Iterator[bytes]:
    """Yield the last records, then new ones, forever."""
    path = files(where)[-1]
    offset = path.stat().st_size
    seq = seq_of(next(_backwards(where), b""))
    yield from _last(where, count, wanted, seq + 1)
    for line in _added(where, path, offset):
        if seq_of(line) > seq and wanted(line):
            yield line


def _added(where: Path, path: Path, offset: int) -> Iterator[bytes]:
    """Yield every line after `offset`, forever. Continue with the next file when there is one."""
    while True:
        later = [other for other in files(where) if other > path]
        with path.open("rb") as file:
            file.seek(offset)
            lines = file.read().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        yield from whole
        offset += sum(map(len, whole))
        if later:
            path, offset = later[0], 0
        elif not whole:
            time.sleep(LOOK_S)


@group(invoke_without_command=True)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    metavar="N",
    show_default=True,
    help="How many to list, newest first.",
)
@json_option
@data_dir_option
@click.pass_context
def transcripts(ctx: click.Context, directory: Path, limit: int, *, as_json: bool) -> None:
    """List the transcripts of ended sessions.

    For example:
      safetyd transcripts
      safetyd transcripts show
    """
    where = directory / DIRECTORY
    if ctx.invoked_subcommand is not None:
        return
    found = [(name, _read(where, name)) for name in _newest(where)[:limit]]
    if as_json:
        rows = [{"name": name, **msgspec.to_builtins(filed)} for name, filed in found]
        click.echo(document({"transcripts": rows}))
    elif found:
        click.echo(_table(found))
    else:
        click.echo("No session has ended yet.")


@transcripts.command()
@click.argument("name", required=False, help="A transcript. Default: the newest.")
@json_option
@data_dir_option
def show(name: str | None, directory: Path, *, as_json: bool) -> None:
    """Show one transcript.

    For example:
      safetyd transcripts show 2026-03-01-crawler
    """
    where = directory / DIRECTORY
    chosen = _chosen(where, name)
    filed = _read(where, chosen)
    if as_json:
        click.echo(document({"name": chosen, **msgspec.to_builtins(filed)}))
    else:
        click.echo(summary(filed, plain))


def _chosen(where: Path, name: str | None) -> str:
    found = _newest(where)
    wanted = found[0] if name is None and found else (name or "").removesuffix(".json")
    if wanted in found:
        return wanted
    said = "no transcripts" if name is None else f"no transcript {plain(name)}"
    raise Failure(f"{said} in {where}", "not_found")


def _newest(where: Path) -> list[str]:
    look_into(where)
    return names(where)[::-1]


def _read(where: Path, name: str) -> Filed:
    try:
        return read(where, name)
    except (OSError, msgspec.DecodeError) as exc:
        raise Failure(f"cannot read {where / name}.json: {exc}", "unreadable") from exc


def _table(found: list[tuple[str, Filed]]) -> str:
    heading = ("name", "agent", "session", "took", "ended", "actions", "to review")
    return aligned([heading, *(_row(name, filed) for name, filed in found)])


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
