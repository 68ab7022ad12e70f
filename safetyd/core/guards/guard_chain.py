"""The chain of guards. Every guard judges a proposal; the strictest verdict wins.

If verdicts are equally strict, the first gives the reason.
"""

from typing import TYPE_CHECKING, NamedTuple

from safetyd.core.facts.fact_finder import FactFinder
from safetyd.core.guards.anomaly.anomaly import AnomalyGuard
from safetyd.core.guards.breaker import BreakerGuard
from safetyd.core.guards.budget.budget import Budget
from safetyd.core.guards.classify.classify import Classify
from safetyd.core.guards.cooldown import Cooldown
from safetyd.core.guards.gate.command_rules import CommandRules
from safetyd.core.guards.gate.gate import Gate
from safetyd.core.guards.gate.gate_rules import Rules
from safetyd.core.guards.gate.host_commands import HostCommands
from safetyd.core.guards.host_files import HostFilesGuard
from safetyd.core.guards.iterations import Iterations
from safetyd.core.guards.keys import KeysGuard, Ties
from safetyd.core.guards.mode import ModeGuard
from safetyd.core.guards.pause import PauseGuard
from safetyd.core.guards.rate.rate import RateLimiter
from safetyd.core.guards.rate.rate_limits import BucketConfig
from safetyd.core.guards.rule_layers import Layer, Setting
from safetyd.core.guards.safe_mode import SafeMode
from safetyd.core.guards.scores import ScoresGuard
from safetyd.core.guards.stop import StopGuard
from safetyd.core.sessions import Sessions
from safetyd.core.shell.command_reader import CommandReader

if TYPE_CHECKING:
    from safetyd.core.policy import Policy  # Policy contains the guards' configurations


class Chain(NamedTuple):
    """The guards in the order in which they judge."""

    stop: StopGuard
    keys: KeysGuard
    pause: PauseGuard
    mode: ModeGuard
    safe_mode: SafeMode
    classify: Classify
    gate: Gate
    host_files: HostFilesGuard
    scores: ScoresGuard
    iterations: Iterations
    cooldown: Cooldown
    rate: RateLimiter
    budget: Budget
    breaker: BreakerGuard
    anomaly: AnomalyGuard


class Readers(NamedTuple):
    """The parsers of shell commands, which share their results, and the facts that they give."""

    usual: CommandReader
    of_hosts: CommandReader
    facts: FactFinder


def chain(policy: "Policy", readers: Readers, sessions: Sessions, ties: Ties) -> Chain:
    """Build every guard from its part of the policy. `ties` says which names are in use."""
    agents, hosts = policy.agents.items(), policy.host_rules
    setting = _setting(policy, policy.profile, readers.usual)
    of_hosts = _setting(policy, hosts.profile, readers.of_hosts)
    default = policy.default_project or ""
    keys = KeysGuard(policy.max_agents, sessions, ties)
    return Chain(
        stop=StopGuard(),
        keys=keys,
        pause=PauseGuard(),
        mode=ModeGuard(policy.mode, policy.modes),
        safe_mode=SafeMode(policy.safe_mode, policy.sessions.outcome_timeout_s),
        classify=Classify(policy.rules, policy.projects, setting, default, of_hosts, readers.facts),
        gate=Gate(
            policy.gate,
            policy.confidence,
            policy.profile,
            policy.projects,
            policy.own,
            _commands(policy, setting),
            default_project=default,
            facts=readers.facts,
            host_rules=Rules(
                policy.gate,
                policy.confidence,
                hosts.profile,
                _commands(policy, of_hosts, HostCommands(hosts)),
            ),
        ),
        host_files=HostFilesGuard(),
        scores=ScoresGuard(policy.scores),
        iterations=Iterations(
            policy.iterations,
            {n: a.iterations for n, a in agents if a.iterations is not None},
            sessions.admits,
        ),
        cooldown=Cooldown(
            policy.cooldown, {n: a.dispatch_s for n, a in agents if a.dispatch_s is not None}
        ),
        rate=RateLimiter(
            policy.rate,
            policy.mode,
            policy.buckets(),
            keys.others,
            BucketConfig(tokens_per_minute=hosts.tokens_per_minute, burst=hosts.burst),
        ),
        budget=Budget(
            policy.budget,
            {n: a.session_usd for n, a in agents if a.session_usd is not None},
            policy.projects,
            keys.others,
            default,
        ),
        breaker=BreakerGuard(policy.breaker),
        anomaly=AnomalyGuard(policy.anomaly, policy.human),
    )


def _setting(policy: "Policy", profile: str, reader: CommandReader) -> Setting:
    return Setting(
        kinds=reader.kinds,
        mode=policy.mode,
        timezone=policy.zone,
        coding=profile == "coding",
        reader=reader,
    )


def _commands(
    policy: "Policy", setting: Setting, hosts: HostCommands | None = None
) -> CommandRules:
    return CommandRules(setting.reader, setting, (Layer(policy.rules, setting),), hosts)
