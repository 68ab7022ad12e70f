"""Scores that a judge gave a proposal: low scores need approval."""

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Guard
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Moment
from safetyd.core.messages.proposal import Risk, Score, Scores
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict, all_of

_AUTONOMY: Final = "autonomy_appropriateness"
_BEST: Final = msgspec.convert(dict.fromkeys(Scores.__struct_fields__, 5), Scores)


class Mark(NamedTuple):
    """A threshold for scores, and whether it was missed."""

    rule: str
    missed: bool
    reason: str
    remedy: str


class ScoresConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits for scores.

    A lower average, or a single score at or below its limit, needs approval.
    """

    required_for: tuple[Risk, ...] = ()  # risks for which scores are required
    average: Score = 4.0
    critical: Score = 1.0
    autonomy: Score = 2.0


class ScoresGuard(Guard):
    """Require approval for low scores. Stateless."""

    name = "scores"

    def __init__(self, config: ScoresConfig) -> None:
        self._config = config

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        scores = proposed.proposal.scores
        if scores is None:
            return self._missing(kind)
        missed = [mark for mark in self._marks(scores) if mark.missed]
        if not missed:
            return ALLOWED
        first, *others = missed
        remedy = all_of(mark.remedy for mark in missed)
        return _verdict(first.rule, first.reason, remedy, *(mark.rule for mark in others))

    def now(self, decided: Decided, moment: Moment) -> str:  # noqa: ARG002
        scores = decided.proposal.scores
        if scores is None:
            return "no scores given"
        return f"average {_average(scores):.10g}, required {self._config.average:g}"

    def _missing(self, kind: Kind) -> Verdict:
        if kind.risk not in self._config.required_for:
            return ALLOWED
        reason = f"A {kind.risk}-risk action must have scores, and this one has none"
        remedy = all_of(("with scores", *(mark.remedy for mark in self._marks(_BEST))))
        return _verdict("scores.missing", reason, remedy)

    def _marks(self, scores: Scores) -> Iterator[Mark]:
        """Yield the thresholds in the order in which they are reported."""
        config, average = self._config, _average(scores)
        given: dict[str, float] = msgspec.structs.asdict(scores)
        lowest = min(given, key=given.__getitem__)
        yield Mark(
            "scores.average",
            average < config.average,
            f"Average score {average:.10g} is below {config.average:g}",
            f"with an average score of {config.average} or more",
        )
        for rule, name, limit, whose in (
            ("scores.critical", lowest, config.critical, "every score"),
            ("scores.autonomy", _AUTONOMY, config.autonomy, _AUTONOMY),
        ):
            score = given[name]
            reason = f"Score {name} is {score:g}; {limit:g} or less needs approval"
            yield Mark(rule, score <= limit, reason, f"with {whose} above {limit}")


def _average(scores: Scores) -> float:
    given: tuple[float, ...] = msgspec.structs.astuple(scores)
    return math.fsum(given) / len(given)


def _verdict(rule: str, reason: str, remedy: str, *also: str) -> Verdict:
    return Verdict(
        "scores", Severity.ASK, rule, reason, cause="low_score", also=also, remedy=remedy
    )
