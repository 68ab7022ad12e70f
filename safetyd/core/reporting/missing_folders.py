"""Counts proposals with a relative path but no folder, by agent: their clients are too old."""

from collections.abc import Iterator
from typing import Final

import msgspec

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.anonymous_pool import counted_as
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.guard_events import NameForgotten
from safetyd.core.guards.classify.rule_verdicts import NO_FOLDER

RECENT_S: Final = 86400.0


class FolderlessAgent(msgspec.Struct, frozen=True):
    """An agent whose proposals have relative paths, but no folder in which these start."""

    agent: str
    count: int  # Until the agent makes no such proposal for a day.


class _Count(msgspec.Struct):
    agent: str  # the last one, if several agents are counted as one
    count: int
    last_t: float


class MissingFoldersState(msgspec.Struct):
    counts: dict[str, _Count] = {}


class MissingFolders(Actor):
    """Remembers which agents do not send their folder."""

    name = "missing_folders"
    _state: MissingFoldersState

    def __init__(self) -> None:
        self._state = MissingFoldersState()
        self.hears = hearing(on(Decided, self._decided), on(NameForgotten, self._gone))

    def recent(self, t: float) -> Iterator[FolderlessAgent]:
        """Yield the agents that made such a proposal in the last day."""
        for one in self._state.counts.values():
            if t - one.last_t < RECENT_S:
                yield FolderlessAgent(one.agent, one.count)

    def _decided(self, event: Decided) -> None:
        if event.stranger or all(verdict.rule != NO_FOLDER for verdict in event.verdicts):
            return
        who = counted_as(event)
        before = self._state.counts.get(who)
        known = before.count if before and event.t - before.last_t < RECENT_S else 0
        self._state.counts[who] = _Count(event.agent, known + 1, event.t)

    def _gone(self, event: NameForgotten) -> None:
        self._state.counts.pop(event.agent, None)
