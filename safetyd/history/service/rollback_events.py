"""What rollbacks leave in the journal: plans for the commit loop, one for each way they go."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import asdict, replace

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import Paused, Unpaused
from safetyd.core.events.history_events import (
    RollbackBegun,
    RollbackCancelled,
    RollbackFailed,
    RollbackOffered,
    RolledBack,
)
from safetyd.core.history_state import UnfinishedRollback
from safetyd.history.project_history import RollbackMade
from safetyd.journal.mailbox import Carried, Plan
from safetyd.operators.contract.history_contract import RollbackCommand

SOURCE: Final = "rollback"  # of the pauses
BY: Final = "safetyd"


class Waiting(NamedTuple):
    """The agents that wait for a rollback, and the one that stopped halfway before it, if any."""

    agents: tuple[str, ...]
    stopped: UnfinishedRollback | None


def pausing(project: str, by: str, command: RollbackCommand) -> Plan[Waiting]:
    def plan(engine: EngineState, moment: Moment) -> Carried[Waiting]:
        known = engine.records.version_history
        agents = known.agents(project)
        why = f"project {project} is rolled back: {command.reason}"
        begun = _begun(project, by, command, agents, moment)
        paused = (
            Paused(at=moment.at, t=moment.t, agent=agent, source=SOURCE, by=by, reason=why)
            for agent in agents
        )
        return Carried((begun, *paused), Waiting(agents, known.stopped_rollback(project)))

    return plan


def changing(
    project: str, by: str, command: RollbackCommand, agents: tuple[str, ...], kept: str
) -> Plan[None]:
    """Record the commit that undoes a rollback before its first file changes."""

    def plan(_engine: EngineState, moment: Moment) -> Carried[None]:
        begun = _begun(project, by, command, agents, moment)
        return Carried((replace(begun, kept=kept),), None)

    return plan


def _begun(
    project: str, by: str, command: RollbackCommand, agents: tuple[str, ...], moment: Moment
) -> RollbackBegun:
    return RollbackBegun(
        at=moment.at,
        t=moment.t,
        project=project,
        kind=command.kind,
        commit=command.commit,
        by=by,
        agents=agents,
        reason=command.reason,
        paths=command.paths,
    )


def cancelled(project: str, by: str, commit: str, agents: Sequence[str], why: str) -> Plan[None]:
    """Let agents go on, unless they wait because an earlier rollback stopped halfway."""

    def plan(engine: EngineState, moment: Moment) -> Carried[None]:
        cancelled = RollbackCancelled(
            at=moment.at, t=moment.t, project=project, commit=commit, by=by, why=why
        )
        waiting = () if engine.records.version_history.half(project) else agents
        going_on = _unpaused(waiting, by, "nothing was rolled back", moment)
        return Carried((cancelled, *going_on), None)

    return plan


def interrupted(engine: EngineState, moment: Moment) -> Carried[tuple[UnfinishedRollback, ...]]:
    """Record the rollbacks during which a daemon before this one ended; return all unfinished."""
    begun = tuple(one.rollback for one in engine.records.version_history.trouble if one.rollback)
    ended = "safetyd ended in the middle of the rollback; some files may not be put back"
    failed = tuple(_failed(replace(one, error=ended), moment) for one in begun if not one.error)
    return Carried(failed, begun)


def half_rolled_back(half: UnfinishedRollback) -> Plan[None]:
    def plan(_engine: EngineState, moment: Moment) -> Carried[None]:
        return Carried((_failed(half, moment),), None)

    return plan


def _failed(half: UnfinishedRollback, moment: Moment) -> RollbackFailed:
    about = asdict(half)
    del about["since"]
    return RollbackFailed(at=moment.at, t=moment.t, half=True, **about)


def _unpaused(agents: Sequence[str], by: str, reason: str, moment: Moment) -> Iterator[Unpaused]:
    for agent in agents:
        yield Unpaused(
            at=moment.at, t=moment.t, agent=agent, sources=(SOURCE,), by=by, reason=reason
        )


def not_rolled_back(offer: RollbackOffered, error: str) -> Plan[None]:
    def plan(_engine: EngineState, moment: Moment) -> Carried[None]:
        failed = RollbackFailed(
            at=moment.at,
            t=moment.t,
            project=offer.project,
            commit=offer.commit,
            error=error,
            by=BY,
        )
        return Carried((failed,), None)

    return plan


def rolled_back(
    project: str, by: str, command: RollbackCommand, made: RollbackMade, agents: tuple[str, ...]
) -> Plan[None]:
    def plan(_engine: EngineState, moment: Moment) -> Carried[None]:
        rolled_back = RolledBack(
            at=moment.at,
            t=moment.t,
            project=project,
            kind=command.kind,
            commit=made.target,
            kept=made.kept,
            by=by,
            made=made.made,
            files=made.files,
            agents=agents,
            reason=command.reason,
            via=command.via,
        )
        events: tuple[Event, ...] = (
            rolled_back,
            *_unpaused(agents, by, "the rollback is over", moment),
        )
        return Carried(events, None)

    return plan
