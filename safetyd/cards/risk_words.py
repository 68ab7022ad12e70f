"""Risk, reversibility and rules in words."""

from collections.abc import Iterable
from typing import Final

from safetyd.core.messages.verdict import Verdict

# The prefixes of the gravest rules and of the least grave, the gravest first.
_GRAVEST: Final = ("gate.credential", "gate.irreversible", "classify.high", "gate.own")
# Rules that are often found together with others.
_KNOWN: Final = {
    "gate.blocklist": "on the blocklist",
    "gate.confidence": "the agent's confidence is too low",
    "gate.credential": "the field may hold a credential",
    "gate.irreversible": "looks irreversible",
    "gate.shell": "a part of the command needs approval",
    "scores.autonomy": "the score for acting without approval is too low",
    "scores.average": "the average score is too low",
    "scores.critical": "one of the scores is too low",
}
_LEAST: Final = ("budget.", "scores.", "gate.confidence", "human.")

IRREVERSIBLE: Final = "gate.irreversible"  # prefix of rules that find an action irreversible


def stricter(reversibility: str, rules: Iterable[str]) -> str:
    """Return the reversibility. A rule that finds the action irreversible takes precedence."""
    found = any(rule.startswith(IRREVERSIBLE) for rule in rules)
    return "irreversible" if found else reversibility


def undone(reversibility: str) -> str:
    """Return a reversibility in words."""
    if reversibility == "unknown":
        return "reversibility unknown"
    return reversibility.replace("_", " ")


def danger_by(risk: str, reversibility: str, rules: Iterable[str]) -> str:
    """Return risk and reversibility in one line, and whether a rule set the reversibility."""
    found = stricter(reversibility, rules)
    said = ", ".join(filter(None, (risk, undone(found))))
    if found == reversibility:
        return said
    known = reversibility != "unknown"
    return f"{said} (by a rule{f'; the type is {undone(reversibility)}' * known})"


def by_gravity(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the verdicts, the gravest first."""
    return sorted(verdicts, key=lambda verdict: (-verdict.decision.rank, _gravity(verdict.rule)))


def _gravity(rule: str) -> int:
    for at, prefix in enumerate(_GRAVEST, -len(_GRAVEST)):
        if rule.startswith(prefix):
            return at
    return int(rule.startswith(_LEAST))


def rule_words(rule: str) -> str:
    """Return a rule in words, such as `looks irreversible: submit`."""
    name, colon, detail = rule.partition(":")
    known = _KNOWN.get(name) or name.partition(".")[2].replace("_", " ") or name
    return f"{known}{f': {detail}' if colon else ''}"
