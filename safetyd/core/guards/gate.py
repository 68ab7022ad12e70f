"""The gate: what a proposal says, where it acts, and whether it gets anywhere.

The steps, in order: blocklist, loop, credential, irreversible, window, confidence, and tricks of
Unicode. The strictest decides, of equals the first; all that matched are listed. A match of the
blocklist that blocks ends the looking. Rules for text can be evaded.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from safetyd.core import patterns
from safetyd.core.events import Decided, Event, Forgotten, Proposed, Reported
from safetyd.core.guards import shipped
from safetyd.core.guards.loops import LoopCounts, Loops, Visit, visit_of
from safetyd.core.guards.steps import (
    Watch,
    compared,
    deceptive,
    expectations,
    target_words,
    text_words,
    together,
    words,
)
from safetyd.core.kinds import GUI, Kind
from safetyd.core.patterns import AnyPattern, PatternSet, Sieve, named
from safetyd.core.proposal import Proposal, Risk, Target
from safetyd.core.telemetry import EpisodeEnded, SessionEnded
from safetyd.core.text import forms, masked, prepare
from safetyd.core.verdict import ALLOWED, Severity, Verdict, strictest

Share = Annotated[float, Meta(ge=0, le=1)]

_BARE: Final = frozenset(word.pattern for word in shipped.BARE_WORDS)


class ConfidenceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How sure an agent must be, by risk; for GUI types the gate has a threshold of its own."""

    required_for: tuple[Risk, ...] = ()
    low: Share = 0.5
    medium: Share = 0.7
    high: Share = 0.9
    default: Share = 0.7  # for unknown types


class GateConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    blocklist_patterns: tuple[AnyPattern, ...] = shipped.BLOCKLIST
    irreversible_patterns: tuple[AnyPattern, ...] = shipped.IRREVERSIBLE
    confidence_threshold: Share = 0.7
    loop_threshold: Annotated[int, Meta(ge=1)] = 3
    loop_counts: LoopCounts = "repeats"
    credential_patterns: tuple[AnyPattern, ...] = shipped.CREDENTIALS
    credential_allowlist: tuple[AnyPattern, ...] = ()
    expected_app: str | None = None
    expected_window_pattern: str | None = None
    shell_patterns: tuple[AnyPattern, ...] = shipped.SHELL


def problems(config: GateConfig) -> list[tuple[str, str]]:
    """Return the key of everything that cannot be used, as `blocklist_patterns[3]`, and why."""
    lists: dict[str, Sequence[AnyPattern]] = {
        "blocklist_patterns": config.blocklist_patterns,
        "irreversible_patterns": config.irreversible_patterns,
        "credential_patterns": config.credential_patterns,
        "credential_allowlist": config.credential_allowlist,
        "shell_patterns": config.shell_patterns,
    }
    wrong = [(key + place, why) for key in lists for place, why in patterns.problems(lists[key])]
    window = config.expected_window_pattern
    expected = patterns.problems((window,) if window else ())
    return wrong + [("expected_window_pattern", why) for _, why in expected]


class Gate:
    """The guard. It remembers visits of states and nothing else."""

    name = "gate"
    hears: tuple[type[Event], ...] = (Decided, Reported, Forgotten)

    def __init__(self, config: GateConfig, confidence: ConfidenceConfig, profile: str) -> None:
        self._rules = Rules(config, confidence, profile)
        self._loops = Loops(config.loop_counts)

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        visit = self._visit(proposed.agent, kind.type, proposed.proposal)
        visits = self._loops.visits_with(visit) if visit else 0
        return self._rules.judge(proposed.proposal, kind, visits)

    def observe(self, event: Event) -> Sequence[Event]:
        match event:
            case Decided(first=True):
                if visit := self._visit(event.agent, event.type, event.proposal):
                    self._loops.add(visit)
            case Reported(telemetry=EpisodeEnded(episode=episode)):
                self._loops.forget(event.agent, episode=episode)
            case Reported(telemetry=SessionEnded(session=session)):
                self._loops.forget(event.agent, session=session)
            case Forgotten():
                self._loops.forget(event.agent, session=event.session, episode=event.episode)
        return ()

    def save(self) -> Callable[[], bytes]:
        return self._loops.save()

    def load(self, saved: bytes) -> None:
        self._loops.load(saved)

    def _visit(self, agent: str, kind: str, proposal: Proposal) -> Visit | None:
        if proposal.observation is None:
            return None
        # The journal has secrets masked, and a replay must see what was seen live.
        secret = self._rules.takes_secret(kind, proposal.target)
        return visit_of(agent, kind, proposal, masked(proposal.text) if secret else proposal.text)


class Rules:
    """The steps, without memory."""

    def __init__(self, config: GateConfig, confidence: ConfidenceConfig, profile: str) -> None:
        self._config = config
        self._confidence = confidence
        self._coding = profile == "coding"
        block = _softened(config.blocklist_patterns) if self._coding else config.blocklist_patterns
        self._blocklist = Watch("gate.blocklist", "Blocklist: matches", block, Severity.BLOCK)
        self._bare = self._blocklist.rules_of(_BARE)
        self._irreversible = Watch(
            "gate.irreversible", "Irreversible: matches", config.irreversible_patterns
        )
        self._shell = Watch("gate.shell", "Shell command: matches", config.shell_patterns)
        watched = [self._blocklist.patterns, self._irreversible.patterns]
        self._sieve = Sieve([*watched, self._shell.patterns] if self._coding else watched)
        self._credentials = Watch(
            "gate.credential", "Credential: the field matches", config.credential_patterns
        )
        self._credential_allowlist = PatternSet(config.credential_allowlist)
        self._expectations = expectations(config.expected_app, config.expected_window_pattern)
        prepare()

    def judge(self, proposal: Proposal, kind: Kind, visits: int) -> Verdict:
        """Judge a proposal that is the given visit of its state; 0 if it is none that counts."""
        said = words(proposal)
        if self._unremarkable(proposal, kind, visits, said):
            return ALLOWED
        secrets = self._secrets(kind.type, proposal.target)
        found = self._blocklisted(proposal, kind, said)
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
        if self._config.loop_counts == "repeats":
            reason += ", and nothing new was tried"
        return [Verdict("gate", Severity.BLOCK, "gate.loop", reason, "loop")]

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
            reason = f"Failed: {kind.risk} risk needs a confidence, and none is given"
        else:
            threshold = self.threshold(kind)
            if proposal.confidence >= threshold:
                return []
            reason = compared(proposal.confidence, threshold)
        return [Verdict("gate", Severity.ASK, "gate.confidence", reason, "low_confidence")]

    def _is_command(self, kind: Kind) -> bool:
        return self._coding and kind.type == "run_shell"


def _softened(blocklist: Sequence[AnyPattern]) -> list[AnyPattern]:
    """Let bare words ask, unless the operator said what they mean."""
    return [
        msgspec.structs.replace(known, then=known.then or Severity.ASK)
        if known.pattern in _BARE
        else known
        for known in named(blocklist)
    ]
