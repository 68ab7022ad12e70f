"""`safetyd backup` writes the state of a daemon to one file; `safetyd restore` reads it."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import click
import msgspec

from safetyd.clock import Clock
from safetyd.console.failure import Failure, WrongUsage, need, packages_needed
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.layout import when
from safetyd.console.terminal_text import document, plain, several
from safetyd.core.events.disk_words import size
from safetyd.extras.backup.age_encryption import MIN_CHARS, BadKey
from safetyd.extras.backup.backup import Backup, BackupFacts, BackupSource, NoBackup
from safetyd.extras.backup.restoring import BackupUnusable, NotEmpty, Restoring
from safetyd.operators.contract.backup_contract import (
    BackupMadeCommand,
    CheckpointCommand,
    CheckpointDone,
)

CHECKPOINT_S: Final = 60.0
TRIES: Final = 3
VARIABLE: Final = "SAFETYD_PASSPHRASE_FILE"

_GROUPS: Final = {
    "agents": "agent add",
    "operators": "operator add",
    "observers": "operator add",
    "relays": "relay add",
}


@command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--with-keys", is_flag=True, help="Include keys, and encrypt the file.")
@click.option(
    "--recipient",
    "recipients",
    metavar="AGE1...",
    multiple=True,
    help="Encrypt the file for this age public key. Can be repeated.",
)
@click.option("--with-history", is_flag=True, help="Include the commits of file history.")
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
    """Write the state of the running daemon to FILE.

    `safetyd restore` creates a data directory from it, with the same decisions, requests, grants
    and budgets.

    With --with-keys the file is encrypted for the given recipients or, if you give none, with a
    passphrase. The command prompts for the passphrase, or reads it from the file that
    SAFETYD_PASSPHRASE_FILE names. You can also open the file with `age`, `zstd` and `tar`.

    For example:
      safetyd backup /mnt/backup/safetyd.tar.zst
      safetyd backup --with-keys --recipient age1... safetyd.tar.zst.age
    """
    need("backup", "zstandard", "pyrage")
    if file.exists():
        raise Failure(f"{file} already exists: choose another name", "exists")
    passphrase = _new_passphrase() if with_keys and not recipients else ""
    found = _prepared(location, with_keys=with_keys, with_history=with_history)
    try:
        with closing(found), _progress("Writing", found.size, hidden=as_json) as heard:
            found.write(file, heard, passphrase=passphrase, recipients=recipients)
        written = file.stat().st_size
    except BadKey as exc:
        raise WrongUsage(str(exc)) from exc
    except OSError as exc:
        raise Failure(f"cannot write {file}: {exc}", "unwritable") from exc
    _record(location, found.facts, written)
    if as_json:
        facts = msgspec.to_builtins(found.facts)
        click.echo(document({"ok": True, "file": str(file), "size": written, **facts}))
        return
    click.echo(f"Wrote {file}: state up to event {found.facts.seq}, {size(written)}.")
    click.echo(f"  state  {found.facts.state}")
    if passphrase or recipients:
        key = "passphrase" if passphrase else "identity (secret key) of a recipient"
        click.echo(f"It is encrypted. Nobody can read it without the {key}.")
    if not with_keys:
        click.echo("Keys are not included; use --with-keys to include them.")
    if found.facts.stores and not with_history:
        stores = several(found.facts.stores, "project")
        click.echo(f"File history of {stores} is not included. Use --with-history to include it.")


def _record(location: Location, facts: BackupFacts, written: int) -> None:
    """Make the daemon record the backup. The file is valid even if that fails."""
    made = BackupMadeCommand(seq=facts.seq, size=written, keys=facts.keys, history=facts.history)
    try:
        ask(location, made)
    except Failure as exc:
        click.echo(f"The backup is complete, but the daemon did not record it: {exc}", err=True)


def _prepared(location: Location, *, with_keys: bool, with_history: bool) -> Backup:
    """Make the daemon save a checkpoint, and collect the files that belong to it.

    Retry if the daemon has already replaced that checkpoint with newer ones.
    """
    at = Clock().now().at
    for left in reversed(range(TRIES)):
        reply = ask(location, CheckpointCommand(), patience_s=CHECKPOINT_S)
        try:
            return Backup(_source(reply), at, keys=with_keys, history=with_history)
        except NoBackup as exc:
            if not left:
                raise Failure(f"no backup was made: {exc}", "failed") from exc
        except OSError as exc:
            raise Failure(
                f"cannot read {reply.data_dir} ({exc}). Run this on the daemon's machine, as the "
                "daemon's user",
                "unreadable",
            ) from exc
    raise AssertionError


def _source(reply: CheckpointDone) -> BackupSource:
    data_dir = Path(reply.data_dir)
    if not data_dir.is_dir():
        raise FileNotFoundError(f"{data_dir} does not exist")
    return BackupSource(
        data_dir,
        data_dir / "checkpoints" / reply.file,
        Path(reply.config) if reply.config else None,
        tuple(map(Path, reply.stop_files)),
    )


@command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("into", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--identity",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the age identity (secret key) that opens the backup.",
)
@json_option
@packages_needed("restore")
def restore(file: Path, into: Path, *, identity: Path | None, as_json: bool) -> None:
    """Create the data directory DIR from a backup. DIR must be new or empty.

    The whole backup is verified before anything is written. Stop the old daemon before you start
    one with DIR.

    For example:
      safetyd restore safetyd.tar.zst /var/lib/safetyd
    """
    try:
        restoring = Restoring(file, into.absolute(), _known_passphrase, identity)
        with _progress("Restoring", restoring.size, hidden=as_json) as heard:
            facts = restoring.run(heard)
    except NotEmpty as exc:
        raise Failure(str(exc), "not_empty") from exc
    except BackupUnusable as exc:
        raise Failure(f"nothing was restored: {exc}", "unusable") from exc
    except OSError as exc:
        raise Failure(f"nothing was restored: {exc}", "failed") from exc
    steps = list(_next_steps(into.absolute(), facts))
    if as_json:
        told = msgspec.to_builtins(facts)
        click.echo(document({"ok": True, "data_dir": str(into.absolute()), "next": steps, **told}))
        return
    click.echo(f"Restored {into}: state up to event {facts.seq}, from {when(facts.at)}.")
    click.echo(f"  state  {facts.state}")
    for step in steps:
        click.echo(step)


def _next_steps(into: Path, facts: BackupFacts) -> Iterator[str]:
    """Yield the steps that the user must take before agents can connect again."""
    option = f"--data-dir {shlex.quote(str(into))}"
    if not facts.settings:
        yield "The backup has no configuration file: the daemon had none."
    if facts.stores and not facts.history:
        yield "File history was not included. Projects start with an empty file history."
    yield f"To start the daemon: safetyd run {option}"
    if facts.keys:
        yield "Before that, revoke keys that were revoked after the backup: they are valid again."
        return
    yield "Keys were not included. The daemon creates new ones for itself and for you."
    for role, names in facts.names.items():
        more = " --observer" if role == "observers" else ""
        for name in names:
            yield f"Then: safetyd {_GROUPS[role]} {plain(name)}{more} {option}"
    yield "Links in earlier messages no longer work. Backups do not contain password files."


def _new_passphrase() -> str:
    """Return the passphrase for a new file. If the user types it, ask for it twice."""
    found = _from_file() or _typed("Passphrase for the backup", twice=True)
    if len(found) < MIN_CHARS:
        raise Failure(
            f"the passphrase has {len(found)} characters; use at least {MIN_CHARS}", "passphrase"
        )
    return found


def _known_passphrase() -> str:
    """Return the passphrase of an existing file."""
    return _from_file() or _typed("Passphrase of the backup", twice=False)


def _from_file() -> str:
    name = os.environ.get(VARIABLE, "")
    if not name:
        return ""
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise Failure(f"cannot read {name} (from {VARIABLE}): {exc}", "passphrase") from exc
    first = text.partition("\n")[0].removesuffix("\r")
    if not first:
        raise Failure(f"the first line of {name} (from {VARIABLE}) is empty", "passphrase")
    return first


def _typed(prompt: str, *, twice: bool) -> str:
    if not sys.stdin.isatty():
        raise Failure(
            f"a passphrase is needed: run this in a terminal, or set {VARIABLE} to the path of a "
            "file that contains it",
            "passphrase",
        )
    found: str = click.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True)
    return found


@contextmanager
def _progress(label: str, size: int, *, hidden: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal. Yield a function that adds processed bytes."""
    hidden = hidden or not sys.stderr.isatty()
    with click.progressbar(length=size, label=label, file=sys.stderr, hidden=hidden) as bar:
        yield bar.update
