"""The first commit of a project: what was there before agents changed it, to be gone back to."""

import logging
from collections.abc import Callable, Container
from datetime import datetime
from functools import partial
from typing import Final

from safetyd.history.project_history import CommitOrder, HistoryError, ProjectHistory
from safetyd.history.service.histories import Histories, beside

WORDS: Final = "as it was before"

log = logging.getLogger("safetyd.history")


async def commit_first(
    histories: Histories, now: Callable[[], datetime], changed: Container[str] = ()
) -> None:
    """Commit what has no commit yet, or the first action would seem to have made all of it.

    What agents have `changed` is committed as theirs.
    """
    for name in histories.names:
        if name in changed:
            continue
        try:
            async with histories.lock(name):
                begin = partial(_begin, histories.find(name), now())
                await beside(begin, abandon=True)
        except HistoryError as exc:
            log.warning("project %s was not committed: %s", name, exc)


def _begin(history: ProjectHistory, at: datetime) -> None:
    if not history.rows(1):
        history.commit(CommitOrder(why="before", at=at, description=WORDS))
