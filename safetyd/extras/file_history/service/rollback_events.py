"""The events of rollbacks, as plans for the commit loop."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import asdict, replace

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import Paused, Unpaused
from safetyd.core.events.history_events import (
    RollbackBegun,
    RollbackCancelled,
    RollbackFailed,
    RollbackOffered,
    RolledBack,
)
from safetyd.core.history_state import UnfinishedRollback
from safetyd.journal.mailbox import Carried, Plan
from safetyd.operators.contract.history_contract import RollbackCommand, RollbackDone

SOURCE: Final = "rollback"  # the recorded source of the pauses during a rollback
BY: Final = "safetyd"


class RollbackPlans(NamedTuple):
    """A rollback of a project; `agents` are paused during it."""

    project: str
    by: str
    command: RollbackCommand
    agents: tuple[str, ...] = ()

    def begin(self, state: EngineState, moment: Moment) -> Carried["Begun"]:
        """Pause the agents, and return an earlier rollback that stopped halfway, if any."""
        known = state.records.file_commits
        plans = self._replace(agents=known.agents(self.project))
        why = f"project {self.project} is being rolled back: {self.command.reason}"
        paused = (
            Paused(at=moment.at, t=moment.t, agent=agent, source=SOURCE, by=self.by, reason=why)
            for agent in plans.agents
        )
        begun = Begun(plans, known.stopped_rollback(self.project))
        return Carried((plans.begun(moment), *paused), begun)

    def change(self, kept: str) -> Plan[None]:
        """Record, before the first file changes, the commit with which to undo the rollback."""
        return lambda _state, moment: Carried((self.begun(moment, kept),), None)

    def cancel(self, why: str) -> Plan[None]:
        """Unpause the agents, unless an earlier rollback stopped halfway."""

        def plan(state: EngineState, moment: Moment) -> Carried[None]:
            about: dict[str, Any] = {"at": moment.at, "t": moment.t, "by": self.by}
            commit = self.command.commit
            cancelled = RollbackCancelled(project=self.project, commit=commit, why=why, **about)
            stopped = state.records.file_commits.stopped_rollback(self.project)
            going_on = self._unpaused(
                () if stopped else self.agents, "nothing was rolled back", moment
            )
            return Carried((cancelled, *going_on), None)

        return plan

    def stop(self, error: str, kept: str) -> Plan[None]:
        """Record that the rollback stopped halfway. Agents stay paused."""
        paths = self.command.paths

        def plan(_state: EngineState, moment: Moment) -> Carried[None]:
            about = self._about(moment)
            failed = RollbackFailed(error=error, half=True, kept=kept, paths=paths, **about)
            return Carried((failed,), None)

        return plan

    def finish(self, done: RollbackDone) -> Plan[None]:
        def plan(_state: EngineState, moment: Moment) -> Carried[None]:
            rolled_back = RolledBack(
                kept=done.kept,
                made=done.made,
                files=done.files,
                reason=self.command.reason,
                via=self.command.via,
                **self._about(moment),
            )
            going_on = self._unpaused(self.agents, "the rollback is over", moment)
            return Carried((rolled_back, *going_on), None)

        return plan

    def begun(self, moment: Moment, kept: str = "") -> RollbackBegun:
        about, paths = self._about(moment), self.command.paths
        return RollbackBegun(reason=self.command.reason, kept=kept, paths=paths, **about)

    def _about(self, moment: Moment) -> dict[str, Any]:
        """Return the common fields of the rollback's events."""
        about = {"project": self.project, "by": self.by, "agents": self.agents}
        kind, commit = self.command.kind, self.command.commit
        return {"at": moment.at, "t": moment.t, "kind": kind, "commit": commit, **about}

    def _unpaused(self, agents: Sequence[str], reason: str, moment: Moment) -> list[Unpaused]:
        why: dict[str, Any] = {"sources": (SOURCE,), "by": BY, "reason": reason}
        return [Unpaused(at=moment.at, t=moment.t, agent=agent, **why) for agent in agents]


class Begun(NamedTuple):
    """A rollback whose agents are paused, and an earlier one that stopped halfway, if any."""

    plans: RollbackPlans
    stopped: UnfinishedRollback | None


def interrupted(state: EngineState, moment: Moment) -> Carried[tuple[UnfinishedRollback, ...]]:
    """Record rollbacks that were interrupted when the daemon exited. Return all unfinished ones."""
    begun = tuple(one.rollback for one in state.records.file_commits.trouble if one.rollback)
    ended = "safetyd ended during the rollback; some files may not be restored"
    failed = tuple(_failed(replace(one, error=ended), moment) for one in begun if not one.error)
    return Carried(failed, begun)


def _failed(half: UnfinishedRollback, moment: Moment) -> RollbackFailed:
    about = asdict(half)
    del about["since"]
    return RollbackFailed(at=moment.at, t=moment.t, half=True, **about)


def not_rolled_back(offer: RollbackOffered, error: str) -> Plan[None]:
    def plan(_state: EngineState, moment: Moment) -> Carried[None]:
        about: dict[str, Any] = {"project": offer.project, "commit": offer.commit, "by": BY}
        return Carried((RollbackFailed(at=moment.at, t=moment.t, error=error, **about),), None)

    return plan
