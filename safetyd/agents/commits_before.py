"""Allows that wait for a commit: what cannot be undone begins when there is a way back."""

from collections.abc import Callable
from typing import Final, Protocol


class CommitsBefore(Protocol):
    def after(self, agent: str, id_: str, act: Callable[[], None]) -> None:
        """Let an action begin: now or, if a commit must come first, after that."""
        ...


class NoCommits:
    """Where nothing is committed, nothing waits."""

    def after(self, agent: str, id_: str, act: Callable[[], None]) -> None:  # noqa: ARG002
        act()


NO_COMMITS: Final = NoCommits()
