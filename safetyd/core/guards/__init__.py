"""The chain of guards. Every guard judges a proposal; the strictest verdict wins.

If verdicts are equally strict, the first gives the reason. The name of a guard's file or folder is
the first word of its rules. Other packages import the configuration structs, the state that guards
show, and this chain.
"""

from typing import TYPE_CHECKING, NamedTuple

from safetyd.core.guards.anomaly.anomaly import AnomalyGuard
from safetyd.core.guards.breaker import BreakerGuard
from safetyd.core.guards.budget.budget import Budget
from safetyd.core.guards.classify.classify import Classify
from safetyd.core.guards.cooldown import Cooldown
from safetyd.core.guards.gate.command_rules import CommandRules
from safetyd.core.guards.gate.gate import Gate
from safetyd.core.guards.iterations import Iterations
from safetyd.core.guards.keys import KeysGuard, Ties
from safetyd.core.guards.mode import ModeGuard
from safetyd.core.guards.pause import PauseGuard
from safetyd.core.guards.rate.rate import RateLimiter
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
    scores: ScoresGuard
    iterations: Iterations
    cooldown: Cooldown
    rate: RateLimiter
    budget: Budget
    breaker: BreakerGuard
    anomaly: AnomalyGuard


def chain(policy: "Policy", reader: CommandReader, sessions: Sessions, ties: Ties) -> Chain:
    """Build every guard from its part of the policy. `ties` says which names are still needed."""
    agents = policy.agents.items()
    setting = Setting(
        kinds=reader.kinds,
        mode=policy.mode,
        timezone=policy.zone,
        coding=policy.profile == "coding",
        reader=reader,
    )
    commands = CommandRules(reader, setting, (Layer(policy.rules, setting),))
    default = policy.default_project or ""
    keys = KeysGuard(policy.max_agents, sessions, ties)
    return Chain(
        stop=StopGuard(),
        keys=keys,
        pause=PauseGuard(),
        mode=ModeGuard(policy.mode, policy.modes),
        safe_mode=SafeMode(policy.safe_mode, policy.sessions.outcome_timeout_s),
        classify=Classify(policy.rules, policy.projects, setting, default),
        gate=Gate(
            policy.gate,
            policy.confidence,
            policy.profile,
            policy.projects,
            policy.own,
            commands,
            default_project=default,
        ),
        scores=ScoresGuard(policy.scores),
        iterations=Iterations(
            policy.iterations,
            {n: a.iterations for n, a in agents if a.iterations is not None},
            sessions.admits,
        ),
        cooldown=Cooldown(
            policy.cooldown, {n: a.dispatch_s for n, a in agents if a.dispatch_s is not None}
        ),
        rate=RateLimiter(policy.rate, policy.mode, policy.buckets(), keys.others),
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
