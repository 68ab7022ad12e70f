"""Verdicts of guards, and functions that combine them."""

import enum
import math
import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

TENTHS_UNTIL_S: Final = 9.9


Cause = Literal[
    "policy",
    "prohibited",
    "rate_limit",
    "cooldown",
    "iteration_limit",
    "budget",
    "breaker_open",
    "loop",
    "anomaly",
    "safe_mode",
    "stopped",
    "paused",
    "disabled",
    "mode_violation",
    "low_confidence",
    "low_score",
    "human_approved",
    "human_denied",
    "expired_no_response",
    "undeliverable",
    "unreachable",
    "cancelled",
    "superseded",
    "conflict",
    "malformed",
    "guard_error",
    "unavailable",
]


class Severity(enum.StrEnum):
    """The possible decisions of a verdict, from the least to the most restrictive."""

    ALLOW = "allow"
    ASK = "require_confirmation"
    BLOCK = "block"

    __hash__ = str.__hash__  # the default `__hash__` of Enum is many times slower

    @property
    def rank(self) -> int:
        return _RANK[self]


# Constants, because looking up an Enum member is slow and every decision needs them.
ALLOW: Final = Severity.ALLOW


ASK: Final = Severity.ASK


BLOCK: Final = Severity.BLOCK


_is_wait = re.compile(r"after ([\d.]+) s\Z").match


_RANK = {severity: rank for rank, severity in enumerate(Severity)}


class CommandPart(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A part of a command that is not allowed, and its position in the text."""

    effect: str
    program: str  # The program with its subcommand.
    why: str
    shown: str
    start: int  # Where the part begins, in bytes.
    end: int  # Where the part ends, in bytes.
    way: tuple[str, ...] = ()  # The enclosing constructs, outermost first.


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One guard's verdict on one proposal."""

    guard: str
    decision: Severity
    rule: str  # A stable id, such as "gate.blocklist:rm_rf".
    reason: str  # The reason, in one sentence.
    cause: Cause = "policy"
    also: tuple[str, ...] = ()  # Other rules of this guard that matched.
    retry_after_s: float | None = None
    limit_id: str | None = None
    masks_text: bool = False  # True: the text is a secret and must not be stored.
    remedy: str = ""  # Completes the sentence "The action is allowed ...".
    parts: tuple[CommandPart, ...] = ()  # Parts of a command, the strictest first.


ALLOWED = Verdict("", Severity.ALLOW, "", "All safety checks passed")


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the strictest verdict. If several are equally strict, return the first."""
    return max(verdicts, key=lambda verdict: verdict.decision.rank, default=ALLOWED)


def after(wait_s: float) -> str:
    """Return a remedy such as "after 12 s", rounded up so that a retry is never too early."""
    return f"after {seconds(wait_s)}"


def seconds(wait_s: float) -> str:
    """Format a wait in seconds, rounded up; below ten seconds with one decimal."""
    if wait_s > TENTHS_UNTIL_S:
        return f"{math.ceil(wait_s)} s"
    return f"{math.ceil(wait_s * 10) / 10:.1f} s"


def all_of(remedies: Iterable[str]) -> str:
    """Join remedies that are all needed. Return an empty string if one of them is unknown."""
    each = tuple(dict.fromkeys(remedies))
    waits = {remedy: float(wait[1]) for remedy in each if (wait := _is_wait(remedy))}
    # The longest wait covers the shorter ones.
    longest_s = max(waits.values(), default=0.0)
    kept = [remedy for remedy in each if waits.get(remedy, longest_s) >= longest_s]
    return "; and ".join(kept) if all(kept) else ""


def together(found: Sequence[Verdict], *, masks_text: bool) -> Verdict:
    """Return the strictest verdict, with the rules, remedies and parts of all verdicts."""
    first = strictest(found)
    also = tuple(dict.fromkeys(v.rule for v in found if v.rule != first.rule))
    if len(found) == 1 and not masks_text:
        return first
    remedy = all_of(verdict.remedy for verdict in found)
    parts = tuple(part for verdict in found for part in verdict.parts)
    return msgspec.structs.replace(
        first, also=also, masks_text=masks_text, remedy=remedy, parts=parts
    )
