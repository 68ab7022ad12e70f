"""`safetyd backup` and `safetyd restore`: everything that a daemon knows, in one file."""

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

_GROUPS: Final = {"agents": "agent add", "operators": "operator add", "observers": "operator add"}


@command()
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
    passphrase = _new_passphrase() if with_keys and not recipients else ""
    found = _prepared(location, with_keys=with_keys, with_history=with_history)
    try:
        with closing(found), _progress("Writing", found.size, hidden=as_json) as heard:
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
    made = BackupMadeCommand(seq=facts.seq, size=written, keys=facts.keys, history=facts.history)
    try:
        ask(location, made)
    except Failure as exc:
        click.echo(f"It is not recorded that this backup was made: {exc}", err=True)


def _prepared(location: Location, *, with_keys: bool, with_history: bool) -> Backup:
    """Ask for a checkpoint, and look at what goes with it.

    A busy daemon may have dropped it for newer ones by then: that is tried again.
    """
    at = Clock().now().at
    for left in reversed(range(TRIES)):
        reply = ask(location, CheckpointCommand(), patience_s=CHECKPOINT_S)
        try:
            return Backup(_source(reply), at, keys=with_keys, history=with_history)
        except NoBackup as exc:
            if not left:
                raise Failure(f"no backup is made: {exc}", "failed") from exc
        except OSError as exc:
            raise Failure(
                f"{reply.data_dir} cannot be read ({exc}): type this on the machine where the "
                "daemon runs, as its user",
                "unreadable",
            ) from exc
    raise AssertionError


def _source(reply: CheckpointDone) -> BackupSource:
    data_dir = Path(reply.data_dir)
    if not data_dir.is_dir():
        raise FileNotFoundError(f"{data_dir} is not there")
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
    """Make the data directory DIR of a backup; DIR must be new or empty.

    The whole backup is checked before anything is written, and DIR appears when it is complete.
    Stop the daemon that the backup was made of before you start another one from it.
    """
    try:
        restoring = Restoring(file, into.absolute(), _known_passphrase, identity)
        with _progress("Restoring", restoring.size, hidden=as_json) as heard:
            facts = restoring.run(heard)
    except NotEmpty as exc:
        raise Failure(str(exc), "not_empty") from exc
    except BackupUnusable as exc:
        raise Failure(f"nothing is restored: {exc}", "unusable") from exc
    except OSError as exc:
        raise Failure(f"nothing is restored: {exc}", "failed") from exc
    steps = list(_next_steps(into.absolute(), facts))
    if as_json:
        told = msgspec.to_builtins(facts)
        click.echo(document({"ok": True, "data_dir": str(into.absolute()), "next": steps, **told}))
        return
    click.echo(f"{into}: everything up to event {facts.seq}, as of {when(facts.at.isoformat())}.")
    click.echo(f"  state  {facts.state}")
    for step in steps:
        click.echo(step)


def _next_steps(into: Path, facts: BackupFacts) -> Iterator[str]:
    """Say what to do before agents can go on."""
    option = f"--data-dir {shlex.quote(str(into))}"
    if not facts.settings:
        yield "The daemon had no configuration file, and there is none here."
    if facts.stores and not facts.history:
        yield "Commits of version history were not in it: projects begin a new one."
    yield f"Start it with: safetyd run {option}"
    if facts.keys:
        yield "Keys that were revoked since are trusted again: revoke them before you start."
        return
    yield "Keys were not in it: the start makes new ones for the daemon and for you."
    for role, names in facts.names.items():
        more = " --observer" if role == "observers" else ""
        for name in names:
            yield f"Then: safetyd {_GROUPS[role]} {plain(name)}{more} {option}"
    yield "Links in messages that were sent before lead nowhere; files with passwords are yours."


def _new_passphrase() -> str:
    """Return one for a file that is to be written; it is typed twice."""
    found = _from_file() or _typed("Passphrase for the backup", twice=True)
    if len(found) < MIN_CHARS:
        raise Failure(
            f"the passphrase has {len(found)} characters; it needs {MIN_CHARS}", "passphrase"
        )
    return found


def _known_passphrase() -> str:
    """Return the one that a file was written with."""
    return _from_file() or _typed("Passphrase of the backup", twice=False)


def _from_file() -> str:
    name = os.environ.get(VARIABLE, "")
    if not name:
        return ""
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise Failure(f"{name} of {VARIABLE} cannot be read: {exc}", "passphrase") from exc
    first = text.partition("\n")[0].removesuffix("\r")
    if not first:
        raise Failure(f"{name} of {VARIABLE} has no first line", "passphrase")
    return first


def _typed(prompt: str, *, twice: bool) -> str:
    if not sys.stdin.isatty():
        raise Failure(
            f"a passphrase is needed: type this at a terminal, or name a file in {VARIABLE}",
            "passphrase",
        )
    found: str = click.prompt(prompt, hide_input=True, confirmation_prompt=twice, err=True)
    return found


@contextmanager
def _progress(label: str, size: int, *, hidden: bool) -> Iterator[Callable[[int], None]]:
    """Give a function that hears of so many more bytes; a terminal shows how far that is."""
    hidden = hidden or not sys.stderr.isatty()
    with click.progressbar(length=size, label=label, file=sys.stderr, hidden=hidden) as bar:
        yield bar.update
