"""Risk and reversibility in words."""

from collections.abc import Iterable
from typing import Final

IRREVERSIBLE: Final = "gate.irreversible"  # prefix of the rules that find an action irreversible


def stricter(reversibility: str, rules: Iterable[str]) -> str:
    """Return a reversibility; a rule that finds the action irreversible overrides its type."""
    found = any(rule.startswith(IRREVERSIBLE) for rule in rules)
    return "irreversible" if found else reversibility


def undone(reversibility: str) -> str:
    """Return in words whether something can be undone."""
    if reversibility == "unknown":
        return "nobody knows whether it can be undone"
    return reversibility.replace("_", " ")


def danger_by(risk: str, reversibility: str, rules: Iterable[str]) -> str:
    """Return risk and reversibility in one line, and whether only a rule says so."""
    found = stricter(reversibility, rules)
    said = ", ".join(filter(None, (risk, undone(found))))
    if found == reversibility:
        return said
    known = reversibility != "unknown"
    return f"{said} (a rule says so{f'; its type is {undone(reversibility)}' * known})"
