"""`safetyd audit`: the files themselves, with or without a daemon."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import msgspec

from safetyd.audit import Broken, Numbered, Verified, files, tail, verify
from safetyd.console.failure import Failure
from safetyd.console.options import data_dir_option, json_option
from safetyd.console.places import data_dir
from safetyd.console.plain import document
from safetyd.console.render_audit import record

LOOK_S: Final = 0.25


@click.group()
def audit() -> None:
    """Read and verify the audit files."""


@audit.command("verify")
@json_option
@data_dir_option
def verify_(directory: str | None, *, as_json: bool) -> None:
    """Check that no line was changed, added or taken out."""
    found = verified(data_dir(directory) / "audit")
    if as_json:
        click.echo(document({"ok": True, **msgspec.to_builtins(found)}))
        return
    click.echo(f"The chain holds: {found.records} records in {found.files} files.")
    click.echo(f"  last seq   {found.last_seq}\n  last hash  {found.last_hash}")


@audit.command("tail")
@click.option("-n", "count", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("-f", "--follow", is_flag=True, help="Go on as lines are added, until Ctrl-C.")
@json_option
@data_dir_option
def tail_(directory: str | None, count: int, *, follow: bool, as_json: bool) -> None:
    """Show the last records. With --json, one a line."""
    where = data_dir(directory) / "audit"
    _some_files(where)
    try:
        for line in _followed(where, count) if follow else tail(where, count):
            click.echo(document(msgspec.json.decode(line)) if as_json else record(line))
    except KeyboardInterrupt:
        click.echo(err=True)
    except msgspec.DecodeError as exc:
        raise Failure(f"a line cannot be read: {exc}; try `safetyd audit verify`") from exc
    except OSError as exc:
        raise Failure(f"{where} cannot be read: {exc}") from exc


def verified(where: Path) -> Verified:
    """Return what the chain holds, or raise `Failure` with the first place where it does not."""
    _some_files(where)
    try:
        try:
            return verify(where)
        except (Broken, msgspec.DecodeError):
            return verify(where)  # a running daemon may have been in the middle of a line
    except (Broken, msgspec.DecodeError) as exc:
        raise Failure(f"the audit chain is broken: {where}/{exc}", "broken") from exc
    except OSError as exc:
        raise Failure(f"{where} cannot be read: {exc}") from exc


def _some_files(where: Path) -> None:
    if not files(where):
        raise Failure(f"there are no audit files in {where}", "not_found")


def _followed(where: Path, count: int) -> Iterator[bytes]:
    """Yield the last lines, then whatever is added, for ever."""
    path = files(where)[-1]
    offset = path.stat().st_size
    seq = 0
    for line in tail(where, count):
        yield line
        seq = _seq(line)
    for line in _added(where, path, offset):
        if _seq(line) > seq:
            yield line


def _added(where: Path, path: Path, offset: int) -> Iterator[bytes]:
    """Yield every line after `offset`, going over to the next file when there is one."""
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


def _seq(line: bytes) -> int:
    return msgspec.json.decode(line, type=Numbered).seq
