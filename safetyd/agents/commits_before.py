"""Delays allowed actions until files are committed, so that the changes can be rolled back."""

from collections.abc import Callable
from typing import Final, Protocol

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.file_commits import CommitFirst


def commit_first(state: EngineState, agent: str, id_: str) -> CommitFirst | None:
    """Return what must be committed before an allowed action, or None."""
    return state.records.file_commits.first(agent, id_)


class CommitsBefore(Protocol):
    def after(
        self, agent: str, id_: str, first: CommitFirst | None, act: Callable[[], None]
    ) -> None:
        """Call `act` now or, if `first` must be committed, after the commit."""
        ...


class NoCommits:
    """Commits nothing, so that no action waits."""

    def after(
        self,
        agent: str,  # noqa: ARG002
        id_: str,  # noqa: ARG002
        first: CommitFirst | None,  # noqa: ARG002
        act: Callable[[], None],
    ) -> None:
        act()


NO_COMMITS: Final = NoCommits()
