"""The state of the daemon: status, health, and the top bar of the control room."""

from datetime import datetime
from typing import Literal

import msgspec

from safetyd.core.action_types import Mode, Profile
from safetyd.core.events.daemon_events import DiskUse
from safetyd.core.guards.stop import Stop
from safetyd.core.history_state import HistoryTrouble
from safetyd.core.messages.proposal import Urgency
from safetyd.core.messages.verdict import Severity
from safetyd.core.reporting.blocked_attempts import DangerousCommands, OwnAttempts
from safetyd.core.reporting.kept_days import MissingSnapshots
from safetyd.core.reporting.missing_folders import FolderlessAgent
from safetyd.operators.contract.agent_contract import AgentRow, AgentState
from safetyd.operators.contract.cluster_contract import ClusterSummary
from safetyd.operators.contract.guard_contract import Breaker, Budget, Finding
from safetyd.operators.contract.hold_contract import Pausing, SafeModeShown
from safetyd.operators.contract.question import Question
from safetyd.operators.contract.rota_contract import OnCallNow
from safetyd.operators.replies import Done


class ExporterState(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of an exporter, as far as known since the daemon started."""

    name: str
    seq: int | None  # The last exported event, null if not known yet.
    behind: int  # Events not exported yet; all of them while `seq` is null.
    last_success: datetime | None  # When it last exported events, or had nothing to export.
    errors: int
    problem: str  # Why it cannot export now, or empty.


class Standstill(msgspec.Struct, frozen=True, kw_only=True):
    active: bool
    epoch: int
    stops: tuple[Stop, ...]
    acknowledged: tuple[str, ...]  # Recently active agents that acknowledged the newest stop.
    silent: tuple[str, ...]  # Recently active agents that did not acknowledge the newest stop.
    open_actions: int


class UrgencyCount(msgspec.Struct, frozen=True, kw_only=True):
    """Pending requests of one urgency."""

    urgency: Urgency
    pending: int
    oldest_at: datetime


class Unsent(msgspec.Struct, frozen=True, kw_only=True):
    """Pending requests for which no provider has accepted a message yet."""

    requests: int
    urgent: int  # How many of them are urgent.
    until: datetime | None  # When the next message is due, null if a channel must recover first.
    expiring: int  # How many expire before `until`.


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests are pending, which agent has the most, and the age of the oldest."""

    pending: int
    oldest_s: float
    most: str | None  # The agent with the most pending requests.
    most_pending: int
    channels: tuple[str, ...]  # Channels that operators are notified on.
    down: tuple[str, ...]  # The channels that are down.
    unnotified: int  # Pending requests without a delivered notification.
    by_urgency: tuple[UrgencyCount, ...] = ()  # Most urgent first.
    unsent: Unsent | None = None  # Requests that were not sent to anyone yet.


class UnavailableExtra(msgspec.Struct, frozen=True, kw_only=True):
    """A configured feature that lacks a program or a package."""

    name: str
    why: str
    fix: str  # What to install.


class SenderOverLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A sender that was over one of its limits in the last minute."""

    sender: str  # such as `uid:1000`, `agent:coder` or `address:127.0.0.1`
    limit: str  # such as `connections`
    count: int  # How often it was over the limit within a minute.
    words: str  # The name of the limit for people.


class DaemonFacts(Done, frozen=True, kw_only=True):
    """The part of `status` that does not come from the engine."""

    version: str
    pid: int
    started: datetime
    problem: str  # Why proposals cannot be answered now, or empty.
    bus: str
    embedded: bool
    open_agents: bool
    keys: int
    web: str
    data_dir: str
    disk: DiskUse
    decisions: dict[Severity, int]
    failing: tuple[str, ...]  # Channels whose last attempt failed.
    stop_files: tuple[str, ...]
    stop_commands: tuple[str, ...]
    config: str  # The configuration file, or empty.
    config_problem: str  # Why the newest configuration or keys are not in force, or empty.
    next_start: tuple[str, ...]  # Sections whose change takes effect at the next start.
    outlets: tuple[ExporterState, ...] = ()  # Exporters and how far behind they are.
    missing: MissingSnapshots | None = None  # Days whose snapshot is missing.
    unavailable: tuple[UnavailableExtra, ...] = ()  # Configured features that lack a dependency.
    over_limits: tuple[SenderOverLimit, ...] = ()  # Senders over a limit, the latest first.
    # The place of this daemon among several; missing if its bus is embedded.
    cluster: ClusterSummary | msgspec.UnsetType = msgspec.UNSET


class StatusAnswer(DaemonFacts, frozen=True, kw_only=True):
    """The state of everything. Pauses, breakers and safe mode holds list only the first few."""

    at: datetime
    mode: Mode
    profile: Profile
    policy: str
    seq: int
    stop: Standstill
    safe_mode: SafeModeShown
    paused: tuple[str, ...]  # Longest paused first.
    pauses: tuple[Pausing, ...]
    today: Budget
    keyless_today: Budget | None  # The share of anonymous agents; null if they have none.
    warn_ratio: float  # The share of a budget at which operators are warned.
    breakers: tuple[Breaker, ...]  # Breakers that are not closed, longest open first.
    tripped: int  # How many breakers are not closed.
    findings: tuple[Finding, ...]  # Anomalies of the last hour, most severe and newest first.
    found: int  # How many anomalies there were.
    requests: Waiting
    on_call: OnCallNow | None = None  # Null without a rota.
    wide_grants: tuple[str, ...]  # Grants that allow any text of an agent.
    histories: tuple[HistoryTrouble, ...] = ()  # Projects whose file history needs attention.
    agents: int
    foremost: tuple[AgentRow, ...]  # The agents that need attention most.
    # How many agents are in each state.
    agent_states: dict[AgentState, int] = msgspec.field(default_factory=dict)
    own_attempts: tuple[OwnAttempts, ...] = ()  # Blocked, and not acknowledged yet.
    dangerous: tuple[DangerousCommands, ...] = ()  # Blocked in the last hour, by agent.
    # Agents that sent relative paths without `cwd` in the last day. Each needs approval.
    folderless: tuple[FolderlessAgent, ...] = ()


class StatusQuestion(Question[StatusAnswer], frozen=True, tag="status"):
    """Show the state of the daemon, stops, agents and pending requests."""

    paths = ("/status",)
    protecting = True


HealthState = Literal["good", "warn", "bad"]


class HealthCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One health check. `fix` says what to do, or is empty."""

    name: str
    state: HealthState
    says: str
    fix: str = ""


class HealthAnswer(Done, frozen=True, kw_only=True):
    """The result of every health check. `state` is the worst of them."""

    at: datetime
    state: HealthState
    checks: tuple[HealthCheck, ...]


class HealthQuestion(Question[HealthAnswer], frozen=True, tag="health"):
    """Check the health of each part of the daemon.

    The answer is sent even while nothing can be written.
    """

    paths = ("/health",)
    always = True


Level = Literal["NORMAL", "SAFE MODE", "PAUSED", "STOPPED"]


class TopBarHold(msgspec.Struct, frozen=True, kw_only=True):
    """A restriction: which agents, since when, by whom and why. No agents means all agents."""

    level: Level
    agents: tuple[str, ...] = ()
    more: int = 0
    since: datetime | None = None
    by: str = ""
    why: str = ""


class TopBarAnswer(Done, frozen=True, kw_only=True):
    """`hold` is the strictest restriction, `others` the remaining ones, strictest first.

    `standstill` says who acknowledged a stop; `oldest_at` is when the oldest request was opened.
    """

    at: datetime
    seq: int
    hold: TopBarHold
    others: tuple[TopBarHold, ...]
    pending: int
    oldest_at: datetime | None
    agents: int
    standstill: Standstill


class TopBarQuestion(Question[TopBarAnswer], frozen=True, tag="top_bar"):
    """Show the overall state in one word, and how many requests are pending."""

    paths = ("/top-bar",)
