"""How a person may permit what is blocked: the `safetyd grant add` that would lift it.

It stands in the remedy of a verdict, which people are shown, and not in its reason: that goes to
the agent, which must not be handed the command that lets it pass.
"""

import re
import shlex
from typing import Final

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.approvals.grants import words
from safetyd.core.events.decision_events import Decided
from safetyd.core.guards.gate.own_resources import OWN, REWORDED
from safetyd.core.messages.verdict import BLOCK, Verdict
from safetyd.core.text.patterns import literally

BLOCKLIST: Final = "gate.blocklist:"
DESTROYS: Final = "gate.shell:irreversible"
MAX_CHARS: Final = 200  # of a pattern; a longer one nobody would read

# A guard that cannot answer, and speaking to people.
_NEVER: Final = frozenset({"classify.failed", "classify.human", "rules.known_contacts"})
_LITERAL: Final = r"(?:[A-Za-z0-9 _\-/=:,@%]|\\[^\w\s]|\\x\{[0-9a-f]+\})+"
_is_exact = re.compile(rf"\^(?:{_LITERAL}|\({_LITERAL}(?:\|{_LITERAL})*\))\$\Z").match


def may_be_named(rule: str) -> bool:
    """Say whether a grant may name a rule: classify's, the gate's blocklist and safetyd's own."""
    named = rule.startswith((BLOCKLIST, "classify.", "rules.")) and rule not in _NEVER
    return named or rule == OWN


def is_exact(pattern: str) -> bool:
    """Say whether a pattern matches the words that stand in it and no others."""
    return _is_exact(pattern) is not None


def worded(verdict: Verdict, decided: Decided, kind: Kind) -> Verdict:
    """Add to the remedy of a block, if it can be lifted, the command that does so."""
    if verdict.decision is not BLOCK or kind.human or verdict.guard not in {"classify", "gate"}:
        return verdict
    if not may_be_named(verdict.rule):
        return verdict
    if DESTROYS in verdict.also:  # no grant should cover it, so none is offered
        return verdict
    if verdict.rule == OWN and verdict.remedy != REWORDED:  # paths and targets are never lifted
        return verdict
    also = [rule for rule in verdict.also if rule.startswith(BLOCKLIST)]
    lines = " and ".join(f"`{command(rule, decided)}`" for rule in (verdict.rule, *also))
    either = f"{verdict.remedy}, or " if verdict.remedy else ""
    return msgspec.structs.replace(verdict, remedy=f"{either}after {lines}")


def command(rule: str, decided: Decided) -> str:
    """Return the command that permits this very action once; its reason is left to be filled in."""
    given = ["safetyd", "grant", "add", "--agent", decided.agent, "--type", decided.type]
    given += ["--rule", rule, "--text", _pattern(decided), "--uses", "1", "--for", "1h"]
    return f"{shlex.join(given)} --reason '...'"


def _pattern(decided: Decided) -> str:
    """Return what matches the words of a proposal and nothing else, in plain ASCII."""
    if any(verdict.masks_text for verdict in decided.verdicts):
        return "PATTERN"
    said = [literally(word) for word in dict.fromkeys(words(decided.proposal))]
    pattern = f"^{said[0]}$" if len(said) == 1 else f"^({'|'.join(said)})$"
    return pattern if len(pattern) <= MAX_CHARS else "PATTERN"
