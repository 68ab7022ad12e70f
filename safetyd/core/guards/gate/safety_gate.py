"""The gate as a library, for programs that run without the daemon.

It is deterministic and synchronous. It matches text only: it does not understand meaning or look at
screenshots. The caller must ask a human when confirmation is required.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Final, Protocol

from safetyd.core.action_types import Kinds
from safetyd.core.events.decision_events import Proposed
from safetyd.core.facts.fact_finder import FactFinder
from safetyd.core.guards.gate import default_patterns
from safetyd.core.guards.gate.gate_config import ConfidenceConfig, GateConfig
from safetyd.core.guards.gate.gate_rules import Rules
from safetyd.core.guards.gate.loops import Loops, Visit, state_hash
from safetyd.core.messages.proposal import Observation, Proposal, Target
from safetyd.core.text.patterns import AnyPattern, PatternConfig

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class SafetyDecision(Enum):
    ALLOW = "allow"
    BLOCK = "block"
    REQUIRE_CONFIRMATION = "require_confirmation"


@dataclass
class SafetyAssessment:
    decision: SafetyDecision
    reason: str  # one sentence, for people
    triggered_rules: list[str]
    confidence: float  # always 1.0, because rules are certain


@dataclass
class SafetyConfig:
    """The settings of the gate. Patterns are RE2 and ignore case."""

    blocklist_patterns: list[str] = field(
        default_factory=lambda: _texts(default_patterns.BLOCKLIST)
    )
    irreversible_patterns: list[str] = field(
        default_factory=lambda: _texts(default_patterns.IRREVERSIBLE)
    )
    confidence_threshold: float = 0.7
    loop_threshold: int = 3
    credential_patterns: list[str] = field(
        default_factory=lambda: _texts(default_patterns.CREDENTIALS)
    )
    credential_allowlist: list[str] = field(default_factory=list)
    expected_app: str | None = None  # None: any
    expected_window_pattern: str | None = None


class GateStep(Protocol):
    """One earlier step."""

    @property
    def observation(self) -> object: ...


class SafetyGate:
    """Assess actions one by one. Subclass it to add your own rules.

    An action has `type`, and may have `text`, `confidence` and `target` with `label`, `name`,
    `app` and `window`; an observation may have `window_title`, `app_name`, `url`, `screen_hash`.
    The constructor raises `ValueError` if a pattern is invalid.
    """

    def __init__(self, config: SafetyConfig | None = None) -> None:
        self.config = config or SafetyConfig()
        self._rules = _rules(self.config)
        self._kinds = Kinds({}, "strict")
        self._loops = Loops("states")
        self._facts = FactFinder()

    def assess(
        self, action: object, observation: object, trace: Sequence[GateStep] | None = None
    ) -> SafetyAssessment:
        """Judge `action`. Without a `trace`, the call counts as a visit to the observed state."""
        proposal = _proposal(action, observation)
        visits = self._visit(_state(observation)) if trace is None else _visits(observation, trace)
        proposed = Proposed(at=_NEVER, t=0.0, agent="", proposal=proposal, digest="")
        facts = self._facts.of(proposed, self._kinds.of(proposal))
        verdict = self._rules.judge(proposed, facts, visits)
        return SafetyAssessment(
            decision=SafetyDecision(verdict.decision.value),
            reason=verdict.reason,
            triggered_rules=list(filter(None, (verdict.rule, *verdict.also))),
            confidence=1.0,
        )

    def reset(self) -> None:
        """Forget all visits. Call it between episodes."""
        self._loops.forget("")

    def _visit(self, state: str) -> int:
        if not state:
            return 0
        visit = Visit("", "", None, state, state, patient=False)
        visits = self._loops.visits_with(visit)
        self._loops.add(visit)
        return visits


def _rules(config: SafetyConfig) -> Rules:
    sure = config.confidence_threshold
    gate = GateConfig(
        blocklist_patterns=_named(config.blocklist_patterns, default_patterns.BLOCKLIST),
        irreversible_patterns=_named(config.irreversible_patterns, default_patterns.IRREVERSIBLE),
        confidence_threshold=sure,
        loop_threshold=config.loop_threshold,
        loop_counts="states",
        credential_patterns=_named(config.credential_patterns, default_patterns.CREDENTIALS),
        credential_allowlist=tuple(config.credential_allowlist),
        expected_app=config.expected_app,
        expected_window_pattern=config.expected_window_pattern,
    )
    return Rules(gate, ConfidenceConfig(low=sure, medium=sure, high=sure, default=sure), "strict")


def _named(patterns: Iterable[str], known: Iterable[PatternConfig]) -> tuple[AnyPattern, ...]:
    """Give default patterns their shipped names. Others are later named by position."""
    names = {pattern.pattern: pattern for pattern in known}
    return tuple(names.get(pattern, pattern) for pattern in dict.fromkeys(patterns))


def _texts(patterns: Iterable[PatternConfig]) -> list[str]:
    return [pattern.pattern for pattern in patterns]


def _proposal(action: object, observation: object) -> Proposal:
    target, sure = _get(action, "target"), _get(action, "confidence")
    kind = _said(action, "type")
    if not kind:
        raise TypeError(f"the action must have a type: {action!r}")
    return Proposal(
        type=kind,
        text=_said(action, "text"),
        confidence=float(str(sure)) if sure is not None else None,
        target=None if target is None else _target(target),
        observation=_observation(observation),
    )


def _target(target: object) -> Target:
    return Target(
        label=_said(target, "label"),
        name=_said(target, "name"),
        app=_said(target, "app"),
        window=_said(target, "window"),
    )


def _observation(observation: object) -> Observation:
    return Observation(
        window_title=_said(observation, "window_title"),
        app_name=_said(observation, "app_name"),
        url=_said(observation, "url"),
        screen_hash=_said(observation, "screen_hash"),
    )


def _get(thing: object, name: str) -> object:
    """Return an attribute of an object or an item of a mapping."""
    found: object = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
    return found


def _said(thing: object, name: str) -> str:
    said = _get(thing, name)
    if isinstance(said, Enum):
        said = said.value if isinstance(said.value, str) else said.name
    return "" if said is None else str(said)


def _state(observation: object) -> str:
    return state_hash(_observation(observation))


def _visits(observation: object, trace: Sequence[GateStep]) -> int:
    state = _state(observation)
    return 1 + sum(_state(step.observation) == state for step in trace) if state else 0
