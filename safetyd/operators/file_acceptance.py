"""Shows and accepts the files that coding agents load."""

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import HostFilesAccepted
from safetyd.journal.mailbox import Carried, Plan
from safetyd.operators.contract.host_contract import (
    AcceptedFolder,
    AcceptFilesCommand,
    HostFilesAnswer,
)
from safetyd.operators.replies import DONE, Done
from safetyd.operators.views.paging import PAGE_BYTES, fitting


def host_files(state: EngineState, moment: Moment) -> HostFilesAnswer:  # noqa: ARG001
    """Return the accepted folders, the latest first."""
    known = [
        AcceptedFolder(host=one.host, folder=one.folder, state=one.state, by=one.by, at=one.at)
        for one in reversed(state.guards.host_files.accepted)
    ]
    shown = fitting(known, PAGE_BYTES)
    return HostFilesAnswer(ok=True, folders=shown, left_out=len(known) - len(shown))


def accept_files(by: str, command: AcceptFilesCommand) -> Plan[Done]:
    def plan(state: EngineState, moment: Moment) -> Carried[Done]:
        guard = state.guards.host_files
        fresh = {
            folder: now
            for folder, now in command.states.items()
            if guard.state(command.host, folder) != now
        }
        accepted = HostFilesAccepted(
            at=moment.at, t=moment.t, host=command.host, states=fresh, by=by
        )
        return Carried((accepted,) if fresh else (), DONE)

    return plan
