"""The steps of the gate, without state."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from safetyd.core.action_types import GUI, Kind
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.facts.fact_finder import ProposalFacts
from safetyd.core.guards.gate import default_patterns
from safetyd.core.guards.gate.button_patterns import BUTTONS, CLICKS
from safetyd.core.guards.gate.command_rules import CommandRules
from safetyd.core.guards.gate.gate_config import ConfidenceConfig, GateConfig
from safetyd.core.guards.gate.steps import (
    Watch,
    compared,
    credential_services,
    deceptive,
    expectations,
    merged,
    percentages,
    target_words,
    text_words,
    unsure,
    words,
)
from safetyd.core.guards.projects import ProjectSettings, over
from safetyd.core.messages.proposal import Proposal, Target
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict, strictest, together
from safetyd.core.shell.reading import Effect, Finding
from safetyd.core.text.folding import forms, prepare
from safetyd.core.text.patterns import AnyPattern, PatternSet, Sieve, named

NONE: Final[AbstractSet[str]] = frozenset()
_BUTTONS: Final = Watch(
    "gate.irreversible", "Looks irreversible: the text", BUTTONS, remedy="with another button"
)
_COMPOUND: Final = re.compile(r"(?<!\S)--?\w+(?:-\w+)+")
_BARE: Final = frozenset(word.pattern for word in default_patterns.BARE_WORDS)
_SHIPPED: Final = frozenset(
    known.pattern
    for known in (
        *default_patterns.BLOCKLIST,
        *default_patterns.IRREVERSIBLE,
        *default_patterns.SHELL,
    )
)


class Rules:
    """The steps for one set of settings."""

    def __init__(
        self,
        config: GateConfig,
        confidence: ConfidenceConfig,
        profile: str,
        commands: CommandRules | None = None,
    ) -> None:
        self._config = config
        self._commands = commands
        self._confidence = confidence
        self._profile = profile
        self._coding = profile == "coding"
        block = _softened(config.blocklist_patterns) if self._coding else config.blocklist_patterns
        self._blocklist = Watch(
            "gate.blocklist", "On the blocklist: the text", block, Severity.BLOCK
        )
        self._elsewhere = self._blocklist.rules_but(_BARE)  # searched for everywhere
        self._irreversible = Watch(
            "gate.irreversible", "Looks irreversible: the text", config.irreversible_patterns
        )
        self._shell = Watch("gate.shell", "Command needs approval: the text", config.shell_patterns)
        watched = self._blocklist, self._irreversible, self._shell
        self._sieve = Sieve([watch.patterns for watch in watched])
        # Patterns that the operator added are also searched for in the raw text of commands.
        self._own_blocklist = self._blocklist.only(_added(config.blocklist_patterns))
        self._own_irreversible = self._irreversible.only(_added(config.irreversible_patterns))
        self._own_shell = self._shell.only(_added(config.shell_patterns))
        own = self._own_blocklist, self._own_irreversible, self._own_shell
        self._own_sieve = Sieve([watch.patterns for watch in own])
        self._credentials = Watch(
            "gate.credential",
            "Looks like a credential field: the label",
            config.credential_patterns,
            remedy="in a field that does not match {}",
        )
        self._credential_allowlist = PatternSet(config.credential_allowlist)
        self._expectations = expectations(config.expected_app, config.expected_window_pattern)
        prepare()

    def within(self, own: ProjectSettings) -> "Rules":
        """Return these rules with a project's settings. Return `self` if it has none."""
        config, confidence = over(self._config, own.gate), over(self._confidence, own.confidence)
        commands = None if self._commands is None else self._commands.within(own.rules)
        same = config is self._config and confidence is self._confidence
        if same and commands is self._commands:
            return self
        return Rules(config, confidence, self._profile, commands)

    def judge(
        self,
        proposed: Proposed,
        facts: ProposalFacts,
        visits: int,
        lifted: AbstractSet[str] = NONE,
    ) -> Verdict:
        """Judge a proposal. `visits` is the number of visits to its state, or 0 if not counted.

        `lifted` rules of the blocklist and of commands are skipped.
        """
        proposal, kind = proposed.proposal, facts.kind
        said = words(proposal)
        commands = self._commands
        read: list[Verdict] | None = None
        # If the field is for a secret, no reason may quote the text.
        secrets = self._secrets(kind.type, proposal.target)
        if commands is not None and not secrets and facts.findings is not None:
            read = commands.judge(proposed, facts.findings, lifted)
        if not read and self._unremarkable(facts, visits, said, read=read is not None):
            return ALLOWED
        found = self._blocklisted(facts, said, read=read is not None)
        found = [v for v in found if v.rule not in lifted] + (read or [])
        if not found or strictest(found).decision is not Severity.BLOCK:
            found += self._looped(visits)
            found += secrets
            found += self._committing(proposal, kind, said, read=read is not None)
            for expectation in self._expectations:
                found += expectation.missed(proposal, kind)
            found += self._unsure(proposal, kind)
            found += credential_services(facts)
            found += deceptive(proposal, said)
        return together(found, masks_text=bool(secrets)) if found else ALLOWED

    def _unremarkable(
        self, facts: ProposalFacts, visits: int, said: Sequence[str], *, read: bool
    ) -> bool:
        """Return whether no step can match (fast path for most proposals)."""
        proposal, kind = facts.proposal, facts.kind
        sieve = self._own_sieve if read and not proposal.target and self._coding else self._sieve
        return (
            visits < self._config.loop_threshold
            and kind.type != "type"
            and (kind.type not in CLICKS or not _BUTTONS.found(said))
            and not self._expectations
            and not self._unsure(proposal, kind)
            and not (facts.addresses and credential_services(facts))
            and all(map(str.isascii, said))
            and sieve.passes(said)
        )

    def takes_secret(self, kind: str, target: Target | None) -> bool:
        return bool(self._secrets(kind, target))

    def now(self, decided: Decided, visits: int) -> str:
        """Return the given and required confidence, and the number of visits, in words."""
        confidence, threshold = decided.proposal.confidence, self.threshold(_kind(decided))
        said = "no confidence given"
        if confidence is not None:
            said = compared(confidence, threshold)
        return f"{said}; visit {visits} of {self._config.loop_threshold}" if visits else said

    def threshold(self, kind: Kind) -> float:
        """Return the confidence that this kind of action requires."""
        if kind.type in GUI:
            return self._config.confidence_threshold
        if not kind.known:
            return self._confidence.default
        if kind.risk == "low":
            return self._confidence.low
        return self._confidence.medium if kind.risk == "medium" else self._confidence.high

    def _blocklisted(
        self, facts: ProposalFacts, said: Sequence[str], *, read: bool
    ) -> list[Verdict]:
        proposal, kind = facts.proposal, facts.kind
        if read:
            return self._blocklisted_in_command(proposal, facts.findings or ())
        # Typed text may be a secret.
        found = self._blocklist.found(said, secret=kind.type == "type")
        if not found:
            return found
        bare = self._blocklist.rules(self._where_bare_words_count(proposal, kind, said))
        counting = bare | self._elsewhere
        return [verdict for verdict in found if verdict.rule in counting]

    def _blocklisted_in_command(
        self, proposal: Proposal, findings: Sequence[Finding]
    ) -> list[Verdict]:
        """Search the acting parts of a command, and all of it for the operator's patterns."""
        found = self._own_blocklist.found(text_words(proposal))
        if proposal.target is not None:
            found += self._blocklist.found(target_words(proposal))
        if not self._coding:
            acting = [
                _without_compounds(finding.said)
                for finding in findings
                if finding.effect is not Effect.READ
            ]
            found += self._blocklist.found(tuple(dict.fromkeys(acting)))
        return list({verdict.rule: verdict for verdict in reversed(found)}.values())[::-1]

    def _where_bare_words_count(
        self, proposal: Proposal, kind: Kind, said: Sequence[str]
    ) -> Sequence[str]:
        if kind.read_only or kind.prose:
            return ()
        return said if kind.acts and not self._is_command(kind) else target_words(proposal)

    def _looped(self, visits: int) -> list[Verdict]:
        if visits < self._config.loop_threshold:
            return []
        reason = f"Loop detected: this is visit {visits} to the same state"
        remedy = "in a new episode"
        if self._config.loop_counts == "repeats":
            reason += ", and nothing new was tried"
            remedy = "after an action that has not been tried yet, or in a new episode"
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

    def _committing(
        self, proposal: Proposal, kind: Kind, said: Sequence[str], *, read: bool
    ) -> list[Verdict]:
        if read:
            text = text_words(proposal)
            command = self._own_irreversible.found(text) + self._own_shell.found(text)
            return command + self._irreversible.found(target_words(proposal))
        if kind.type == "run_tests":  # tests may run anything
            return self._shell.found(text_words(proposal))
        # Typing has no lasting effect. The click that follows has.
        if kind.read_only or kind.type == "type":
            return []
        if not self._is_command(kind):
            # Text that is only stored, or sent to a model, has no lasting effect.
            stored = not kind.acts and not kind.prose
            found = self._irreversible.found(target_words(proposal) if stored else said)
            return found + _BUTTONS.found(said) if kind.type in CLICKS else found
        if proposal.target is None:
            return self._shell.found(said)
        command = self._shell.found(text_words(proposal))
        return command + self._irreversible.found(target_words(proposal))

    def _unsure(self, proposal: Proposal, kind: Kind) -> list[Verdict]:
        if proposal.confidence is None:
            if kind.risk not in self._confidence.required_for:
                return []
            threshold = self.threshold(kind)
            reason = f"A {kind.risk}-risk action must state its confidence, and this one does not"
        else:
            threshold = self.threshold(kind)
            if proposal.confidence >= threshold:
                return []
            given, needed = percentages(proposal.confidence, threshold)
            reason = f"Confidence {given} % is below the required {needed} %"
        return [unsure(reason, threshold)]

    def _is_command(self, kind: Kind) -> bool:
        return self._coding and kind.type == "run_shell"


class Joint:
    """Several sets of rules, all of which apply."""

    def __init__(self, several: Sequence[Rules]) -> None:
        self._several = several

    def judge(
        self,
        proposed: Proposed,
        facts: ProposalFacts,
        visits: int,
        lifted: AbstractSet[str] = NONE,
    ) -> Verdict:
        """Return the strictest verdict, with the rules that matched in any set."""
        each = (rules.judge(proposed, facts, visits, lifted) for rules in self._several)
        found = [verdict for verdict in each if verdict is not ALLOWED]
        return merged(found) if found else ALLOWED

    def now(self, decided: Decided, visits: int) -> str:
        said = (rules.now(decided, visits) for rules in self._several)
        return "; ".join(dict.fromkeys(said))

    def takes_secret(self, kind: str, target: Target | None) -> bool:
        return any(rules.takes_secret(kind, target) for rules in self._several)


def _kind(decided: Decided) -> Kind:
    """Return the kind that was judged. Its type was unknown if `classify.unknown_type` matched."""
    rules = {rule for verdict in decided.verdicts for rule in (verdict.rule, *verdict.also)}
    return Kind(
        decided.type,
        decided.tier,
        decided.reversibility,
        decided.risk,
        known="classify.unknown_type" not in rules,
    )


def _without_compounds(command: str) -> str:
    """Return a command without options such as `--delete-emptydir-data`."""
    return _COMPOUND.sub(" ", command)


def _added(listed: Sequence[AnyPattern]) -> frozenset[str]:
    """Return the patterns that are not defaults."""
    return frozenset(known.pattern for known in named(listed)) - _SHIPPED


def _softened(blocklist: Sequence[AnyPattern]) -> list[AnyPattern]:
    """Let patterns of single words require approval instead of blocking.

    A decision that the operator configured stays.
    """
    return [
        msgspec.structs.replace(known, then=known.then or Severity.ASK)
        if known.pattern in _BARE
        else known
        for known in named(blocklist)
    ]
