"""Files that a coding agent loads, compared with what an operator last accepted.

Such files can run commands without a tool call. The daemon's socket reads them and adds their state
to the context of a call if it differs from the accepted state. An approval of that call accepts the
new state.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard, hearing, on
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import HostFilesAccepted
from safetyd.core.messages.binding import object_of
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import ALLOWED, ASK, Verdict
from safetyd.core.text.visible_text import quoted

CONTEXT: Final = "host_files"  # the field of a proposal's context that only the socket writes
CHANGED: Final = "host_files.changed"
UNSEEN: Final = "host_files.unseen"
MAX_NAMED: Final = 3
MAX_FOLDERS: Final = 2_000  # of which states are remembered

_MARK: Final = f'"{CONTEXT}"'.encode()


class HostFilesSeen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the socket found: states that differ from the accepted ones, by folder."""

    states: Mapping[str, str] = {}  # an empty state: the folder has no such files
    changed: tuple[str, ...] = ()  # each file, and what happened to it
    runs: tuple[str, ...] = ()  # what the new files would run
    unseen: str = ""  # why the files cannot be compared


class AcceptedState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The state of one folder that an operator accepted."""

    host: str
    folder: str
    state: str
    by: str
    at: datetime


class HostFilesState(msgspec.Struct):
    accepted: dict[str, AcceptedState] = {}  # by host and folder, the latest last


class HostFilesGuard(Guard):
    name = "host_files"
    _state: HostFilesState

    def __init__(self) -> None:
        self._state = HostFilesState()
        self.hears = hearing(on(HostFilesAccepted, self._accepted))

    @property
    def accepted(self) -> tuple[AcceptedState, ...]:
        """Return the accepted states, the latest last."""
        return tuple(self._state.accepted.values())

    def state(self, host: str, folder: str) -> str:
        """Return the accepted state of a folder. It is empty if nobody has accepted one."""
        found = self._state.accepted.get(_key(host, folder))
        return "" if found is None else found.state

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:  # noqa: ARG002
        seen = seen_by_socket(proposed)
        if seen is None:
            return ALLOWED
        known = all(self.state(proposed.host, at) == now for at, now in seen.states.items())
        if known:
            return ALLOWED
        return _unseen(seen) if seen.unseen else _changed(seen)

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        seen = seen_by_socket(decided)
        return "unchanged" if seen is None else ", ".join(seen.changed) or seen.unseen

    def _accepted(self, event: HostFilesAccepted) -> None:
        for folder, state in event.states.items():
            key = _key(event.host, folder)
            self._state.accepted.pop(key, None)
            if state:
                self._state.accepted[key] = AcceptedState(
                    host=event.host, folder=folder, state=state, by=event.by, at=event.at
                )
        while len(self._state.accepted) > MAX_FOLDERS:
            del self._state.accepted[next(iter(self._state.accepted))]


def seen_by_socket(event: Proposed | Decided) -> HostFilesSeen | None:
    """Return what the socket found, or None if nothing differs. Agents cannot write this field."""
    if not event.host or not _mentions(event.proposal):
        return None
    found = object_of(event.proposal.context).get(CONTEXT)
    return None if found is None else msgspec.convert(found, HostFilesSeen)


def _mentions(proposal: Proposal) -> bool:
    """Return whether the context can have the field (cheap check)."""
    context = proposal.context
    if isinstance(context, msgspec.Raw):
        return _MARK in bytes(context)
    return context is not None


def _key(host: str, folder: str) -> str:
    return f"{host} {folder}"


def _changed(seen: HostFilesSeen) -> Verdict:
    named = ", ".join(map(quoted, seen.changed[:MAX_NAMED]))
    more = len(seen.changed) - MAX_NAMED
    reason = f"Files that this agent loads have not been accepted: {named}"
    if more > 0:
        reason += f" and {more} more"
    remedy = "once an operator has accepted these files"
    return Verdict("host_files", ASK, CHANGED, reason, remedy=remedy)


def _unseen(seen: HostFilesSeen) -> Verdict:
    reason = f"The files that this agent loads cannot be compared: {seen.unseen}"
    remedy = "where the daemon can read them, or once an operator has accepted that"
    return Verdict("host_files", ASK, UNSEEN, reason, remedy=remedy)
