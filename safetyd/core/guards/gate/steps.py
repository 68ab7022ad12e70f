"""Building blocks of the gate: pattern lists, expected windows, confidence."""

from collections.abc import Callable, Container, Sequence
from typing import Final

import msgspec

from safetyd.core.action_types import GUI, Kind
from safetyd.core.facts.fact_finder import ProposalFacts
from safetyd.core.messages.proposal import Observation, Proposal, Target
from safetyd.core.messages.verdict import Severity, Verdict, together
from safetyd.core.text.folding import deception, forms
from safetyd.core.text.patterns import AnyPattern, PatternSet
from safetyd.core.text.visible_text import quoted

_NO_TARGET: Final = Target()
_NO_OBSERVATION: Final = Observation()
_MOST_DECIMALS: Final = 15
METADATA: Final = "gate.metadata"
MAX_QUOTED: Final = 60  # maximum number of quoted characters of the matched text


class Watch:
    """A list of patterns, each with the verdict for a match."""

    def __init__(
        self,
        rule: str,
        why: str,
        patterns: Sequence[AnyPattern],
        then: Severity = Severity.ASK,
        remedy: str = "with text that does not match {}",
    ) -> None:
        self.patterns = PatternSet(patterns)
        self._terms = rule, why, then, remedy
        self._verdicts = tuple(
            Verdict(
                "gate",
                known.then or then,
                f"{rule}:{known.name}",
                f"{why} matches {known.pattern}",
                remedy=remedy.format(known.pattern),
            )
            for known in self.patterns.patterns
        )

    def found(self, words: Sequence[str], *, secret: bool = False) -> list[Verdict]:
        """Return the verdict of each matching pattern. A `secret` is not quoted."""
        numbers = self.patterns.find(words)
        return [self._verdicts[n] if secret else self._quoting(n, words) for n in numbers]

    def rules(self, words: Sequence[str]) -> set[str]:
        """Return the rules of the patterns that match."""
        return {self._verdicts[number].rule for number in self.patterns.find(words)}

    def only(self, patterns: Container[str]) -> "Watch":
        """Return a watch for a subset of these patterns."""
        rule, why, then, remedy = self._terms
        kept = [known for known in self.patterns.patterns if known.pattern in patterns]
        return Watch(rule, why, kept, then, remedy)

    def _quoting(self, number: int, words: Sequence[str]) -> Verdict:
        said = quoted(self.patterns.matched(number, words).strip(), MAX_QUOTED)
        reason = f"{self._terms[1]} contains {said}"
        return msgspec.structs.replace(self._verdicts[number], reason=reason)

    def rules_but(self, patterns: Container[str]) -> frozenset[str]:
        both = zip(self.patterns.patterns, self._verdicts, strict=True)
        return frozenset(verdict.rule for known, verdict in both if known.pattern not in patterns)


class Expectation:
    """The app or window in which an agent must act. GUI actions must state theirs."""

    def __init__(
        self, what: str, given: Callable[[Proposal], list[str]], holds: Callable[[str], bool]
    ) -> None:
        self._what = what
        self._given = given
        self._holds = holds

    def missed(self, proposal: Proposal, kind: Kind) -> list[Verdict]:
        given = self._given(proposal)
        wrong = [place for place in given if not self._holds(place)]
        if not wrong and (given or kind.type not in GUI):
            return []
        found = (
            f"found {quoted(wrong[0])}" if wrong else "but the proposal does not say where it acts"
        )
        reason = f"Wrong window: expected {self._what}, {found}"
        remedy = f"with target and observation in {self._what}"
        return [Verdict("gate", Severity.ASK, "gate.window", reason, remedy=remedy)]


def expectations(app: str | None, window_pattern: str | None) -> tuple[Expectation, ...]:
    """Return the expectations. An argument that is None or empty adds none."""
    expected = []
    if app:
        expected.append(Expectation(f"app {quoted(app)}", _apps, _equals(app)))
    if window_pattern:
        titles = PatternSet((window_pattern,))
        expected.append(
            Expectation(
                f"a window titled like {window_pattern}",
                _windows,
                lambda title: bool(titles.find((title,))),
            )
        )
    return tuple(expected)


def words(proposal: Proposal) -> tuple[str, ...]:
    """Return the text and the target's label and name, raw and folded."""
    text = proposal.text
    if proposal.target is None and text.isascii() and text.isprintable():
        return (text,)
    return forms(_fields(proposal))


def text_words(proposal: Proposal) -> tuple[str, ...]:
    return forms(_fields(proposal)[:1])


def target_words(proposal: Proposal) -> tuple[str, ...]:
    return forms(_fields(proposal)[1:])


def deceptive(proposal: Proposal, said: Sequence[str]) -> list[Verdict]:
    if all(map(str.isascii, said)):
        return []
    why = next(filter(None, map(deception, _fields(proposal))), "")
    if not why:
        return []
    reason = f"Suspicious Unicode: {why}"
    remedy = "with letters of one alphabet in each word"
    if why.startswith("U+"):
        remedy = f"without the character {why.partition(' ')[0]} or others like it"
    return [Verdict("gate", Severity.ASK, "gate.suspicious_unicode", reason, remedy=remedy)]


def credential_services(facts: ProposalFacts) -> list[Verdict]:
    """Return a verdict if an action reads from the metadata service of a cloud."""
    address = next((found for found in facts.addresses if found.is_metadata), None)
    if address is None:
        return []
    reason = (
        f"{quoted(address.text)} is a metadata service of the cloud, which hands out credentials"
    )
    return [Verdict("gate", Severity.ASK, METADATA, reason, remedy="with another address")]


def unsure(reason: str, threshold: float) -> Verdict:
    remedy = f"with confidence >= {threshold}"
    return Verdict("gate", Severity.ASK, "gate.confidence", reason, "low_confidence", remedy=remedy)


def compared(confidence: float, threshold: float) -> str:
    """Compare a confidence with the required one, in the words that `explain` prints."""
    given, needed = percentages(confidence, threshold)
    if confidence >= threshold:
        return f"Passed: {given}% >= {needed}%"
    return f"Failed: {given}% < {needed}% (escalate to human)"


def percentages(confidence: float, threshold: float) -> tuple[str, str]:
    """Format both numbers with enough decimals to show which is larger."""
    for decimals in range(_MOST_DECIMALS):
        given, needed = f"{confidence * 100:.{decimals}f}", f"{threshold * 100:.{decimals}f}"
        if given != needed or confidence == threshold:
            break
    return given, needed


def merged(found: Sequence[Verdict]) -> Verdict:
    """Return the strictest verdict, with all rules that matched."""
    one = together(found, masks_text=any(verdict.masks_text for verdict in found))
    matched = dict.fromkeys(rule for verdict in found for rule in (verdict.rule, *verdict.also))
    return msgspec.structs.replace(one, also=tuple(r for r in matched if r != one.rule))


def _fields(proposal: Proposal) -> tuple[str, str, str]:
    target = proposal.target or _NO_TARGET
    return proposal.text, target.label, target.name


def _apps(proposal: Proposal) -> list[str]:
    target, seen = proposal.target or _NO_TARGET, proposal.observation or _NO_OBSERVATION
    return list(filter(None, (target.app, seen.app_name)))


def _windows(proposal: Proposal) -> list[str]:
    target, seen = proposal.target or _NO_TARGET, proposal.observation or _NO_OBSERVATION
    return list(filter(None, (target.window, seen.window_title)))


def _equals(app: str) -> Callable[[str], bool]:
    return lambda other: other.casefold() == app.casefold()
