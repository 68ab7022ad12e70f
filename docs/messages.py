"""Every message of the contract.

Answers have their structs beside the code that fills them. Here are commands and questions, each
with the word that tells it apart, and what the daemon says of itself as plain objects.
tests/documents/test_contract_spoken.py holds a running daemon against all of it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, get_args

from msgspec import Struct

from docs.people import ASKING
from docs.telling import TELLING
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.telemetry import AnyTelemetry, Noted
from safetyd.core.policy import Mode, Profile
from safetyd.operators.commands import (
    AckCommand,
    EnterCommand,
    ExitCommand,
    PauseCommand,
    SafeModeLeft,
    UnpauseDone,
)
from safetyd.operators.explain import ExplainAnswer
from safetyd.operators.operator_service import (
    AgentsQuestion,
    ExplainQuestion,
    Reloaded,
    ResetCommand,
    ResumeDone,
    SafeModeQuestion,
    StopCommand,
    StopDone,
)
from safetyd.operators.replies import Done, Refusal
from safetyd.operators.views.agent_view import AgentsAnswer
from safetyd.operators.views.guard_view import (
    AnomaliesAnswer,
    BreakersAnswer,
    BudgetsAnswer,
    TypesAnswer,
)
from safetyd.operators.views.status_view import SafeModeAnswer, StatusAnswer


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
