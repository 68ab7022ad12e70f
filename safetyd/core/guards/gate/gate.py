"""The gate: what a proposal says, where it acts, and whether it gets anywhere.

The steps, in order: what is safetyd's own, blocklist, loop, credential, irreversible, window,
confidence, and tricks of Unicode. The strictest decides, of equals the first; all that matched are
listed. A match of the first two that blocks ends the looking. Rules for text can be evaded.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from safetyd.core.action_types import GUI, Kind
from safetyd.core.actor import Guard, hearing, on
from safetyd.core.events.decision_events import Decided, Proposed, Reported, SessionClosed
from safetyd.core.events.event import Moment
from safetyd.core.events.guard_events import Forgotten, NameForgotten
from safetyd.core.guards.gate import default_patterns
from safetyd.core.guards.gate.loops import LoopCounts, Loops, Visit, visit_of
from safetyd.core.guards.gate.own_resources import OwnConfig, OwnResources
from safetyd.core.guards.gate.steps import (
    Watch,
    beside,
    compared,
    deceptive,
    expectations,
    merged,
    target_words,
    text_words,
    unsure,
    words,
)
from safetyd.core.guards.projects import (
    ProjectConfig,
    ProjectGate,
    ProjectSettings,
    Share,
    Sides,
    over,
    sides,
)
from safetyd.core.messages.proposal import Proposal, Risk, Target
from safetyd.core.messages.telemetry import EpisodeEnded, SessionEnded
from safetyd.core.messages.verdict import ALLOWED, BLOCK, Severity, Verdict, strictest, together
from safetyd.core.text import patterns
from safetyd.core.text.folding import forms, masked, prepare
from safetyd.core.text.patterns import AnyPattern, PatternSet, Sieve, named

NONE: Final[AbstractSet[str]] = frozenset()
NOTHING_OWN: Final = OwnConfig()  # but the names that every daemon has

_BARE: Final = frozenset(word.pattern for word in default_patterns.BARE_WORDS)


class ConfidenceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How sure an agent must be, by risk; for GUI types the gate has a threshold of its own."""

    required_for: tuple[Risk, ...] = ()
    low: Share = 0.5
    medium: Share = 0.7
    high: Share = 0.9
    default: Share = 0.7  # for unknown types


class GateConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    blocklist_patterns: tuple[AnyPattern, ...] = default_patterns.BLOCKLIST
    irreversible_patterns: tuple[AnyPattern, ...] = default_patterns.IRREVERSIBLE
    confidence_threshold: Share = 0.7
    loop_threshold: Annotated[int, Meta(ge=1)] = 3
    loop_counts: LoopCounts = "repeats"
    credential_patterns: tuple[AnyPattern, ...] = default_patterns.CREDENTIALS
    credential_allowlist: tuple[AnyPattern, ...] = ()
    expected_app: str | None = None
    expected_window_pattern: str | None = None
    shell_patterns: tuple[AnyPattern, ...] = default_patterns.SHELL


def problems(config: GateConfig | ProjectGate) -> list[tuple[str, str]]:
    """Return the key of everything that cannot be used, as `blocklist_patterns[3]`, and why."""
    lists: dict[str, Sequence[AnyPattern] | None] = {
        "blocklist_patterns": config.blocklist_patterns,
        "irreversible_patterns": config.irreversible_patterns,
        "credential_patterns": config.credential_patterns,
        "credential_allowlist": config.credential_allowlist,
        "shell_patterns": config.shell_patterns,
    }
    given = {key: listed for key, listed in lists.items() if listed is not None}
    wrong = [(key + place, why) for key in given for place, why in patterns.problems(given[key])]
    window = config.expected_window_pattern
    expected = patterns.problems((window,) if window else ())
    return wrong + [("expected_window_pattern", why) for _, why in expected]


class Gate(Guard):
    """The guard. It remembers visits of states and nothing else."""

    name = "gate"

    def __init__(
        self,
        config: GateConfig,
        confidence: ConfidenceConfig,
        profile: str,
        projects: Mapping[str, ProjectConfig],
        own: OwnConfig = NOTHING_OWN,
    ) -> None:
        self._own = OwnResources(own, {name: project.root for name, project in projects.items()})
        self._rules = Rules(config, confidence, profile)
        self._projects = {name: _sides(projects[name], self._rules) for name in projects}
        self._loops = Loops(config.loop_counts)
        self.hears = hearing(
            on(Decided, self._decided),
            on(Reported, self._reported),
            on(SessionClosed, self._closed),
            on(Forgotten, self._forgotten),
            on(NameForgotten, lambda event: self._loops.forget(event.agent)),
        )

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        return self._judge(proposed, kind, self._visits(proposed, kind.type))

    def check_again(self, proposed: Proposed, kind: Kind) -> Verdict:
        # Its visit was counted when it was asked about.
        return self._judge(proposed, kind, 0)

    def check_without(
        self, proposed: Proposed, kind: Kind, lifted: AbstractSet[str], *, again: bool
    ) -> Verdict:
        """Return the same as if some rules that block were not there."""
        visits = 0 if again else self._visits(proposed, kind.type)
        return self._judge(proposed, kind, visits, lifted)

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        return self._binding(decided).now(decided, self._visits(decided, decided.type))

    def _decided(self, event: Decided) -> None:
        visit = self._visit(event, event.type)
        if visit and not (event.verdicts and event.stranger):
            self._loops.add(visit)

    def _reported(self, event: Reported) -> None:
        match event.telemetry:
            case EpisodeEnded(episode=episode):
                self._loops.forget(event.agent, episode=episode)
            case SessionEnded(session=session):
                self._loops.forget(event.agent, session=session)

    def _closed(self, event: SessionClosed) -> None:
        self._loops.close(event.agent, event.session)

    def _forgotten(self, event: Forgotten) -> None:
        self._loops.forget(event.agent, session=event.session, episode=event.episode)

    def save(self) -> Callable[[], bytes]:
        return self._loops.save()

    def load(self, saved: bytes) -> None:
        self._loops.load(saved)

    def _judge(
        self, proposed: Proposed, kind: Kind, visits: int, lifted: AbstractSet[str] = NONE
    ) -> Verdict:
        proposal = proposed.proposal
        rules = self._rules if proposal.project is None else self._binding(proposed)
        own = self._own.judge(proposed, kind, lifted)
        if own.decision is BLOCK:
            secret = rules.takes_secret(kind.type, proposal.target)
            return msgspec.structs.replace(own, masks_text=secret)
        verdict = rules.judge(proposal, kind, visits, lifted)
        if own is ALLOWED or verdict is ALLOWED:
            return own if verdict is ALLOWED else verdict
        return merged((own, verdict))

    def _visits(self, event: Proposed | Decided, kind: str) -> int:
        """Return how many visits of its state there are with this one, 0 if it is none."""
        visit = self._visit(event, kind)
        return self._loops.visits_with(visit) if visit else 0

    def _binding(self, event: Proposed | Decided) -> "Rules | Joint":
        project = self._projects.get(event.proposal.project or "")
        return self._rules if project is None else project.of(event.agent)

    def _visit(self, event: Proposed | Decided, kind: str) -> Visit | None:
        proposal = event.proposal
        if proposal.observation is None:
            return None
        # The journal has secrets masked, and a replay must see what was seen live.
        secret = self._binding(event).takes_secret(kind, proposal.target)
        text = masked(proposal.text) if secret else proposal.text
        return visit_of(event.agent, kind, proposal, text)


class Rules:
    """The steps, without memory."""

    def __init__(self, config: GateConfig, confidence: ConfidenceConfig, profile: str) -> None:
        self._config = config
        self._confidence = confidence
        self._profile = profile
        self._coding = profile == "coding"
        block = _softened(config.blocklist_patterns) if self._coding else config.blocklist_patterns
        self._blocklist = Watch("gate.blocklist", "Blocklist: matches", block, Severity.BLOCK)
        self._bare = self._blocklist.rules_of(_BARE)
        self._irreversible = Watch(
            "gate.irreversible", "Irreversible: matches", config.irreversible_patterns
        )
        self._shell = Watch("gate.shell", "Shell command: matches", config.shell_patterns)
        watched = self._blocklist, self._irreversible, self._shell
        self._sieve = Sieve([watch.patterns for watch in watched])
        self._credentials = Watch(
            "gate.credential",
            "Credential: the field matches",
            config.credential_patterns,
            remedy="in a field that does not match",
        )
        self._credential_allowlist = PatternSet(config.credential_allowlist)
        self._expectations = expectations(config.expected_app, config.expected_window_pattern)
        prepare()

    def within(self, own: ProjectSettings) -> "Rules":
        """Return these rules as a project has them; themselves if it has nothing to say."""
        config, confidence = over(self._config, own.gate), over(self._confidence, own.confidence)
        if config is self._config and confidence is self._confidence:
            return self
        return Rules(config, confidence, self._profile)

    def judge(
        self, proposal: Proposal, kind: Kind, visits: int, lifted: AbstractSet[str] = NONE
    ) -> Verdict:
        """Judge a proposal that is the given visit of its state; 0 if it is none that counts.

        Rules of the blocklist that are `lifted` are not looked for.
        """
        said = words(proposal)
        if self._unremarkable(proposal, kind, visits, said):
            return ALLOWED
        secrets = self._secrets(kind.type, proposal.target)
        found = [v for v in self._blocklisted(proposal, kind, said) if v.rule not in lifted]
        if not found or strictest(found).decision is not Severity.BLOCK:
            found += self._looped(visits)
            found += secrets
            found += self._committing(proposal, kind, said)
            for expectation in self._expectations:
                found += expectation.missed(proposal, kind)
            found += self._unsure(proposal, kind)
            found += deceptive(proposal, said)
        return together(found, masks_text=bool(secrets)) if found else ALLOWED

    def _unremarkable(
        self, proposal: Proposal, kind: Kind, visits: int, said: Sequence[str]
    ) -> bool:
        """Say whether no step can match; most proposals are decided by this one look."""
        return (
            visits < self._config.loop_threshold
            and kind.type != "type"
            and not self._expectations
            and not self._unsure(proposal, kind)
            and all(map(str.isascii, said))
            and self._sieve.passes(said)
        )

    def takes_secret(self, kind: str, target: Target | None) -> bool:
        return bool(self._secrets(kind, target))

    def now(self, decided: Decided, visits: int) -> str:
        """Say how confident the agent was and had to be, and which visit this would be."""
        confidence, threshold = decided.proposal.confidence, self.threshold(_kind(decided))
        said = "no confidence given"
        if confidence is not None:
            said = f"confidence {beside(confidence, threshold)}"
        return f"{said}; visit {visits} of {self._config.loop_threshold}" if visits else said

    def threshold(self, kind: Kind) -> float:
        """Return how confident an agent must be to do this kind of thing unasked."""
        if kind.type in GUI:
            return self._config.confidence_threshold
        if not kind.known:
            return self._confidence.default
        if kind.risk == "low":
            return self._confidence.low
        return self._confidence.medium if kind.risk == "medium" else self._confidence.high

    def _blocklisted(self, proposal: Proposal, kind: Kind, said: Sequence[str]) -> list[Verdict]:
        found = self._blocklist.found(said)
        if not found:
            return found
        bare = self._blocklist.found(self._where_bare_words_count(proposal, kind, said))
        return [verdict for verdict in found if verdict.rule not in self._bare or verdict in bare]

    def _where_bare_words_count(
        self, proposal: Proposal, kind: Kind, said: Sequence[str]
    ) -> Sequence[str]:
        if kind.read_only or kind.prose:
            return ()
        return target_words(proposal) if self._is_command(kind) else said

    def _looped(self, visits: int) -> list[Verdict]:
        if visits < self._config.loop_threshold:
            return []
        reason = f"Loop: this is visit {visits} of the same state"
        remedy = "in a new episode"
        if self._config.loop_counts == "repeats":
            reason += ", and nothing new was tried"
            remedy = "after another action that was not tried yet, or in a new episode"
        return [Verdict("gate", Severity.BLOCK, "gate.loop", reason, "loop", remedy=remedy)]

    def _secrets(self, kind: str, target: Target | None) -> list[Verdict]:
        if kind != "type" or target is None:
            return []
        return [
            verdict
            for field in (forms((target.label,)), forms((target.name,)))
            if not self._credential_allowlist.find(field)
            for verdict in self._credentials.found(field)
        ]

    def _committing(self, proposal: Proposal, kind: Kind, said: Sequence[str]) -> list[Verdict]:
        if kind.type == "run_tests":  # which may run anything
            return self._shell.found(text_words(proposal))
        # Typing commits nothing, whatever the field is called; the click that follows does.
        if kind.read_only or kind.type == "type":
            return []
        if not self._is_command(kind):
            return self._irreversible.found(said)
        if proposal.target is None:
            return self._shell.found(said)
        command = self._shell.found(text_words(proposal))
        return command + self._irreversible.found(target_words(proposal))

    def _unsure(self, proposal: Proposal, kind: Kind) -> list[Verdict]:
        if proposal.confidence is None:
            if kind.risk not in self._confidence.required_for:
                return []
            threshold = self.threshold(kind)
            reason = f"Failed: {kind.risk} risk needs a confidence, and none is given"
        else:
            threshold = self.threshold(kind)
            if proposal.confidence >= threshold:
                return []
            reason = compared(proposal.confidence, threshold)
        return [unsure(reason, threshold)]

    def _is_command(self, kind: Kind) -> bool:
        return self._coding and kind.type == "run_shell"


class Joint:
    """Several sets of rules that must all be content."""

    def __init__(self, several: Sequence[Rules]) -> None:
        self._several = several

    def judge(
        self, proposal: Proposal, kind: Kind, visits: int, lifted: AbstractSet[str] = NONE
    ) -> Verdict:
        """Return the strictest verdict, with every rule that matched in any of them."""
        each = (rules.judge(proposal, kind, visits, lifted) for rules in self._several)
        found = [verdict for verdict in each if verdict is not ALLOWED]
        return merged(found) if found else ALLOWED

    def now(self, decided: Decided, visits: int) -> str:
        said = (rules.now(decided, visits) for rules in self._several)
        return "; ".join(dict.fromkeys(said))

    def takes_secret(self, kind: str, target: Target | None) -> bool:
        return any(rules.takes_secret(kind, target) for rules in self._several)


def _sides(project: ProjectConfig, base: Rules) -> Sides[Rules | Joint]:
    return sides(project, base, Rules.within, _joint)


def _joint(several: tuple[Rules, ...]) -> Rules | Joint:
    return Joint(several) if len(several) > 1 else several[0]


def _kind(decided: Decided) -> Kind:
    """Return what was judged; whether its type was known shows in the rules that matched."""
    rules = {rule for verdict in decided.verdicts for rule in (verdict.rule, *verdict.also)}
    return Kind(
        decided.type,
        decided.tier,
        decided.reversibility,
        decided.risk,
        known="classify.unknown_type" not in rules,
    )


def _softened(blocklist: Sequence[AnyPattern]) -> list[AnyPattern]:
    """Let bare words ask, unless the operator said what they mean."""
    return [
        msgspec.structs.replace(known, then=known.then or Severity.ASK)
        if known.pattern in _BARE
        else known
        for known in named(blocklist)
    ]
