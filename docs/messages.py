"""Every message of the contract.

What the code answers as plain objects (desk.py, views.py, halt.py) has its struct here, and
tests/test_contract.py holds the answers of a running daemon against it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, Literal, get_args

from msgspec import Meta, Struct

from safetyd.core.decision import Decision
from safetyd.core.events import SafetyEvent
from safetyd.core.guards.stop import Stop
from safetyd.core.policy import Mode, Profile
from safetyd.core.proposal import Proposal, Reversibility, Risk, Tier
from safetyd.core.telemetry import AnyTelemetry, Noted
from safetyd.core.verdict import Severity, Verdict
from safetyd.desk import ExplainQuestion, ResetCommand, StopCommand

Yes = Annotated[bool, Meta(extra_json_schema={"const": True})]
No = Annotated[bool, Meta(extra_json_schema={"const": False})]


class ControlStop(StopCommand, tag_field="command", tag="stop"):
    """Nobody may act, or one agent may not. It holds before the answer leaves."""


class ControlResume(StopCommand, tag_field="command", tag="resume"):
    """Clear what operators and anomalies stopped. A stop file stays until it is removed."""


class ControlReset(ResetCommand, tag_field="command", tag="reset"):
    """Forget an agent's loop visits, of all its sessions and episodes or of one."""


class ControlReload(Struct, tag_field="command", tag="reload"):
    """Take on the configuration and keys as they are now, all or nothing."""


class QueryStatus(Struct, tag_field="command", tag="status"):
    """Ask how everything is."""


class QueryAgents(Struct, tag_field="command", tag="agents"):
    """Ask who is there, and what they did."""


class QueryExplain(ExplainQuestion, tag_field="command", tag="explain"):
    """Ask what was decided about a proposal, and why."""


class Refusal(Struct):
    """A command or question that was not carried out; `code` is for machines."""

    ok: No
    error: str
    code: str


class Done(Struct):
    """It was carried out and is in the journal."""

    ok: Yes


class StopDone(Done):
    """The stop holds. `journalled` is false if it could not be written within a second."""

    epoch: int
    journalled: bool


class ResumeDone(Done):
    """Which sources were cleared, and which still stop."""

    cleared: tuple[str, ...]
    left: tuple[str, ...]


class Standstill(Struct):
    active: bool
    epoch: int
    stops: tuple[Stop, ...]
    acknowledged: tuple[str, ...]  # agents heard lately that know of the newest stop
    silent: tuple[str, ...]  # agents heard lately that have not said so
    open_actions: int


class Reloaded(Done):
    next_start: tuple[str, ...]  # sections whose change waits for the next start


class StatusAnswer(Done):
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
    agents: int


class AgentSeen(Struct):
    agent: str
    key: bool
    heard_s: float
    allowed: int
    asked: int
    blocked: int
    failed: int
    open_actions: tuple[str, ...]
    unreported: int  # open actions that are only counted
    stopped: bool


class AgentsAnswer(Done):
    agents: tuple[AgentSeen, ...]


class DecisionExplained(Struct):
    seq: int
    at: datetime
    agent: str
    type: str
    tier: Tier
    risk: Risk
    reversibility: Reversibility
    decision: Severity
    first: bool
    digest: str
    verdicts: tuple[Verdict, ...]
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
    **TELEMETRY,
    "noted": Noted,
    "control_stop": ControlStop,
    "control_stop_reply": StopDone,
    "control_resume": ControlResume,
    "control_resume_reply": ResumeDone,
    "control_reset": ControlReset,
    "control_reset_reply": Done,
    "control_reload": ControlReload,
    "control_reload_reply": Reloaded,
    "query_status": QueryStatus,
    "query_status_reply": StatusAnswer,
    "query_agents": QueryAgents,
    "query_agents_reply": AgentsAnswer,
    "query_explain": QueryExplain,
    "query_explain_reply": ExplainAnswer,
    "refusal": Refusal,
    "safety_event": SafetyEvent,
    "state_stop": StateStop,
    "state_mode": StateMode,
    "service_reply": ServiceAnswer,
}
