"""Risk and reversibility in words."""

from collections.abc import Iterable
from typing import Final

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
