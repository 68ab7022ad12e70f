import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.guards.scores import ScoresConfig, ScoresGuard
from safetyd.core.messages.proposal import Proposal, Scores
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict
from tests.core.guards.guard_rig import look, rules
from tests.story import propose


def scored(
    alignment: float, autonomy: float, quality: float, efficiency: float, learning: float
) -> Scores:
    return Scores(
        strategic_alignment=alignment,
        autonomy_appropriateness=autonomy,
        output_quality=quality,
        resource_efficiency=efficiency,
        learning_application=learning,
    )


def judged(scores: Scores | None, config: ScoresConfig | None = None, **fields: object) -> Verdict:
    guard = ScoresGuard(config or ScoresConfig())
    return look(guard, propose(0, scores=scores, **fields))  # type: ignore[arg-type]


STRICT = ScoresConfig(average=4.5, critical=2, autonomy=3)


@pytest.mark.req("S2.10", "S2.11", "S2.12")
@pytest.mark.parametrize(
    ("scores", "config", "missed"),
    [
        (scored(4, 4, 4, 4, 4), None, ()),
        (scored(5, 5, 5, 3, 2), None, ()),
        (scored(5, 2.1, 5, 5, 5), None, ()),
        (scored(4, 4, 4, 4, 3), None, ("scores.average",)),
        (scored(5, 5, 5, 5, 1), None, ("scores.critical",)),
        (scored(5, 2, 5, 5, 5), None, ("scores.autonomy",)),
        (scored(3, 1, 3, 3, 3), None, ("scores.average", "scores.critical", "scores.autonomy")),
        (scored(4, 4, 4, 4, 4), STRICT, ("scores.average",)),
        (scored(5, 5, 5, 5, 2), STRICT, ("scores.average", "scores.critical")),
        (scored(5, 3, 5, 5, 5), STRICT, ("scores.autonomy",)),
    ],
)
def test_every_mark_that_is_missed_is_put_to_a_person(
    scores: Scores, config: ScoresConfig | None, missed: tuple[str, ...]
) -> None:
    verdict = judged(scores, config)

    assert (rules(verdict) if missed else verdict) == (missed or ALLOWED)
    assert not missed or (verdict.decision, verdict.cause) == (Severity.ASK, "low_score")


def test_an_average_that_is_hardly_lower_does_not_read_like_four() -> None:
    assert "3.9998 " in judged(scored(4, 4, 4, 4, 3.999)).reason


def test_scores_need_not_be_given() -> None:
    assert judged(None, type="push") is ALLOWED


def test_an_operator_can_require_them_by_risk() -> None:
    config = ScoresConfig(required_for=("high",))

    verdict = judged(None, config, type="push")

    assert (verdict.decision, verdict.cause) == (Severity.ASK, "low_score")
    assert rules(verdict) == ("scores.missing",)
    assert judged(None, config, type="read_file") is ALLOWED
    assert judged(scored(4, 4, 4, 4, 4), config, type="push") is ALLOWED


@pytest.mark.req("S2.9")
@pytest.mark.parametrize(
    "scores",
    [
        {"strategic_alignment": 4},
        dict.fromkeys(Scores.__struct_fields__, 6),
        dict.fromkeys(Scores.__struct_fields__, 0),
    ],
)
def test_fewer_than_five_or_out_of_range_is_malformed(scores: dict[str, float]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"type": "push", "scores": scores}, Proposal)


marks = st.floats(1, 5)


@given(st.builds(scored, marks, marks, marks, marks, marks))
def test_it_asks_exactly_when_a_mark_is_missed(scores) -> None:
    given_ = msgspec.structs.astuple(scores)
    low = min(given_) <= 1 or scores.autonomy_appropriateness <= 2

    verdict = judged(scores)

    if sum(given_) / 5 < 4 - 1e-9 or low:
        assert verdict.decision is Severity.ASK
    elif sum(given_) / 5 > 4 + 1e-9:
        assert verdict is ALLOWED
