"""Scores that a judge gave a proposal: low ones are put to a person."""

import math
from collections.abc import Callable, Iterator, Sequence

import msgspec

from safetyd.core.events import Event, Proposed
from safetyd.core.kinds import Kind
from safetyd.core.proposal import Risk, Score, Scores
from safetyd.core.verdict import ALLOWED, Severity, Verdict


class ScoresConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person must see: an average below one number, a single score at or below another."""

    required_for: tuple[Risk, ...] = ()  # risks that must come with scores
    average: Score = 4.0
    critical: Score = 1.0
    autonomy: Score = 2.0


class ScoresGuard:
    """The guard. It remembers nothing."""

    name = "scores"
    hears: tuple[type[Event], ...] = ()

    def __init__(self, config: ScoresConfig) -> None:
        self._config = config

    def check(self, proposed: Proposed, kind: Kind) -> Verdict:
        scores = proposed.proposal.scores
        if scores is None:
            return self._missing(kind)
        found = dict(self._low(scores))
        if not found:
            return ALLOWED
        rule, *also = found
        return _verdict(rule, found[rule], *also)

    def observe(self, event: Event) -> Sequence[Event]:  # noqa: ARG002
        return ()

    def save(self) -> Callable[[], bytes]:
        return bytes

    def load(self, saved: bytes) -> None: ...

    def _missing(self, kind: Kind) -> Verdict:
        if kind.risk not in self._config.required_for:
            return ALLOWED
        return _verdict("scores.missing", f"{kind.risk} risk needs scores, and none are given")

    def _low(self, scores: Scores) -> Iterator[tuple[str, str]]:
        """Yield the rules that match, and why."""
        given: dict[str, float] = msgspec.structs.asdict(scores)
        average = math.fsum(given.values()) / len(given)
        if average < self._config.average:
            below = f"average score {average:.10g} is below {self._config.average:g}"
            yield "scores.average", below
        lowest = min(given, key=given.__getitem__)
        if given[lowest] <= self._config.critical:
            yield "scores.critical", _compared(lowest, given[lowest], self._config.critical)
        name, autonomy = "autonomy_appropriateness", scores.autonomy_appropriateness
        if autonomy <= self._config.autonomy:
            yield "scores.autonomy", _compared(name, autonomy, self._config.autonomy)


def _compared(name: str, score: float, limit: float) -> str:
    return f"{name} is {score:g}, and a person is asked at {limit:g} or less"


def _verdict(rule: str, reason: str, *also: str) -> Verdict:
    return Verdict("scores", Severity.ASK, rule, reason, cause="low_score", also=also)
