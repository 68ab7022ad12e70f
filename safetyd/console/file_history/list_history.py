"""`safetyd history`: list the commits of agents' changes, and show diffs."""

from typing import Final

import click
from msgspec import UNSET, UnsetType

from safetyd.clock import Clock
from safetyd.console.failure import Failure
from safetyd.console.file_history.history_table import change, commits
from safetyd.console.help_page import group
from safetyd.console.locations import Location
from safetyd.console.operator_connection import OperatorConnection, ask
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.terminal_card import Change
from safetyd.console.terminal_text import document
from safetyd.console.time_input import since as read_since
from safetyd.core.approvals.request import KeptChange
from safetyd.operators.contract.history_contract import CommitQuestion, CommitsQuestion

READ_S: Final = 30.0  # git can be slow on a large history

project_option = click.option("--project", metavar="P", default="", help="Only this project.")


@group(invoke_without_command=True, sends=CommitsQuestion)
@project_option
@click.option("--agent", metavar="A", default="", help="Only changes by this agent.")
@click.option("--session", metavar="S", default="", help="Only this session.")
@click.option(
    "--path", metavar="P", default="", help="Only commits that changed this file or folder."
)
@click.option("--since", metavar="WHEN", help="Only since this time: 2h, 9:00, 'yesterday 9:00'.")
@click.option("--before", metavar="COMMIT", default="", help="Only commits before this one.")
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True)
@json_option
@reaches_daemon
@click.pass_context
def history(  # noqa: PLR0913 - each narrows down what is shown
    context: click.Context,
    *,
    location: Location,
    project: str,
    agent: str,
    session: str,
    path: str,
    since: str | None,
    before: str,
    limit: int,
    as_json: bool,
) -> None:
    """A project has file history if history = "shadow" is set under [projects.NAME]. Paths are
    absolute or relative to the folder of the project. `safetyd rollback` restores files.

    For example:
      safetyd history --agent code --since 2h
      safetyd history --path data/orders.csv
      safetyd history diff 4f2a91c0
    """
    if context.invoked_subcommand is not None:
        return
    wanted = CommitsQuestion(
        project=project,
        agent=agent,
        session=session,
        limit=limit,
        path=path,
        since=read_since(since, Clock().now().at) if since else None,
        before=before,
    )
    answer = ask(location, wanted, patience_s=READ_S)
    click.echo(document(answer) if as_json else commits(answer, limit))


@history.command(sends=CommitQuestion)
@click.argument("commit")
@project_option
@json_option
@reaches_daemon
def show(*, location: Location, commit: str, project: str, as_json: bool) -> None:
    answer = ask(location, CommitQuestion(commit=commit, project=project), patience_s=READ_S)
    click.echo(document(answer) if as_json else change(answer.message))


@history.command()
@click.argument("commit")
@click.argument("other", required=False, default="")
@project_option
@json_option
@reaches_daemon
def diff(*, location: Location, commit: str, other: str, project: str, as_json: bool) -> None:
    """Show the changes of a commit or, with OTHER, the difference between two commits."""
    asked = CommitQuestion(commit=commit, other=other, project=project)
    answer = ask(location, asked, patience_s=READ_S)
    click.echo(document(answer) if as_json else change(answer.diff))


async def change_of(operator: OperatorConnection, kept: KeptChange | UnsetType) -> Change | None:
    """Return the diff of a commit, or why it cannot be read. Return None if there is no commit."""
    if kept is UNSET:
        return None
    try:
        wanted = CommitQuestion(project=kept.project, commit=kept.commit)
        found = await operator.ask(wanted, patience_s=READ_S)
    except Failure as exc:
        return Change(kept, lack=exc.message)
    return Change(kept, found.diff)
