"""Accepts the files that a coding agent loads when an operator approves a call that shows them."""

from collections.abc import Sequence

from safetyd.core.actor import Actor, hearing, on
from safetyd.core.approvals.queue import Approvals
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import HostFilesAccepted
from safetyd.core.events.request_events import Answered
from safetyd.core.guards.host_files import seen_by_socket


class HostFilesMemory(Actor):
    """Emits `HostFilesAccepted`. It must observe each answer after the queue does."""

    name = "host_files_memory"

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals
        self.hears = hearing(on(Answered, self._answered))

    def _answered(self, event: Answered) -> Sequence[Event]:
        request = self._approvals.find(event.request_id)
        if request is None or request.state != "approved" or not request.answered_by(event):
            return ()
        seen = seen_by_socket(request.asked)
        if seen is None:
            return ()
        return (
            HostFilesAccepted(
                at=event.at,
                t=event.t,
                host=request.asked.host,
                states=dict(seen.states),
                by=event.by,
                request_id=request.id,
            ),
        )
