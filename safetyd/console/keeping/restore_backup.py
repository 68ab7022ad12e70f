"""`safetyd restore`: a data directory from the file of a backup."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from safetyd.console.failure import Failure, packages_needed
from safetyd.console.keeping.passphrases import known_passphrase
from safetyd.console.keeping.progress import progress
from safetyd.console.options import json_option
from safetyd.console.render.layout import when
from safetyd.console.terminal_text import document, plain
from safetyd.keeping.backup import BackupFacts
from safetyd.keeping.restoring import BackupUnusable, NotEmpty, Restoring

_GROUPS = {"agents": "agent add", "operators": "operator add", "observers": "operator add"}


@click.command()
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
        restoring = Restoring(file, into.absolute(), known_passphrase, identity)
        with progress("Restoring", restoring.size, hidden=as_json) as heard:
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
