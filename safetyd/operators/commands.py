"""Commands that depend on the engine's state: stops, pauses, grants, budgets, presence.

A command is validated when it arrives. When its turn comes, its plan returns events.
"""

import math
from typing import Final

import msgspec

from safetyd.core.anonymous_pool import ANONYMOUS
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import (
    Forgotten,
    Paused,
    PersonSeen,
    SafeModeEntered,
    SafeModeExited,
    Unpaused,
)
from safetyd.core.events.history_events import BackupMade
from safetyd.core.guards.kernel import EVERYBODY
from safetyd.core.guards.safe_mode import Exit
from safetyd.core.messages.proposal import is_token
from safetyd.core.reporting.blocked_attempts import ACK
from safetyd.journal.mailbox import FAILED, Carried, Plan
from safetyd.operators.budget_commands import budget_raise, budget_strike
from safetyd.operators.contract.backup_contract import BackupMadeCommand
from safetyd.operators.contract.grant_contract import (
    GrantCommand,
    RevokeCommand,
    SuggestionCommand,
)
from safetyd.operators.contract.guard_contract import RaiseCommand, StrikeCommand
from safetyd.operators.contract.hold_contract import (
    AckCommand,
    EnterCommand,
    ExitCommand,
    PauseCommand,
    ResetCommand,
    SafeModeLeft,
    UnpauseCommand,
    UnpauseDone,
)
from safetyd.operators.contract.host_contract import AcceptFilesCommand
from safetyd.operators.file_acceptance import accept_files
from safetyd.operators.grant_commands import grant_add, grant_revoke, suggestion_apply
from safetyd.operators.handlers import Handlers, plan
from safetyd.operators.replies import DONE, CommandRefused, Done, Refusal, refused

NAMED: Final = 10  # maximum number of agents in safe mode that a message names
OPERATOR: Final = "operator"
EXITS_BYTES: Final = 64 * 1024
EXIT_BYTES: Final = 800  # size of an exit event and its notification, with the longest names

INTERNAL_ERROR: Final = refused("internal", FAILED)


def pause(by: str, command: PauseCommand) -> Plan[Done]:
    check_agent(command.agent)

    def plan(_state: EngineState, moment: Moment) -> Carried[Done]:
        paused = Paused(
            at=moment.at,
            t=moment.t,
            agent=command.agent,
            source=OPERATOR,
            by=by,
            reason=command.reason,
            via=command.via,
        )
        return Carried((paused,), DONE)

    return plan


def unpause(by: str, command: UnpauseCommand) -> Plan[UnpauseDone]:
    check_agent(command.agent)

    def plan(state: EngineState, moment: Moment) -> Carried[UnpauseDone]:
        sources = tuple(pause.source for pause in state.guards.pause.pauses(command.agent))
        unpaused = Unpaused(
            at=moment.at,
            t=moment.t,
            agent=command.agent,
            sources=sources,
            by=by,
            reason=command.reason,
            via=command.via,
        )
        return Carried((unpaused,) if sources else (), UnpauseDone(ok=True, cleared=sources))

    return plan


def safe_mode_enter(by: str, command: EnterCommand) -> Plan[Done]:
    check_kernel(command.agent)

    def plan(_state: EngineState, moment: Moment) -> Carried[Done]:
        entered = SafeModeEntered(
            at=moment.at,
            t=moment.t,
            by=by,
            agent=_named(command.agent),
            reason=command.reason,
            via=command.via,
        )
        return Carried((entered,), DONE)

    return plan


def safe_mode_exit(by: str, command: ExitCommand) -> Plan[SafeModeLeft | Refusal]:
    check_kernel(command.agent)
    if command.force and not command.reason.strip():
        raise CommandRefused("invalid", "force needs a reason")

    def plan(state: EngineState, moment: Moment) -> Carried[SafeModeLeft | Refusal]:
        found = state.guards.safe_mode.plan_exit(
            command.agent, moment.t, all_=command.all, force=command.force
        )
        if found.error:
            return Carried((), _held(found))
        left = found.agents[: _at_once(command.reason)]
        exits = [
            SafeModeExited(
                at=moment.at,
                t=moment.t,
                by=by,
                agent=_named(agent),
                reason=command.reason,
                forced=command.force,
                via=command.via,
            )
            for agent in left
        ]
        more = len(found.agents) - len(left)
        several = command.agent in {EVERYBODY, ANONYMOUS}
        still = _still(state, moment, None if several else command.agent, left)
        return Carried(exits, SafeModeLeft(ok=True, left=left, more=more, still=still))

    return plan


def ack(by: str, _command: AckCommand) -> Plan[Done]:
    def plan(_state: EngineState, moment: Moment) -> Carried[Done]:
        return Carried((PersonSeen(at=moment.at, t=moment.t, by=by, how=ACK),), DONE)

    return plan


def reset(by: str, command: ResetCommand) -> Plan[Done]:
    check_agent(command.agent)

    def plan(_state: EngineState, moment: Moment) -> Carried[Done]:
        forgotten = Forgotten(
            at=moment.at,
            t=moment.t,
            agent=command.agent,
            by=by,
            session=command.session,
            episode=command.episode,
            via=command.via,
        )
        return Carried((forgotten,), DONE)

    return plan


def backup_made(by: str, command: BackupMadeCommand) -> Plan[Done | Refusal]:
    def plan(state: EngineState, moment: Moment) -> Carried[Done | Refusal]:
        if command.seq > state.seq:
            return Carried((), refused("invalid", f"event {command.seq} does not exist yet"))
        made = BackupMade(
            at=moment.at,
            t=moment.t,
            by=by,
            upto=command.seq,
            size=command.size,
            keys=command.keys,
            history=command.history,
        )
        return Carried((made,), DONE)

    return plan


PLANS: Final[Handlers] = dict(
    (
        plan(PauseCommand, pause),
        plan(UnpauseCommand, unpause),
        plan(EnterCommand, safe_mode_enter),
        plan(ExitCommand, safe_mode_exit),
        plan(GrantCommand, grant_add),
        plan(RevokeCommand, grant_revoke),
        plan(SuggestionCommand, suggestion_apply),
        plan(RaiseCommand, budget_raise),
        plan(StrikeCommand, budget_strike),
        plan(AcceptFilesCommand, accept_files),
        plan(AckCommand, ack),
        plan(ResetCommand, reset),
        plan(BackupMadeCommand, backup_made),
    )
)


def _held(found: Exit) -> Refusal:
    """Return why safe mode cannot be left."""
    if found.error == "several":
        some = ", ".join(found.agents[:NAMED])
        error = (
            f"{len(found.agents)} agents are in safe mode ({some}); name one of them, or use all"
        )
        return Refusal(ok=False, error=error, code="several", agents=found.agents)
    left_ms = found.cooldown_remaining_ms
    wait_s = math.ceil(left_ms / 1000)
    error = f"the cooldown ends in {wait_s} s; to leave safe mode now, use force and a reason"
    return Refusal(ok=False, error=error, code="cooling_down", cooldown_remaining_ms=left_ms)


def _still(
    state: EngineState, moment: Moment, agent: str | None, left: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the kernels, except those in `left`, that still restrict `agent` (None: any agent)."""
    held = state.guards.safe_mode.status(agent, moment.t).agents
    gone = set(left)
    return tuple(kernel for kernel in held if kernel not in gone)[:NAMED]


def _at_once(reason: str) -> int:
    """Return how many exits fit into a journal batch; each contains its reason twice."""
    return max(EXITS_BYTES // (EXIT_BYTES + 2 * len(msgspec.json.encode(reason))), 1)


def _named(kernel: str | None) -> str | None:
    """Return the agent of a kernel, or None for the kernel of all agents."""
    return None if kernel == EVERYBODY else kernel


def check_kernel(name: str | None) -> None:
    """Reject a name unless it is an agent, the anonymous pool or all agents."""
    if name != ANONYMOUS:
        check_agent(_named(name))


def check_agent(agent: str | None) -> None:
    if agent is not None and not is_token(agent):
        raise CommandRefused("invalid", f"{agent!r} is not a valid agent name")
