"""What an action changed, as its request and its decision show it afterwards."""

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

MAX_LINES: Final = 400  # of a diff; the page of its commit has them all

Ask = Callable[[CommitQuestion], Awaitable[CommitAnswer]]


class ChangeView(NamedTuple):
    """What `card/change.html` shows. `lack` says why there is no diff, if there is none."""

    project: str
    commit: str
    short: str
    lines: tuple[ColouredLine, ...]
    left_out: int  # lines
    command: str  # that shows all of it
    address: str  # of the page of its commit, where there is one
    lack: str = ""


async def change_view(ask: Ask, project: str, commit: str, *, linked: bool) -> ChangeView:
    """Ask what a commit changed; `linked` where the pages of the control room can be reached."""
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
        return view._replace(lack=f"It cannot be shown now: {exc}.")
    lines = found.diff.removesuffix("\n").split("\n")
    shown = "\n".join(lines[:MAX_LINES])
    return view._replace(lines=coloured_diff(shown), left_out=max(0, len(lines) - MAX_LINES))
