"""Detectors for proposals."""

from datetime import timedelta

import pytest

from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.anomaly.proposal_detectors import (
    MAX_ACTIONS,
    LoopActionType,
    RapidActions,
    RapidIdentical,
    RepeatedAction,
    TimeSkew,
)
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.verdict import Severity, Verdict
from tests.core.guards.anomaly.anomaly_rig import AnomalyRig, told
from tests.core.guards.guard_rig import decided
from tests.story import at, propose

IDENTICAL = AnomalyConfig(
    repeated_action=RepeatedAction(enabled=False),
    loop_action_type=LoopActionType(enabled=False),
    rapid_actions=RapidActions(enabled=False),
)
REPEATED = AnomalyConfig(
    rapid_identical=RapidIdentical(enabled=False),
    loop_action_type=LoopActionType(enabled=False),
    rapid_actions=RapidActions(enabled=False),
)
ACTS = AnomalyConfig(
    rapid_identical=RapidIdentical(enabled=False), repeated_action=RepeatedAction(enabled=False)
)


@pytest.mark.req("S1.22")
@pytest.mark.req("S1.34")
def test_five_of_the_same_action_in_ten_seconds_are_rapid() -> None:
    watch = AnomalyRig(IDENTICAL)

    assert watch.clicks(0, 2, 4, 6) == []
    assert watch.clicks(9.9) == ["rapid_identical"]
    assert watch.messages == ["Rapid identical requests: click 5 times in 10 s"]
    assert watch.guard.findings[0].severity == "medium"


@pytest.mark.req("S1.22")
def test_the_fifth_after_ten_seconds_is_not_rapid() -> None:
    assert AnomalyRig(IDENTICAL).clicks(0, 2, 4, 6, 10) == []


def test_other_actions_in_between_do_not_hide_identical_ones() -> None:
    watch = AnomalyRig(IDENTICAL)
    for t in range(4):
        watch.clicks(t)
        watch.clicks(t, label="Back")

    assert watch.clicks(4) == ["rapid_identical"]


def test_the_same_words_for_another_target_are_another_action() -> None:
    watch = AnomalyRig(IDENTICAL)

    assert [watch.clicks(n, label=f"Row {n}") for n in range(9)] == [[]] * 9


def test_agents_do_not_share_actions() -> None:
    watch = AnomalyRig(IDENTICAL)
    watch.clicks(0, 1, 2, 3)

    assert watch.clicks(4, agent="ops") == []


def test_reading_the_same_again_and_again_is_rapid_too() -> None:
    watch = AnomalyRig(IDENTICAL)

    found = [watch.proposes(t, type="read_file", paths=("a.py",)) for t in range(5)]

    assert found[-1] == ["rapid_identical"]


@pytest.mark.parametrize("kind", ["scroll", "key", "wait"])
def test_patient_types_may_be_repeated(kind: str) -> None:
    watch = AnomalyRig(AnomalyConfig(rapid_actions=RapidActions(enabled=False)))

    found = [watch.proposes(t, type=kind) for t in range(20)]

    assert {rule for rules in found for rule in rules} <= {"loop_action_type"}


def test_only_the_last_different_actions_are_kept() -> None:
    watch = AnomalyRig(IDENTICAL)
    watch.clicks(0, 0, 0, 0)
    for n in range(MAX_ACTIONS):
        watch.clicks(0, label=f"Row {n}")

    assert watch.clicks(0) == []


def test_blocked_proposals_count_and_repeats_of_an_id_do_not() -> None:
    watch = AnomalyRig(IDENTICAL)
    proposed = propose(0, type="click")
    for _ in range(9):
        watch.hears(decided(proposed, first=False))
    for _ in range(4):
        watch.hears(decided(proposed, decision=Severity.BLOCK))

    assert told(watch.hears(decided(proposed, decision=Severity.ASK))) == ["rapid_identical"]


@pytest.mark.req("S2.43")
def test_six_of_the_same_action_in_a_row_are_repeated() -> None:
    watch = AnomalyRig(REPEATED)

    assert watch.clicks(0, 100, 200, 300, 400) == []
    assert watch.clicks(500) == ["repeated_action"]
    assert watch.messages == ["Repeated action: click 6 times"]
    assert watch.guard.gauges("code", 500).repeated_action == 6


def test_another_action_ends_the_row() -> None:
    watch = AnomalyRig(REPEATED)
    watch.clicks(0, 1, 2, 3, 4)
    watch.clicks(5, label="Back")

    assert watch.clicks(6, 7, 8, 9, 10) == []


def test_waiting_in_between_does_not_end_the_row() -> None:
    watch = AnomalyRig(REPEATED)
    for t in range(5):
        watch.clicks(t)
        watch.proposes(t, type="wait")

    assert watch.clicks(6) == ["repeated_action"]


@pytest.mark.req("S2.30")
def test_five_acts_of_one_type_may_be_a_loop() -> None:
    watch = AnomalyRig(ACTS)
    for n in range(4):
        assert watch.clicks(100 * n, label=f"Row {n}") == []

    assert watch.clicks(400) == ["loop_action_type"]
    assert watch.messages == ["Potential loop detected: 5 different actions of one type in a row"]
    assert watch.guard.findings[0].severity == "low"


@pytest.mark.req("S1.40")
@pytest.mark.req("S2.30")
@pytest.mark.req("S2.46")
def test_ten_same_actions_are_a_loop_of_medium_severity() -> None:
    watch = AnomalyRig(ACTS)
    watch.proposes(0, type="edit_file")

    watch.clicks(*range(100, 1100, 100))

    assert watch.messages == ["Potential loop detected: same action repeated 10 times"]
    assert watch.guard.findings[0].severity == "medium"


@pytest.mark.req("S2.30")
def test_one_other_act_among_the_last_ten_is_no_loop() -> None:
    watch = AnomalyRig(ACTS)
    watch.clicks(0)
    watch.proposes(50, type="edit_file")

    assert watch.clicks(*range(100, 1000, 100)) == []


def test_loop_of_one_type_that_narrows_to_one_action_is_raised_again() -> None:
    watch = AnomalyRig(ACTS)
    for n in range(5):
        watch.clicks(100 * n, label=f"Row {n}")

    watch.clicks(*range(500, 1600, 100))

    assert [found.severity for found in watch.guard.findings] == ["low", "medium"]


@pytest.mark.req("S2.32")
def test_five_acts_each_less_than_five_seconds_after_the_last_are_rapid() -> None:
    watch = AnomalyRig(ACTS)
    kinds = ("click", "edit_file", "click", "edit_file", "click")
    found = [watch.proposes(4.9 * n, type=kind) for n, kind in enumerate(kinds)]

    assert found == [[], [], [], [], ["rapid_actions"]]
    assert watch.messages == ["Unusually rapid actions detected"]
    assert watch.guard.findings[0].severity == "low"


@pytest.mark.req("S2.32")
def test_one_gap_of_five_seconds_is_a_breath() -> None:
    watch = AnomalyRig(ACTS)
    times = (0, 1, 2, 7, 8, 9, 10, 11, 12)
    kinds = ("click", "edit_file") * 5

    assert [watch.proposes(t, type=kind) for t, kind in zip(times, kinds, strict=False)] == [[]] * 9


def test_reading_quickly_is_work() -> None:
    watch = AnomalyRig(ACTS)

    assert [watch.proposes(n / 10, type="read_file") for n in range(20)] == [[]] * 20


@pytest.mark.req("S1.23")
@pytest.mark.parametrize(("skew_s", "found"), [(30, []), (31, ["time_skew"]), (-42, ["time_skew"])])
def test_clock_more_than_half_a_minute_off_is_skewed(skew_s: float, found: list[str]) -> None:
    assert AnomalyRig().proposes(0, at=at(skew_s)) == found


@pytest.mark.req("S1.23")
def test_skew_is_reported_in_seconds() -> None:
    watch = AnomalyRig()
    watch.proposes(100, at=at(58))

    assert watch.messages == ["Time skew: 42 s"]
    assert watch.guard.findings[0].severity == "low"


def test_time_without_a_zone_is_read_as_utc() -> None:
    naive = (at(0) + timedelta(seconds=42)).replace(tzinfo=None)

    assert AnomalyRig().proposes(0, at=naive) == ["time_skew"]


def test_skew_can_be_switched_off() -> None:
    watch = AnomalyRig(AnomalyConfig(time_skew=TimeSkew(enabled=False)))

    assert watch.proposes(0, at=at(999)) == []


def test_agent_whose_name_is_one_too_many_is_not_remembered() -> None:
    watch = AnomalyRig()
    refused = Verdict("keys", Severity.BLOCK, "keys.agents", "full", limit_id="keys.agents")

    watch.hears(decided(propose(0, "new", keyless=True), refused))

    assert watch.guard.agents == ()


def test_agent_that_was_blocked_by_another_rule_is_remembered() -> None:
    watch = AnomalyRig()
    verdict = Verdict("gate", Severity.BLOCK, "gate.loop", "x")

    watch.hears(decided(propose(0, target=Target(label="x")), verdict))

    assert watch.guard.agents == ("code",)
