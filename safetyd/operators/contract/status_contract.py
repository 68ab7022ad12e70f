"""The state of the daemon: status, health, and the top bar of the control room."""

from datetime import datetime
from typing import Literal

import msgspec

from safetyd.core.events.daemon_events import DiskUse
from safetyd.core.guards.stop import Stop
from safetyd.core.history_state import HistoryTrouble
from safetyd.core.messages.proposal import Urgency
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import Mode, Profile
from safetyd.core.reporting.kept_days import MissingSnapshots
from safetyd.monitoring.exporter_metrics import ExporterState
from safetyd.operators.contract.agent_contract import AgentRow, AgentState
from safetyd.operators.contract.guard_contract import Breaker, Budget, Finding
from safetyd.operators.contract.hold_contract import Pausing, SafeModeShown
from safetyd.operators.contract.question import Question
from safetyd.operators.replies import Done


class Standstill(msgspec.Struct, frozen=True, kw_only=True):
    active: bool
    epoch: int
    stops: tuple[Stop, ...]
    acknowledged: tuple[str, ...]  # agents heard lately that know of the newest stop
    silent: tuple[str, ...]  # agents heard lately that have not said so
    open_actions: int


class UrgencyCount(msgspec.Struct, frozen=True, kw_only=True):
    """Pending requests of one urgency."""

    urgency: Urgency
    pending: int
    oldest_at: datetime


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests wait for a person, who asks most, and for how long the oldest has."""

    pending: int
    oldest_s: float
    most: str | None  # the agent with the most of them
    most_pending: int
    channels: tuple[str, ...]  # on which people are told
    down: tuple[str, ...]  # of these, which take nothing now
    unnotified: int  # requests of which somebody should know and nobody does
    by_urgency: tuple[UrgencyCount, ...] = ()  # the most urgent first


class UnavailableExtra(msgspec.Struct, frozen=True, kw_only=True):
    """A feature that the configuration wants and that lacks a program or a package."""

    name: str
    why: str
    fix: str  # what to install


class DaemonFacts(Done, frozen=True, kw_only=True):
    """What `status` tells of the daemon around the engine."""

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
    disk: DiskUse
    decisions: dict[Severity, int]
    failing: tuple[str, ...]  # channels whose last try did not succeed
    stop_files: tuple[str, ...]
    stop_commands: tuple[str, ...]
    config: str  # the file, or nothing
    config_problem: str  # why the newest configuration or keys are not in force, or nothing
    next_start: tuple[str, ...]  # sections whose change waits for the next start
    outlets: tuple[ExporterState, ...] = ()  # where events go besides the journal
    missing: MissingSnapshots | None = None  # days that should have a snapshot and have none
    unavailable: tuple[UnavailableExtra, ...] = ()  # what is configured and lacks a dependency


class StatusAnswer(DaemonFacts, frozen=True, kw_only=True):
    """How everything is. Of pauses, breakers and holds of safe mode it has the first few."""

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
    histories: tuple[HistoryTrouble, ...] = ()  # projects whose history needs a person
    agents: int
    foremost: tuple[AgentRow, ...]  # the agents that matter most
    # How many agents are in each state.
    agent_states: dict[AgentState, int] = msgspec.field(default_factory=dict)


class StatusQuestion(Question[StatusAnswer], frozen=True, tag="status"):
    """Show the state of the daemon and what is stopped."""

    paths = ("/status",)
    protecting = True


HealthState = Literal["good", "warn", "bad"]


class HealthCheck(msgspec.Struct, frozen=True, kw_only=True):
    """How one part is; `fix` says what to do, if anything is to be done."""

    name: str
    state: HealthState
    says: str
    fix: str = ""


class HealthAnswer(Done, frozen=True, kw_only=True):
    """How each part of the daemon is. `state` is that of the worst."""

    at: datetime
    state: HealthState
    checks: tuple[HealthCheck, ...]


class HealthQuestion(Question[HealthAnswer], frozen=True, tag="health"):
    """Check each part of the daemon.

    The answer comes even while nothing can be written.
    """

    paths = ("/health",)


Level = Literal["NORMAL", "SAFE MODE", "PAUSED", "STOPPED"]


class TopBarHold(msgspec.Struct, frozen=True, kw_only=True):
    """What holds the most: whom, since when, by whom and why. Nobody named is everybody."""

    level: Level
    agents: tuple[str, ...] = ()
    more: int = 0
    since: datetime | None = None
    by: str = ""
    why: str = ""


class TopBarAnswer(Done, frozen=True, kw_only=True):
    """`hold` is the strictest, `others` are those that hold besides, the strictest first.

    `standstill` is how a stop is obeyed; `oldest_at` is when the oldest request was asked.
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
    """Show in one word how everything is, and how many requests are pending."""

    paths = ("/top-bar",)
