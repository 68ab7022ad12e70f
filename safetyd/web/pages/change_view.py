"""The changes of an action, shown on the pages of its request and decision."""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from safetyd.cards.request_card import ColouredLine, coloured_diff
from safetyd.journal.mailbox import Unanswered
from safetyd.operators.contract.history_contract import (
    SHORT,
    CommitAnswer,
    CommitQuestion,
    diff_command,
)
from safetyd.operators.replies import CommandRefused

MAX_LINES: Final = 400  # lines of a diff; the page of the commit shows all

Ask = Callable[[CommitQuestion], Awaitable[CommitAnswer]]


class ChangeView(NamedTuple):
    """The content of `card/change.html`. `lack` says why there is no diff."""

    project: str
    commit: str
    short: str
    lines: tuple[ColouredLine, ...]
    left_out: int  # lines
    command: str  # shows the whole diff
    address: str  # the URL of the commit's page, if there is one
    lack: str = ""


async def change_view(ask: Ask, project: str, commit: str, *, linked: bool) -> ChangeView:
    """Return the changes of a commit. With `linked`, it links to the control room."""
    address = f"/history/{quote(commit, safe='')}?{urlencode({'project': project})}"
    view = ChangeView(
        project=project,
        commit=commit,
        short=commit[:SHORT],
        lines=(),
        left_out=0,
        command=diff_command(project, commit),
        address=address if linked else "",
    )
    try:
        found = await ask(CommitQuestion(commit=commit, project=project))
    except (CommandRefused, Unanswered) as exc:
        return view._replace(lack=f"The changes cannot be shown: {exc}.")
    lines = found.diff.removesuffix("\n").split("\n")
    shown = "\n".join(lines[:MAX_LINES])
    return view._replace(lines=coloured_diff(shown), left_out=max(0, len(lines) - MAX_LINES))
