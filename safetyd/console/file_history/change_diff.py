"""What an approved action changed, beside its request."""

from typing import Final

from msgspec import UNSET, UnsetType

from safetyd.console.failure import Failure
from safetyd.console.operator_connection import OperatorConnection
from safetyd.console.render.terminal_card import Change
from safetyd.core.approvals.request import KeptChange
from safetyd.operators.contract.history_contract import CommitQuestion

READ_S: Final = 30.0  # git may have much to read


async def change_of(operator: OperatorConnection, kept: KeptChange | UnsetType) -> Change | None:
    """Return the diff of a commit, or why it cannot be read; None if nothing was committed."""
    if kept is UNSET:
        return None
    try:
        wanted = CommitQuestion(project=kept.project, commit=kept.commit)
        found = await operator.ask(wanted, patience_s=READ_S)
    except Failure as exc:
        return Change(kept, lack=exc.message)
    return Change(kept, found.diff)
