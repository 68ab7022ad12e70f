"""Allows that wait for a commit: what cannot be undone begins when there is a way back."""

from collections.abc import Callable
from typing import Final, Protocol

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.version_history import CommitFirst


def commit_first(state: EngineState, agent: str, id_: str) -> CommitFirst | None:
    """Return what is to be committed before an action that was just allowed."""
    return state.records.version_history.first(agent, id_)


class CommitsBefore(Protocol):
    def after(
        self, agent: str, id_: str, first: CommitFirst | None, act: Callable[[], None]
    ) -> None:
        """Let an action begin: now or, if a commit must come first, after that."""
        ...


class NoCommits:
    """Where nothing is committed, nothing waits."""

    def after(
        self,
        agent: str,  # noqa: ARG002
        id_: str,  # noqa: ARG002
        first: CommitFirst | None,  # noqa: ARG002
        act: Callable[[], None],
    ) -> None:
        act()


NO_COMMITS: Final = NoCommits()
