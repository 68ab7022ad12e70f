"""`safetyd backup`: everything that a daemon knows, in one file, while it runs."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import click
import msgspec

from safetyd.clock import Clock
from safetyd.console.failure import Failure, WrongUsage, need
from safetyd.console.keeping.passphrases import new_passphrase
from safetyd.console.keeping.progress import progress
from safetyd.console.locations import Location
from safetyd.console.operator_connection import Reply, control
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.terminal_text import document, several
from safetyd.core.reporting.disk_words import size
from safetyd.keeping.age_encryption import BadKey
from safetyd.keeping.backup import Backup, BackupFacts, BackupSource, NoBackup

CHECKPOINT_S: Final = 60.0
TRIES: Final = 3


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--with-keys", is_flag=True, help="Keys too; the file is encrypted.")
@click.option(
    "--recipient",
    "recipients",
    metavar="AGE1...",
    multiple=True,
    help="Encrypt the file for this age public key; may be repeated.",
)
@click.option("--with-history", is_flag=True, help="Commits of version history too.")
@json_option
@reaches_daemon
def backup(
    location: Location,
    file: Path,
    recipients: Sequence[str],
    *,
    with_keys: bool,
    with_history: bool,
    as_json: bool,
) -> None:
    """Write everything that the daemon knows now into FILE, while it runs.

    `safetyd restore` makes a data directory of it: the same decisions, requests, grants and
    budgets. Keys are left out unless you ask for them; such a file is encrypted for the recipients
    that you name, or else with a passphrase, which is asked for or read from the file that
    SAFETYD_PASSPHRASE_FILE names. `age`, `zstd` and `tar` can read the file too.
    """
    need("backup", "zstandard", "pyrage")
    if file.exists():
        raise Failure(f"{file} is there already: choose another name", "exists")
    passphrase = new_passphrase() if with_keys and not recipients else ""
    found = _prepared(location, with_keys=with_keys, with_history=with_history)
    try:
        with closing(found), progress("Writing", found.size, hidden=as_json) as heard:
            found.write(file, heard, passphrase=passphrase, recipients=recipients)
        written = file.stat().st_size
    except BadKey as exc:
        raise WrongUsage(str(exc)) from exc
    except OSError as exc:
        raise Failure(f"{file} is not written: {exc}", "unwritable") from exc
    _record(location, found.facts, written)
    if as_json:
        facts = msgspec.to_builtins(found.facts)
        click.echo(document({"ok": True, "file": str(file), "size": written, **facts}))
        return
    click.echo(f"{file}: everything up to event {found.facts.seq}, {size(written)}.")
    click.echo(f"  state  {found.facts.state}")
    if passphrase or recipients:
        key = "passphrase" if passphrase else "identity of a recipient"
        click.echo(f"It is encrypted. Without the {key} nobody can read it, not even you.")
    if not with_keys:
        click.echo("Keys are not in it; --with-keys takes them along.")
    if found.facts.stores and not with_history:
        stores = several(found.facts.stores, "project")
        click.echo(f"Commits of {stores} are not in it; --with-history takes them along.")


def _record(location: Location, facts: BackupFacts, written: int) -> None:
    """Have the daemon record it; the file is good whatever becomes of that."""
    made = {"seq": facts.seq, "size": written, "keys": facts.keys, "history": facts.history}
    try:
        control(location, "backup_made", **made)
    except Failure as exc:
        click.echo(f"It is not recorded that this backup was made: {exc}", err=True)


def _prepared(location: Location, *, with_keys: bool, with_history: bool) -> Backup:
    """Ask for a checkpoint, and look at what goes with it.

    A busy daemon may have dropped it for newer ones by then: that is tried again.
    """
    at = Clock().now().at
    for left in reversed(range(TRIES)):
        reply = control(location, "checkpoint", patience_s=CHECKPOINT_S)
        try:
            return Backup(_source(reply), at, keys=with_keys, history=with_history)
        except NoBackup as exc:
            if not left:
                raise Failure(f"no backup is made: {exc}", "failed") from exc
        except OSError as exc:
            raise Failure(
                f"{reply['data_dir']} cannot be read ({exc}): type this on the machine where the "
                "daemon runs, as its user",
                "unreadable",
            ) from exc
    raise AssertionError


def _source(reply: Reply) -> BackupSource:
    data_dir = Path(reply["data_dir"])
    if not data_dir.is_dir():
        raise FileNotFoundError(f"{data_dir} is not there")
    return BackupSource(
        data_dir,
        data_dir / "checkpoints" / reply["file"],
        Path(reply["config"]) if reply["config"] else None,
        tuple(map(Path, reply["stop_files"])),
    )
