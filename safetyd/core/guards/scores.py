"""Scores that a judge gave a proposal: low ones are put to a person."""

import math
from collections.abc import Iterator
from typing import Final

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Moment
from safetyd.core.messages.proposal import Risk, Score, Scores
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict, all_of

_AUTONOMY: Final = "autonomy_appropriateness"


class ScoresConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person must see: an average below one number, a single score at or below another."""

    required_for: tuple[Risk, ...] = ()  # risks that must come with scores
    average: Score = 4.0
    critical: Score = 1.0
    autonomy: Score = 2.0


class ScoresGuard(Guard):
    """The guard. It remembers nothing."""

    name = "scores"

    def __init__(self, config: ScoresConfig) -> None:
        self._config = config

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        scores = proposed.proposal.scores
        if scores is None:
            return self._missing(kind)
        found = tuple(self._low(scores))
        if not found:
            return ALLOWED
        (rule, why, _), *others = found
        remedy = all_of(remedy for _, _, remedy in found)
        return _verdict(rule, why, remedy, *(other for other, _, _ in others))

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        scores = decided.proposal.scores
        if scores is None:
            return "no scores given"
        return f"average {_average(scores):.10g} of at least {self._config.average:g}"

    def _missing(self, kind: Kind) -> Verdict:
        if kind.risk not in self._config.required_for:
            return ALLOWED
        reason = f"{kind.risk} risk needs scores, and none are given"
        return _verdict("scores.missing", reason, f"with scores; and {self._good()}")

    def _low(self, scores: Scores) -> Iterator[tuple[str, str, str]]:
        """Yield the rules that match, why, and what would be good enough."""
        given: dict[str, float] = msgspec.structs.asdict(scores)
        average, lowest = _average(scores), min(given, key=given.__getitem__)
        config = self._config
        if average < config.average:
            below = f"average score {average:.10g} is below {config.average:g}"
            yield "scores.average", below, _average_of(config.average)
        if given[lowest] <= config.critical:
            why = _compared(lowest, given[lowest], config.critical)
            yield "scores.critical", why, _each_above(config.critical)
        autonomy = scores.autonomy_appropriateness
        if autonomy <= config.autonomy:
            why = _compared(_AUTONOMY, autonomy, config.autonomy)
            yield "scores.autonomy", why, _autonomy_above(config.autonomy)

    def _good(self) -> str:
        config = self._config
        return all_of(
            (
                _average_of(config.average),
                _each_above(config.critical),
                _autonomy_above(config.autonomy),
            )
        )


def _average(scores: Scores) -> float:
    given: dict[str, float] = msgspec.structs.asdict(scores)
    return math.fsum(given.values()) / len(given)


def _average_of(least: float) -> str:
    return f"with an average score of {least} or more"


def _each_above(limit: float) -> str:
    return f"with every score above {limit}"


def _autonomy_above(limit: float) -> str:
    return f"with {_AUTONOMY} above {limit}"


def _compared(name: str, score: float, limit: float) -> str:
    return f"{name} is {score:g}, and a person is asked at {limit:g} or less"


def _verdict(rule: str, reason: str, remedy: str, *also: str) -> Verdict:
    return Verdict(
        "scores", Severity.ASK, rule, reason, cause="low_score", also=also, remedy=remedy
    )
