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
from safetyd.core.messages.rollback import Rollback
from safetyd.core.messages.telemetry import AnyTelemetry, Noted
from safetyd.core.policy import Mode, Profile
from safetyd.operators.command_runner import (
    Reloaded,
    ResetCommand,
    ResumeCommand,
    ResumeDone,
    SafeModeQuestion,
    StopCommand,
    StopDone,
)
from safetyd.operators.commands import (
    AckCommand,
    EnterCommand,
    ExitCommand,
    PauseCommand,
    SafeModeLeft,
    UnpauseDone,
)
from safetyd.operators.explain import ExplainAnswer
from safetyd.operators.explain_search import ExplainQuestion
from safetyd.operators.history_access import (
    CommitAnswer,
    CommitQuestion,
    CommitsAnswer,
    CommitsQuestion,
    RollbackCommand,
    RollbackDone,
)
from safetyd.operators.keeping_access import BackupMadeCommand, CheckpointDone
from safetyd.operators.replies import Done, Refusal
from safetyd.operators.report_access import ReportAnswer, ReportQuestion
from safetyd.operators.views.agent_page_view import AgentAnswer, AgentQuestion
from safetyd.operators.views.agent_view import AgentsAnswer, AgentsQuestion
from safetyd.operators.views.decision_view import DecisionsAnswer, DecisionsQuestion
from safetyd.operators.views.guard_views.anomaly_view import AnomaliesAnswer, AnomaliesQuestion
from safetyd.operators.views.guard_views.breaker_view import BreakersAnswer
from safetyd.operators.views.guard_views.guard_view import (
    BudgetsAnswer,
    TypesAnswer,
)
from safetyd.operators.views.guard_views.limit_view import LimitsAnswer
from safetyd.operators.views.guard_views.money_view import MoneyAnswer
from safetyd.operators.views.health_view import HealthAnswer
from safetyd.operators.views.status_view import SafeModeAnswer, StatusAnswer
from safetyd.operators.views.top_bar_view import TopBarAnswer
from safetyd.operators.web_access import (
    SessionEndCommand,
    SessionsAnswer,
    SessionsEnded,
    SignInAnswer,
    SignInQuestion,
)


class ControlStop(StopCommand, tag_field="command", tag="stop"):
    """Nobody may act, or one agent may not. It holds before the answer leaves."""


class ControlResume(ResumeCommand, tag_field="command", tag="resume"):
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


class ControlCheckpoint(Struct, tag_field="command", tag="checkpoint"):
    """Have everything up to now saved, for a backup."""


class ControlBackupMade(BackupMadeCommand, tag_field="command", tag="backup_made"):
    """Have it recorded that a backup was made."""


class ControlSessionEnd(SessionEndCommand, tag_field="command", tag="session_end"):
    """Sign browsers out of the control room."""


class ControlRollback(RollbackCommand, kw_only=True, tag_field="command", tag="rollback"):
    """Put files of a project back as they were. Who works there is paused until it is over."""


class QueryCommits(CommitsQuestion, kw_only=True, tag_field="command", tag="commits"):
    """Ask what agents changed in the projects that have a history, the newest first."""


class QueryCommit(CommitQuestion, kw_only=True, tag_field="command", tag="commit"):
    """Ask what a commit is about and what it changed; or, with `other`, what lies between."""


class QueryTopBar(Struct, tag_field="command", tag="top_bar"):
    """Ask in one word how everything is, and what waits."""


class QuerySignIn(SignInQuestion, frozen=True, tag_field="command", tag="sign_in"):
    """Ask for a link that signs one browser in to the control room, as whoever asks."""


class QuerySessions(Struct, tag_field="command", tag="sessions"):
    """Ask which browsers are signed in to the control room."""


class QueryStatus(Struct, tag_field="command", tag="status"):
    """Ask how everything is."""


class QueryHealth(Struct, tag_field="command", tag="health"):
    """Ask how each part of the daemon is; it is answered while nothing can be written, too."""


class QueryAgents(AgentsQuestion, tag_field="command", tag="agents"):
    """Ask who is there, and what they did: at most `limit` agents, in the order of names.

    In that order those that follow `after`; `sort` asks for another one, in which `offset` agents
    are passed over. `state`, `key` and a part of the name in `text` leave others out.
    """


class QueryAgent(AgentQuestion, tag_field="command", tag="agent"):
    """Ask all that is known of one agent."""


class QueryReport(ReportQuestion, frozen=True, tag_field="command", tag="report"):
    """Ask for the report of a day, or of all days from one on."""


class QueryExplain(ExplainQuestion, tag_field="command", tag="explain"):
    """Ask what was decided about a proposal, why, and what came of it.

    It is named by its `id`, by that of the request that it opened, or as an agent's `last`.
    """


class QueryDecisions(DecisionsQuestion, kw_only=True, tag_field="command", tag="decisions"):
    """Ask what was decided, what happened besides (`events`), or `all` of it; newest first."""


class QuerySafeMode(SafeModeQuestion, tag_field="command", tag="safe_mode"):
    """Ask how safe mode is, of one agent or of all."""


class QueryBudgets(Struct, tag_field="command", tag="budgets"):
    """Ask what is spent and set aside."""


class QueryBreakers(Struct, tag_field="command", tag="breakers"):
    """Ask which dependencies are cut off."""


class QueryAnomalies(AnomaliesQuestion, tag_field="command", tag="anomalies"):
    """Ask what was unusual of late, the newest or the worst first, of all or of one agent."""


class QueryLimits(Struct, tag_field="command", tag="limits"):
    """Ask what is left of every rate, and whom rounds and cooldowns hold back."""


class QueryMoney(Struct, tag_field="command", tag="money"):
    """Ask how today's money is spent, how fast, and whether it lasts until midnight UTC."""


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
    "control_checkpoint": ControlCheckpoint,
    "control_checkpoint_reply": CheckpointDone,
    "control_backup_made": ControlBackupMade,
    "control_backup_made_reply": Done,
    "control_session_end": ControlSessionEnd,
    "control_session_end_reply": SessionsEnded,
    "control_rollback": ControlRollback,
    "control_rollback_reply": RollbackDone,
    "query_commits": QueryCommits,
    "query_commits_reply": CommitsAnswer,
    "query_commit": QueryCommit,
    "query_commit_reply": CommitAnswer,
    "query_top_bar": QueryTopBar,
    "query_top_bar_reply": TopBarAnswer,
    "query_sign_in": QuerySignIn,
    "query_sign_in_reply": SignInAnswer,
    "query_sessions": QuerySessions,
    "query_sessions_reply": SessionsAnswer,
    "query_status": QueryStatus,
    "query_status_reply": StatusAnswer,
    "query_health": QueryHealth,
    "query_health_reply": HealthAnswer,
    "query_agents": QueryAgents,
    "query_agents_reply": AgentsAnswer,
    "query_agent": QueryAgent,
    "query_agent_reply": AgentAnswer,
    "query_safe_mode": QuerySafeMode,
    "query_safe_mode_reply": SafeModeAnswer,
    "query_budgets": QueryBudgets,
    "query_budgets_reply": BudgetsAnswer,
    "query_breakers": QueryBreakers,
    "query_breakers_reply": BreakersAnswer,
    "query_anomalies": QueryAnomalies,
    "query_anomalies_reply": AnomaliesAnswer,
    "query_limits": QueryLimits,
    "query_limits_reply": LimitsAnswer,
    "query_money": QueryMoney,
    "query_money_reply": MoneyAnswer,
    "query_types": QueryTypes,
    "query_types_reply": TypesAnswer,
    "query_report": QueryReport,
    "query_report_reply": ReportAnswer,
    "query_explain": QueryExplain,
    "query_explain_reply": ExplainAnswer,
    "query_decisions": QueryDecisions,
    "query_decisions_reply": DecisionsAnswer,
    "refusal": Refusal,
    "safety_event": SafetyEvent,
    "state_stop": StateStop,
    "state_mode": StateMode,
    "state_rollback": Rollback,
    "service_reply": ServiceAnswer,
}
