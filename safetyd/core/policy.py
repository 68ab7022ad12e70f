"""The part of the configuration that guards and actors use. It is journalled for replay."""

import hashlib
from datetime import UTC, tzinfo
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from safetyd.core.action_types import Kinds, Mode, Profile, TypeConfig
from safetyd.core.approvals.request import ApprovalsConfig
from safetyd.core.decision_cache import DecisionsConfig
from safetyd.core.events.event import Event
from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.anomaly.presence import HumanConfig
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.guards.circuit import BreakerConfig
from safetyd.core.guards.cooldown import CooldownConfig
from safetyd.core.guards.gate.gate_config import ConfidenceConfig, GateConfig
from safetyd.core.guards.gate.own_config import OwnConfig
from safetyd.core.guards.iterations import IterationsConfig
from safetyd.core.guards.mode import ModesConfig
from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.guards.rate.rate import RateConfig
from safetyd.core.guards.rate.rate_limits import BucketConfig
from safetyd.core.guards.rules import RulesConfig
from safetyd.core.guards.safe_mode import SafeModeConfig
from safetyd.core.guards.scores import ScoresConfig
from safetyd.core.host_rules import HostRules
from safetyd.core.messages.host_folder import OWN_FOLDER
from safetyd.core.messages.proposal import canonical
from safetyd.core.recipients import TellingConfig
from safetyd.core.rota import RotaPolicy
from safetyd.core.sessions import SessionsConfig
from safetyd.core.shell.command_reader import CheckedProject, CommandReader, ShellConfig


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[agents.NAME]` table: limits for this agent that differ from the common ones."""

    iterations: Annotated[int, Meta(ge=1)] | None = None
    dispatch_s: Annotated[float, Meta(ge=0)] | None = None
    session_usd: Annotated[float, Meta(ge=0)] | None = None
    tokens_per_minute: Annotated[int, Meta(ge=1)] | None = None
    burst: Annotated[int, Meta(ge=1)] | None = None


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mode: Mode = "production"
    profile: Profile = "strict"
    timezone: str = ""  # for `hours` and `weekdays` in rules; empty: UTC
    max_agents: int = 1000
    types: dict[str, TypeConfig] = {}
    rules: RulesConfig = RulesConfig()
    projects: dict[str, ProjectConfig] = {}
    modes: ModesConfig = ModesConfig()
    safe_mode: SafeModeConfig = SafeModeConfig()
    gate: GateConfig = GateConfig()
    confidence: ConfidenceConfig = ConfidenceConfig()
    scores: ScoresConfig = ScoresConfig()
    iterations: IterationsConfig = IterationsConfig()
    cooldown: CooldownConfig = CooldownConfig()
    rate: RateConfig = RateConfig()
    budget: BudgetConfig = BudgetConfig()
    breaker: BreakerConfig = BreakerConfig()
    anomaly: AnomalyConfig = AnomalyConfig()
    human: HumanConfig = HumanConfig()
    agents: dict[str, AgentConfig] = {}
    approvals: ApprovalsConfig = ApprovalsConfig()
    decisions: DecisionsConfig = DecisionsConfig()
    sessions: SessionsConfig = SessionsConfig()
    telling: TellingConfig = TellingConfig()
    own: OwnConfig = OwnConfig()
    shell: ShellConfig | msgspec.UnsetType = msgspec.UNSET  # missing in older journals
    # The project of proposals that name none; missing in older journals.
    default_project: str | msgspec.UnsetType = msgspec.UNSET
    hosts: HostRules | msgspec.UnsetType = msgspec.UNSET  # missing in older journals
    rota: RotaPolicy | msgspec.UnsetType = msgspec.UNSET  # missing in older journals

    def digest(self) -> str:
        return "sha256:" + hashlib.sha256(canonical(self)).hexdigest()

    @property
    def host_rules(self) -> HostRules:
        return self.hosts or HostRules()

    def kinds(self, *, host: bool = False) -> Kinds:
        """Return the table of action types, for coding agents or for all others."""
        return Kinds(self.types, self.host_rules.profile if host else self.profile)

    def reader(self, kinds: Kinds) -> CommandReader:
        """Return a parser of shell commands that uses these rules."""
        projects = {
            name: CheckedProject(project.root, project.checks or ())
            for name, project in self.projects.items()
        }
        how = self.gate.shell or "judge"
        default = self.default_project or ""
        return CommandReader(kinds, self.shell or ShellConfig(), projects, how, default)

    def project_of(self, name: str | None) -> ProjectConfig | None:
        """Return the project called `name`, or else the default project, if there is one."""
        if name == OWN_FOLDER:
            return None
        return self.projects.get(name or "") or self.projects.get(self.default_project or "")

    @property
    def zone(self) -> tzinfo:
        return ZoneInfo(self.timezone) if self.timezone else UTC

    def buckets(self) -> dict[str, BucketConfig]:
        """Return the agents' own rate limits. Values that are not set are the common ones."""
        usual = self.rate.of(self.mode).agent
        return {
            name: BucketConfig(
                tokens_per_minute=agent.tokens_per_minute or usual.tokens_per_minute,
                burst=agent.burst or usual.burst,
            )
            for name, agent in self.agents.items()
            if agent.tokens_per_minute is not None or agent.burst is not None
        }


class Configured(Event, kw_only=True, omit_defaults=True, tag="configured"):
    """A new policy applies from here on, and the engine rebuilds its actors.

    The policy contains no secrets.
    """

    policy: Policy
    digest: str
    version: str
    why: Literal["start", "reload"]
