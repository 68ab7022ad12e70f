"""The `safetyd grant add` command that would allow a blocked action.

The command is part of the remedy, which only operators see. It is not part of the reason, because
the agent receives the reason and must not see the command that would allow its action.
"""

import re
import shlex
from typing import Final

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.approvals.grants import words
from safetyd.core.events.decision_events import Decided
from safetyd.core.guards.gate.own_config import OWN, REWORDED
from safetyd.core.messages.verdict import BLOCK, Verdict
from safetyd.core.text.patterns import literally

BLOCKLIST: Final = "gate.blocklist:"
DESTROYS: Final = "gate.shell:irreversible"
MAX_CHARS: Final = 200  # maximum length of a pattern; longer ones are unreadable

# Rules that no grant lifts: the guard failed, or the action contacts a person.
_NEVER: Final = frozenset({"classify.failed", "classify.human", "rules.known_contacts"})
_LITERAL: Final = r"(?:[A-Za-z0-9 _\-/=:,@%]|\\[^\w\s]|\\x\{[0-9a-f]+\})+"
_is_exact = re.compile(rf"\^(?:{_LITERAL}|\({_LITERAL}(?:\|{_LITERAL})*\))\$\Z").match


def may_be_named(rule: str) -> bool:
    """Return whether a grant may name a rule.

    It may name `gate.own` and most rules of the blocklist and of classify.
    """
    named = rule.startswith((BLOCKLIST, "classify.", "rules.")) and rule not in _NEVER
    return named or rule == OWN


def is_exact(pattern: str) -> bool:
    """Return whether a pattern matches only its literal text."""
    return _is_exact(pattern) is not None


def worded(verdict: Verdict, decided: Decided, kind: Kind) -> Verdict:
    """Add the grant command to the remedy of a block, if a grant can lift it."""
    if verdict.decision is not BLOCK or kind.human or verdict.guard not in {"classify", "gate"}:
        return verdict
    if not may_be_named(verdict.rule):
        return verdict
    if DESTROYS in verdict.also:  # no grant should cover this
        return verdict
    if verdict.rule == OWN and verdict.remedy != REWORDED:  # a grant lifts only text matches
        return verdict
    also = [rule for rule in verdict.also if rule.startswith(BLOCKLIST)]
    lines = " and ".join(f"`{command(rule, decided)}`" for rule in (verdict.rule, *also))
    either = f"{verdict.remedy}, or " if verdict.remedy else ""
    return msgspec.structs.replace(verdict, remedy=f"{either}after {lines}")


def command(rule: str, decided: Decided) -> str:
    """Return the command that grants this exact action once, with a placeholder for the reason."""
    given = ["safetyd", "grant", "add", "--agent", decided.agent, "--type", decided.type]
    given += ["--rule", rule, "--text", _pattern(decided), "--uses", "1", "--for", "1h"]
    return f"{shlex.join(given)} --reason '...'"


def _pattern(decided: Decided) -> str:
    """Return an ASCII pattern that matches exactly the text of a proposal."""
    if any(verdict.masks_text for verdict in decided.verdicts):
        return "PATTERN"
    said = [literally(word) for word in dict.fromkeys(words(decided.proposal))]
    pattern = f"^{said[0]}$" if len(said) == 1 else f"^({'|'.join(said)})$"
    return pattern if len(pattern) <= MAX_CHARS else "PATTERN"
