"""Every message of the contract.

What the code answers as plain objects (desk.py, commands.py, views, halt.py) has its struct here,
and tests/test_contract_spoken.py holds the answers of a running daemon against it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal, get_args

from msgspec import Struct

from docs.people import ASKING
from docs.replies import Done, Refusal
from docs.rows import (
    AgentRow,
    AgentSeen,
    Breaker,
    Budget,
    Finding,
    GuardExplained,
    Pausing,
    Spending,
    TypeKnown,
    TypeUnknown,
    Waiting,
)
from docs.telling import TELLING
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.guards.kernel import State
from safetyd.core.guards.safe_mode import Hold, SafeModeStatus
from safetyd.core.guards.stop import Stop
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Proposal, Reversibility, Risk, Tier
from safetyd.core.messages.telemetry import AnyTelemetry, Noted
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Mode, Profile
from safetyd.operators.commands import AckCommand, EnterCommand, ExitCommand, PauseCommand
from safetyd.operators.operator_service import (
    AgentsQuestion,
    ExplainQuestion,
    ResetCommand,
    SafeModeQuestion,
    StopCommand,
)


class ControlStop(StopCommand, tag_field="command", tag="stop"):
    """Nobody may act, or one agent may not. It holds before the answer leaves."""


class ControlResume(StopCommand, tag_field="command", tag="resume"):
    """Clear what operators and anomalies stopped. A stop file stays until it is removed."""


class ControlPause(PauseCommand, tag_field="command", tag="pause"):
    """One agent may not act until it is unpaused."""


class ControlUnpause(PauseCommand, tag_field="command", tag="unpause"):
    """Clear whatever pauses an agent."""


class ControlSafeModeEnter(EnterCommand, tag_field="command", tag="safe_mode_enter"):
    """One agent may only read or, without a name or by the name "*", everybody."""


class ControlSafeModeExit(ExitCommand, tag_field="command", tag="safe_mode_exit"):
    """Leave safe mode: of the agent named, of the only one in it, or of `all`.

    Before the cooldown is over that takes `force` and a reason.
    """


class ControlAck(AckCommand, tag_field="command", tag="ack"):
    """Show that a person is there."""


class ControlReset(ResetCommand, tag_field="command", tag="reset"):
    """Forget an agent's loop visits, rounds and cooldowns.

    With a session the visits and rounds there and all cooldowns, with an episode only its visits.
    """


class ControlReload(Struct, tag_field="command", tag="reload"):
    """Take on the configuration and keys as they are now, all or nothing."""


class QueryStatus(Struct, tag_field="command", tag="status"):
    """Ask how everything is."""


class QueryAgents(AgentsQuestion, tag_field="command", tag="agents"):
    """Ask who is there, and what they did: at most `limit` names, in order, that follow `after`."""


class QueryExplain(ExplainQuestion, tag_field="command", tag="explain"):
    """Ask what was decided about a proposal, and why."""


class QuerySafeMode(SafeModeQuestion, tag_field="command", tag="safe_mode"):
    """Ask how safe mode is, of one agent or of all."""


class QueryBudgets(Struct, tag_field="command", tag="budgets"):
    """Ask what is spent and set aside."""


class QueryBreakers(Struct, tag_field="command", tag="breakers"):
    """Ask which dependencies are cut off."""


class QueryAnomalies(Struct, tag_field="command", tag="anomalies"):
    """Ask what was unusual of late."""


class QueryTypes(Struct, tag_field="command", tag="types"):
    """Ask which types of action are known, and which proposed ones are not."""


class StopDone(Done):
    """The stop holds. `journalled` is false if a restart now would forget it.

    It is true once the journal has it or, while that cannot be written, the file in reserve.
    """

    epoch: int
    journalled: bool


class ResumeDone(Done):
    """Which sources were cleared, and which still stop."""

    cleared: tuple[str, ...]
    left: tuple[str, ...]


class UnpauseDone(Done):
    """Which sources were cleared."""

    cleared: tuple[str, ...]


class SafeModeLeft(Done):
    """Which kernels left safe mode, everybody's as "*".

    `more` are still in it, because a command leaves no more than one batch of the journal can take:
    say it again. `still` are the first kernels that go on holding those whom the command named.
    """

    left: tuple[str, ...]
    more: int
    still: tuple[str, ...]


class Standstill(Struct):
    active: bool
    epoch: int
    stops: tuple[Stop, ...]
    acknowledged: tuple[str, ...]  # agents heard lately that know of the newest stop
    silent: tuple[str, ...]  # agents heard lately that have not said so
    open_actions: int


class Reloaded(Done):
    next_start: tuple[str, ...]  # sections whose change waits for the next start


class SafeModeShown(SafeModeStatus, frozen=True, kw_only=True):
    """`agents` are the kernels in safe mode, everybody's as "*"; `holds` are the first few."""

    holds: tuple[Hold, ...]


class StatusAnswer(Done):
    """How everything is. Of pauses, breakers and holds of safe mode it has the first few."""

    version: str
    pid: int
    started: datetime
    problem: str  # why proposals are not answered now, or nothing
    bus: str
    embedded: bool
    open_agents: bool
    keys: int
    web: str
    data_dir: str
    decisions: dict[Severity, int]
    failing: tuple[str, ...]  # channels whose last try did not succeed
    stop_files: tuple[str, ...]
    stop_commands: tuple[str, ...]
    config: str  # the file, or nothing
    config_problem: str  # why the newest configuration or keys are not in force, or nothing
    next_start: tuple[str, ...]  # sections whose change waits for the next start
    at: datetime
    mode: Mode
    profile: Profile
    policy: str
    seq: int
    stop: Standstill
    safe_mode: SafeModeShown
    paused: tuple[str, ...]  # longest paused first
    pauses: tuple[Pausing, ...]
    today: Budget
    keyless_today: Budget | None  # of agents without a key, once others have one
    warn_ratio: float  # the share of a budget at which people are told
    breakers: tuple[Breaker, ...]  # that are not closed, longest open first
    tripped: int  # how many there are
    findings: tuple[Finding, ...]  # of the last hour, the worst and newest first
    found: int  # how many there were
    requests: Waiting
    wide_grants: tuple[str, ...]  # by which any words of an agent pass
    agents: int
    foremost: tuple[AgentRow, ...]  # the agents that matter most


class AgentsAnswer(Done):
    """In the order of names. If `more` follow, ask again `after` the last one."""

    agents: tuple[AgentSeen, ...]
    more: bool


class SafeModeAnswer(Done):
    """`agents` are the kernels in safe mode, everybody's as "*"; `holds` are the first few."""

    active: bool
    state: State
    consecutive_errors: int
    threshold: int
    since: datetime | None
    cooldown_remaining_ms: int
    agent: str | None
    agents: tuple[str, ...]
    holds: tuple[Hold, ...]


class BudgetsAnswer(Done):
    """The most used first; `left_out` rows had no room."""

    budgets: tuple[Budget, ...]
    spending: tuple[Spending, ...]
    left_out: int


class BreakersAnswer(Done):
    """Those that are not closed first; `left_out` had no room."""

    breakers: tuple[Breaker, ...]
    left_out: int


class AnomaliesAnswer(Done):
    """The newest first; `holding` says what holds now, by agent and detector."""

    findings: tuple[Finding, ...]
    holding: dict[str, dict[str, int]]
    since_human_s: float


class TypesAnswer(Done):
    """`same_as` has the other names that the configuration gives to types."""

    types: tuple[TypeKnown, ...]
    same_as: dict[str, str]
    unknown: tuple[TypeUnknown, ...]


class DecisionExplained(Struct):
    """`remedy` is the smallest change that would have turned the decision, into `then`.

    It completes "allowed ..."; empty if nobody knows. `guards` are in the order of the chain.
    """

    seq: int
    at: datetime
    agent: str
    type: str
    tier: Tier
    risk: Risk
    reversibility: Reversibility
    decision: Severity
    decided_by: str | None  # the guard that gave the reason
    reason: str
    remedy: str
    then: Severity | None
    first: bool
    digest: str
    guards: tuple[GuardExplained, ...]
    proposal: Proposal


class OutcomeExplained(Struct):
    seq: int
    at: datetime
    agent: str
    ok: bool
    error: str


class WithheldExplained(Struct):
    seq: int
    at: datetime
    why: Literal["stopped", "late"]


class ExplainAnswer(Done):
    id: str
    decisions: tuple[DecisionExplained, ...]
    outcomes: tuple[OutcomeExplained, ...]
    withheld: tuple[WithheldExplained, ...]


class StateStop(Struct):
    """What is stopped now, repeated every 10 s: once for everybody, and for each stopped agent."""

    active: bool
    epoch: int
    reason: str
    by: str
    since: datetime | None
    agent: str | None


class StateMode(Struct):
    """Which rules apply now, repeated every 10 s."""

    mode: Mode
    profile: Profile


class ServiceAnswer(Struct):
    """The answer of a NATS micro service; INFO and STATS have more fields."""

    type: str
    name: str
    id: str
    version: str
    metadata: dict[str, str]


def _tag(kind: type[Struct]) -> str:
    return str(kind.__struct_config__.tag)


TELEMETRY: Final = {f"telemetry_{_tag(kind)}": kind for kind in get_args(AnyTelemetry)}

MESSAGES: Final[Mapping[str, type[Struct]]] = {
    "proposal": Proposal,
    "decision": Decision,
    **ASKING,
    **TELEMETRY,
    "noted": Noted,
    **TELLING,
    "control_stop": ControlStop,
    "control_stop_reply": StopDone,
    "control_resume": ControlResume,
    "control_resume_reply": ResumeDone,
    "control_pause": ControlPause,
    "control_pause_reply": Done,
    "control_unpause": ControlUnpause,
    "control_unpause_reply": UnpauseDone,
    "control_safe_mode_enter": ControlSafeModeEnter,
    "control_safe_mode_enter_reply": Done,
    "control_safe_mode_exit": ControlSafeModeExit,
    "control_safe_mode_exit_reply": SafeModeLeft,
    "control_ack": ControlAck,
    "control_ack_reply": Done,
    "control_reset": ControlReset,
    "control_reset_reply": Done,
    "control_reload": ControlReload,
    "control_reload_reply": Reloaded,
    "query_status": QueryStatus,
    "query_status_reply": StatusAnswer,
    "query_agents": QueryAgents,
    "query_agents_reply": AgentsAnswer,
    "query_safe_mode": QuerySafeMode,
    "query_safe_mode_reply": SafeModeAnswer,
    "query_budgets": QueryBudgets,
    "query_budgets_reply": BudgetsAnswer,
    "query_breakers": QueryBreakers,
    "query_breakers_reply": BreakersAnswer,
    "query_anomalies": QueryAnomalies,
    "query_anomalies_reply": AnomaliesAnswer,
    "query_types": QueryTypes,
    "query_types_reply": TypesAnswer,
    "query_explain": QueryExplain,
    "query_explain_reply": ExplainAnswer,
    "refusal": Refusal,
    "safety_event": SafetyEvent,
    "state_stop": StateStop,
    "state_mode": StateMode,
    "service_reply": ServiceAnswer,
}
