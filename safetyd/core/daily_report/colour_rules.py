"""The rules that decide the status of a day, the most important first.

Each rule gives a reason and the next step. One RED rule makes a day RED; otherwise one YELLOW rule
makes it YELLOW. A day without a record is UNKNOWN.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.core.daily_report.day_numbers import DayNumbers, Hold, LastHolds, times
from safetyd.core.messages.money import dollars
from safetyd.core.text.time_words import duration

Colour = Literal["GREEN", "YELLOW", "RED", "UNKNOWN"]

MAX_ERRORS: Final = 0.05
ENOUGH_OUTCOMES: Final = 20  # with fewer outcomes, a single error would be a high rate
NEARLY_GONE: Final = 0.8
SHOWN_NAMES: Final = 5
HOUR_S: Final = 3600
ALONE_S: Final = 24 * HOUR_S
OLD_S: Final = 24 * HOUR_S  # the age from which a pending request is old
_DAY: Final = "day"  # the scope of the budget that all agents share


class DayFacts(NamedTuple):
    """The input of the rules: the numbers of the day, and an error in the audit files, if any."""

    numbers: DayNumbers
    broken: str = ""


class RuleFound(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that applies, with the reason and the next step."""

    rule: str
    colour: Colour
    says: str
    todo: str


class ColourRule(NamedTuple):
    """A rule for the status of a day.

    `says` returns the reason why the rule applies, or an empty string. `then` returns text to
    append to `todo`.
    """

    name: str
    colour: Colour
    says: Callable[[DayFacts], str]
    todo: str
    then: Callable[[DayFacts], str] = lambda _facts: ""


def judge(facts: DayFacts) -> tuple[RuleFound, ...]:
    """Return the rules that apply, the most serious first."""
    return tuple(
        RuleFound(
            rule=rule.name, colour=rule.colour, says=says, todo=f"{rule.todo}{rule.then(facts)}"
        )
        for rule in RULES
        if (says := rule.says(facts))
    )


def colour_of(found: tuple[RuleFound, ...]) -> Colour:
    return found[0].colour if found else "GREEN"


def first_of(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - SHOWN_NAMES
    return f"{', '.join(names[:SHOWN_NAMES])}{f' and {more} more' if more > 0 else ''}"


def _stop(facts: DayFacts) -> str:
    numbers = facts.numbers
    if numbers.stops:
        return (
            f"{_several(numbers.stops, 'emergency stop')}{_last(numbers.last_stops, numbers.stops)}"
        )
    held = numbers.held_by.get("stop", 0)
    return f"a stop was still active and blocked {_several(held, 'proposal')}" if held else ""


def _anomalies(severity: str, facts: DayFacts) -> str:
    found = facts.numbers.anomalies.get(severity, 0)
    if not found:
        return ""
    last = _last(facts.numbers.last_anomalies.get(severity, LastHolds()), found)
    return f"{found} {severity.upper()} {'anomaly' if found == 1 else 'anomalies'}{last}"


def _rollback(facts: DayFacts) -> str:
    numbers = facts.numbers
    total = numbers.rollbacks + numbers.rollbacks_reported + numbers.rollbacks_failed
    if not total:
        return ""
    own = f", {numbers.rollbacks_reported} of them by agents" if numbers.rollbacks_reported else ""
    failed = f", {numbers.rollbacks_failed} of them failed" if numbers.rollbacks_failed else ""
    return f"{_several(total, 'rollback')}{own}{failed}{_last(numbers.last_rollbacks, total)}"


def _budget_gone(facts: DayFacts) -> str:
    use = facts.numbers.budget
    if use.ratio >= 1:
        return f"the day's budget was used up: {dollars(use.spent)} of {dollars(use.limit)}"
    if _DAY in facts.numbers.budgets_gone:
        return "actions were blocked because they exceeded the day's budget"
    return ""


def _budget_near(facts: DayFacts) -> str:
    use = facts.numbers.budget
    if _budget_gone(facts):
        return ""
    if use.ratio > NEARLY_GONE:
        used = f"{use.ratio:.0%} of the day's budget was used"
        return f"{used}: {dollars(use.spent)} of {dollars(use.limit)}"
    if _DAY in facts.numbers.budgets_near:
        return "nearly all of the day's budget was used or reserved"
    return ""


def _untold(facts: DayFacts) -> str:
    untold = facts.numbers.untold
    said = f"{_several(len(untold), 'notification')} reached nobody: {first_of(untold)}"
    return said if untold else ""


def _audit(facts: DayFacts) -> str:
    return f"the audit chain is broken: {facts.broken}" if facts.broken else ""


def _safe_mode(facts: DayFacts) -> str:
    numbers = facts.numbers
    if numbers.safe_modes:
        last = _last(numbers.last_safe_modes, numbers.safe_modes)
        return f"safe mode was entered {times(numbers.safe_modes)}{last}"
    held = numbers.held_by.get("safe_mode", 0)
    return f"safe mode blocked {_several(held, 'proposal')}" if held else ""


def _errors(facts: DayFacts) -> str:
    numbers = facts.numbers
    if numbers.outcomes < ENOUGH_OUTCOMES or numbers.failed <= MAX_ERRORS * numbers.outcomes:
        return ""
    rate = numbers.failed / numbers.outcomes
    return f"{rate:.1%} of actions failed: {numbers.failed} of {numbers.outcomes:,}"


def _alone(facts: DayFacts) -> str:
    alone_s = facts.numbers.without_person.value
    return f"no operator was active for {alone_s // HOUR_S} h" if alone_s > ALONE_S else ""


def _old_requests(facts: DayFacts) -> str:
    oldest_s = facts.numbers.oldest_s.value or 0
    if oldest_s <= OLD_S:
        return ""
    pending = _several(facts.numbers.waiting.value or 0, "pending request")
    return f"{pending}, the oldest for {duration(oldest_s)}"


def _snapshot(facts: DayFacts) -> str:
    missing = facts.numbers.missing_snapshots
    return f"no snapshot for {first_of(missing)}" if missing else ""


def _no_record(facts: DayFacts) -> str:
    return "" if facts.numbers.events else "nothing was recorded"


def _still_stopped(facts: DayFacts) -> str:
    """Return how to end a stop, if one is still active."""
    numbers = facts.numbers
    of_before = not numbers.stops and not numbers.stopped
    if of_before or any(number > 0 for number in numbers.stopped.values()):
        return " When it is safe, run `safetyd resume`."
    return " No stop is active any more."


def _last(last: LastHolds, number: int) -> str:
    """Return the time, author and reason of the last entry."""
    if not last.holds:
        return ""
    said = "; ".join(map(_hold, last.holds))
    return f", the last: {said}" if number > len(last.holds) else f": {said}"


def _hold(hold: Hold) -> str:
    whom = f" {hold.agent}" if hold.agent else ""
    why = f": {hold.reason}" if hold.reason else ""
    return f"{hold.at:%H:%M}{whom} by {hold.by}{why}"


def _several(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


RULES: Final = (
    ColourRule(
        "emergency_stop",
        "RED",
        _stop,
        "List them: `safetyd decisions --events --text EMERGENCY_`.",
        _still_stopped,
    ),
    ColourRule(
        "critical_anomaly",
        "RED",
        partial(_anomalies, "critical"),
        "Check the Anomalies page of the control room before you resume.",
    ),
    ColourRule(
        "rollback",
        "RED",
        _rollback,
        "See what was restored: `safetyd history`.",
    ),
    ColourRule(
        "budget_gone",
        "RED",
        _budget_gone,
        "See who spent it: `safetyd budgets`. Raise it for today: `safetyd budgets raise day`.",
    ),
    ColourRule(
        "nobody_told",
        "RED",
        _untold,
        "Find the channel with `safetyd notify outbox`, fix it, then run `safetyd notify retry`.",
    ),
    ColourRule(
        "audit_broken",
        "RED",
        _audit,
        "Run `safetyd audit verify`. Compare the files with a copy, but do not overwrite them.",
    ),
    ColourRule(
        "high_anomaly",
        "YELLOW",
        partial(_anomalies, "high"),
        "The agents concerned are paused until you answer: `safetyd list`.",
    ),
    ColourRule(
        "safe_mode",
        "YELLOW",
        _safe_mode,
        "See which agents are in safe mode now: `safetyd safe-mode`. See which agents were: "
        "`safetyd decisions --events --text SAFE_MODE_`.",
    ),
    ColourRule(
        "error_rate",
        "YELLOW",
        _errors,
        "See what failed: `safetyd transcripts` and `safetyd breakers`.",
    ),
    ColourRule(
        "budget_near",
        "YELLOW",
        _budget_near,
        "See who spends it: `safetyd budgets`.",
    ),
    ColourRule(
        "old_requests",
        "YELLOW",
        _old_requests,
        "Answer them: `safetyd list` or `safetyd review`.",
    ),
    ColourRule(
        "no_person",
        "YELLOW",
        _alone,
        "Check what was decided in the meantime: `safetyd decisions`. Then run `safetyd ack`.",
    ),
    ColourRule(
        "snapshot_missing",
        "YELLOW",
        _snapshot,
        "See why: `safetyd decisions --events --text SNAPSHOT_`. "
        "safetyd retries only the most recent day.",
    ),
    ColourRule(
        "no_record",
        "UNKNOWN",
        _no_record,
        "Check whether safetyd was running, and where its audit files are.",
    ),
)
