"""Commands that ask a running daemon and show what it answered."""

from functools import partial
from typing import Final

import click
from msgspec import to_builtins

from safetyd.audit import find
from safetyd.console import render
from safetyd.console.audit import some_files
from safetyd.console.failure import Failure, NotReachable
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.person import Reply, query
from safetyd.console.places import Place
from safetyd.console.plain import document
from safetyd.console.render_explain import account
from safetyd.console.render_status import status as shown
from safetyd.core.lines import concerns
from safetyd.views import explain as explained

SEARCH_S: Final = 30.0  # through all audit files
SHOWN_BYTES: Final = 1024 * 1024


@click.command()
@json_option
@reaches_daemon
def status(place: Place, *, as_json: bool) -> None:
    """Show how the daemon is and what is stopped."""
    answer = query(place, "status")
    click.echo(document(answer) if as_json else shown(answer))


@click.command()
@json_option
@reaches_daemon
def agents(place: Place, *, as_json: bool) -> None:
    """Show what agents do."""
    answer = query(place, "agents")
    click.echo(document(answer) if as_json else render.agents(answer["agents"]))


@click.command()
@click.argument("id_", metavar="ID")
@json_option
@reaches_daemon
def explain(place: Place, id_: str, *, as_json: bool) -> None:
    """Say what was decided about a proposal, and why.

    Without a daemon the audit files are read.
    """
    try:
        answer = query(place, "explain", id=id_, patience_s=SEARCH_S)
    except NotReachable as exc:
        answer = _from_files(place, id_, exc)
    click.echo(document(answer) if as_json else account(answer))


def _from_files(place: Place, id_: str, missing: NotReachable) -> Reply:
    """Return what the audit files here say, if there are any."""
    where = place.data_dir / "audit"
    try:
        some_files(where)
    except Failure:
        raise missing from None
    if place.given:
        raise missing
    click.echo(f"No daemon answers; this is what the files in {where} say.", err=True)
    try:
        found = explained(find(where, partial(concerns, id_=id_), SHOWN_BYTES), id_)
    except OSError as exc:
        raise Failure(f"{where} cannot be read: {exc.strerror}") from exc
    if found is None:
        raise Failure(f"no decision with id {id_!r} is in the audit files", "not_found")
    return {"ok": True, **to_builtins(found)}
