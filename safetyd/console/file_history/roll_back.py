"""`safetyd rollback`: restore files of a project."""

from collections.abc import Iterator
from typing import Final, Literal

import click

from safetyd.console.failure import Failure
from safetyd.console.file_history.list_history import project_option
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.layout import names
from safetyd.console.terminal_text import document, plain, several
from safetyd.operators.contract.history_contract import RollbackCommand, RollbackDone

DONE_S: Final = 120.0
EFFECTS: Final = ("restored", "created", "deleted")


@command(sends=RollbackCommand)
@click.argument("commit")
@click.argument("paths", nargs=-1)
@click.option(
    "--soft",
    "kind",
    flag_value="soft",
    help="Restore all files, or PATHS, to the state after COMMIT.",
)
@click.option("--revert", "kind", flag_value="revert", help="Undo COMMIT and keep later changes.")
@project_option
@click.option("--reason", required=True, help="The reason, which is recorded and sent to agents.")
@json_option
@reaches_daemon
def rollback(  # noqa: PLR0913 - the options of a command
    *,
    location: Location,
    commit: str,
    paths: tuple[str, ...],
    kind: Literal["soft", "revert"] | None,
    project: str,
    reason: str,
    as_json: bool,
) -> None:
    """Use --soft or --revert. safetyd first commits the current files, so that you can undo the
    rollback. It pauses agents of the project during the rollback, and notifies them afterwards.

    For example:
      safetyd rollback 4f2a91c0 --soft --reason "broken build"
      safetyd rollback 4f2a91c0 --revert --reason "wrong file deleted"
    """
    if kind is None:
        raise Failure("give --soft (restore the state after COMMIT) or --revert (undo COMMIT)")
    order = RollbackCommand(commit=commit, kind=kind, reason=reason, project=project, paths=paths)
    done = ask(location, order, patience_s=DONE_S)
    if as_json:
        click.echo(document(done))
        return
    for line in _files(done, kind, commit[:12]):
        click.echo(line)
    if done.still_deleted:
        click.echo(_still_deleted(done.still_deleted, commit[:12]))
    if not done.made:
        return
    click.echo(f"Commit: {done.made[:12]}")
    if done.agents:
        click.echo(f"Agents that were paused and notified: {names(done.agents)}.")
    click.echo(f"To undo this: safetyd rollback {done.kept[:12]} --soft --reason WHY")


def _files(done: RollbackDone, kind: str, commit: str) -> Iterator[str]:
    """Yield the changed files, and the files that were left unchanged although they differ."""
    project, went_to = plain(done.project), f"the state after {commit}"
    if not done.made:
        already = f"{commit} is already undone" if kind == "revert" else f"this is {went_to}"
        yield f"Nothing to change in {project}: {already}."
        if kind != "revert":
            yield "To undo that commit, use --revert, or name the commit before it."
    else:
        what = f"Undid {commit} in" if kind == "revert" else "Rolled back"
        where = "" if kind == "revert" else f" to {went_to}"
        effects = ((effect, getattr(done, effect)) for effect in EFFECTS)
        counts = [f"{several(count, 'file')} {effect}" for effect, count in effects if count]
        yield f"{what} {project}{where}: {', '.join(counts) or 'no file changed'}."
    yield from (f"  {change.what:8}  {plain(change.path)}" for change in done.changes)
    if more := done.files - len(done.changes):
        yield f"  and {more} more"
    if done.left:
        yield "These paths were not changed, because they are not in the file history:"
        yield from (f"  {plain(one.path)} {plain(one.why)}" for one in done.left)
    if more := done.left_count - len(done.left):
        yield f"  and {more} more"


def _still_deleted(count: int, commit: str) -> str:
    files, they = ("1 file", "it") if count == 1 else (f"{count} files", "them")
    stay = "stays" if count == 1 else "stay"
    command = f"safetyd rollback {commit} --revert --reason WHY"
    return f"{files} that this commit deleted {stay} deleted. To restore {they}: `{command}`"
