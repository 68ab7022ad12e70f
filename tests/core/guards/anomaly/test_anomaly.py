"""When findings are raised, what they cause, and when an operator counts as active."""

from typing import Any

import pytest

from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import (
    AnomalyFound,
    Forgotten,
    Paused,
    PersonSeen,
    Resumed,
    SafeModeEntered,
    SafeModeExited,
    Stopped,
    Unpaused,
)
from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.anomaly.anomaly import MAX_FINDINGS
from safetyd.core.guards.anomaly.presence import HumanConfig, NoHuman
from safetyd.core.guards.anomaly.proposal_detectors import (
    LoopActionType,
    RapidActions,
    RapidIdentical,
    RepeatedAction,
)
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.telemetry import Commit, Heartbeat, Iteration, Metrics
from safetyd.core.messages.verdict import ALLOWED, Severity
from tests.core.guards.anomaly.anomaly_rig import HOUR, AnomalyRig, told
from tests.story import at, report, resume, stop, tick

QUIET: dict[str, Any] = {
    "repeated_action": RepeatedAction(enabled=False),
    "loop_action_type": LoopActionType(enabled=False),
    "rapid_actions": RapidActions(enabled=False),
}
PAUSING = AnomalyConfig(rapid_identical=RapidIdentical(severity="high"), **QUIET)
STOPPING = AnomalyConfig(rapid_identical=RapidIdentical(severity="critical"), **QUIET)
RAPID = AnomalyConfig(**QUIET)


def large(watch: AnomalyRig, t: float) -> list[str]:
    return watch.says(t, Commit(ref="a", files_changed=14))


def small(watch: AnomalyRig, t: float) -> list[str]:
    return watch.says(t, Commit(ref="a", files_changed=1))


def test_finding_is_raised_once_while_its_condition_holds() -> None:
    watch = AnomalyRig()

    assert [large(watch, 1000 * n) for n in range(3)] == [["files_per_commit"], [], []]


def test_condition_that_holds_counts() -> None:
    watch = AnomalyRig(RAPID)
    watch.clicks(0, 1, 2, 3, 4, 5)
    large(watch, 6)

    assert watch.guard.holding("code", 7) == {"rapid_identical": 2, "files_per_commit": 1}
    small(watch, 8)
    assert watch.guard.holding("code", 12) == {}


def test_condition_that_begins_again_too_soon_is_raised_when_the_quiet_is_over() -> None:
    watch = AnomalyRig()
    large(watch, 0)
    small(watch, 100)

    assert large(watch, 699) == []
    assert large(watch, 700) == ["files_per_commit"]


def test_condition_that_comes_and_goes_is_raised_every_ten_minutes() -> None:
    watch = AnomalyRig()
    found = []
    for t in range(0, 3000, 200):
        found += [t] if large(watch, t) else []
        small(watch, t + 100)

    assert found == [0, 800, 1600, 2400]


def test_condition_over_a_window_ends_with_the_window() -> None:
    watch = AnomalyRig(RAPID)
    watch.clicks(0, 1, 2, 3, 4)

    assert watch.clicks(606, 607, 608, 609) == []
    assert watch.clicks(610) == ["rapid_identical"]


def test_another_action_does_not_end_a_condition_over_a_window() -> None:
    watch = AnomalyRig(RAPID)
    watch.clicks(0, 1, 2, 3, 4)
    watch.clicks(5, label="Back")

    assert watch.clicks(605, 606, 607, 608, 609.9) == []


def test_hourly_condition_ends_when_the_hour_is_below_the_limit_again() -> None:
    watch = AnomalyRig()
    for n in range(21):
        watch.says(100 * n, Iteration())

    assert watch.says(HOUR + 599, Metrics(iterations_per_hour=21)) == []
    assert watch.says(HOUR + 601, Metrics(iterations_per_hour=21)) == ["iterations_per_hour"]


def test_condition_of_many_rounds_ends_with_them_whatever_was_dispatched_meanwhile() -> None:
    watch = AnomalyRig()
    for n in range(20):
        watch.says(100 * n, Iteration())
    watch.proposes(1950, type="dispatch")
    watch.says(2000, Iteration())

    assert watch.guard.holding("code", HOUR - 1) == {"iterations_per_hour": 1}
    assert watch.guard.holding("code", HOUR) == {}


def test_cost_condition_ends_when_the_hour_is_below_the_limit_again() -> None:
    watch = AnomalyRig()
    watch.works(0, cost_usd=2)
    watch.works(1000, cost_usd=4)

    assert watch.works(HOUR + 599, cost_usd=6) == []
    assert watch.works(HOUR + 601, cost_usd=0) == ["cost_per_hour"]


def test_a_condition_that_an_agent_reported_ends_when_it_reports_so() -> None:
    watch = AnomalyRig()
    watch.says(0, Metrics(iterations_per_hour=30, api_cost_last_hour=9))
    watch.says(10, Metrics(iterations_per_hour=3, api_cost_last_hour=1))

    assert watch.says(610, Metrics(iterations_per_hour=30, api_cost_last_hour=9)) == [
        "iterations_per_hour",
        "cost_per_hour",
    ]


@pytest.mark.req("S2.36")
@pytest.mark.req("S2.37")
def test_low_and_medium_findings_block_nothing_and_cause_nothing_more() -> None:
    watch = AnomalyRig()
    verdicts = [watch.asks(n, id=f"p{n}", type="click") for n in range(12)]

    assert set(verdicts) == {ALLOWED}
    assert sorted({found.severity for found in watch.guard.findings}) == ["low", "medium"]


@pytest.mark.req("S2.35")
def test_high_finding_blocks_its_proposal_and_pauses_the_agent() -> None:
    watch = AnomalyRig(PAUSING)
    watch.clicks(0, 1, 2, 3)

    verdict = watch.looks(4, type="click", target=Target(label="Next"))
    caused = watch.hears_clicks(4)

    message = "Rapid identical requests: click 5 times in 10 s"
    assert (verdict.decision, verdict.cause) == (Severity.BLOCK, "anomaly")
    assert (verdict.rule, verdict.reason) == ("anomaly.rapid_identical", message)
    assert told(caused) == ["rapid_identical"]
    assert caused[1] == Paused(
        at=at(4),
        t=4.0,
        agent="code",
        source="anomaly",
        by="safetyd",
        reason=message,
        usual="fewer than 5 in 10 s",
    )


def test_looking_changes_nothing() -> None:
    watch = AnomalyRig(PAUSING)
    watch.clicks(0, 1, 2, 3)
    before = watch.guard.save()()

    for _ in range(3):
        watch.looks(4, type="click", target=Target(label="Next"))

    assert watch.guard.save()() == before


def test_proposal_that_only_continues_a_high_finding_is_left_to_the_pause() -> None:
    watch = AnomalyRig(PAUSING)
    watch.clicks(0, 1, 2, 3, 4)

    assert watch.looks(5, type="click", target=Target(label="Next")) is ALLOWED


def test_all_severe_findings_of_a_proposal_are_named() -> None:
    config = AnomalyConfig(
        rapid_identical=RapidIdentical(severity="high"),
        repeated_action=RepeatedAction(severity="critical", max=4),
    )
    watch = AnomalyRig(config)
    watch.clicks(0, 1, 2, 3)

    verdict = watch.looks(4, type="click", target=Target(label="Next"))

    assert (verdict.rule, verdict.also) == (
        "anomaly.rapid_identical",
        ("anomaly.repeated_action",),
    )


def test_loop_of_one_type_blocks_if_that_is_severe() -> None:
    watch = AnomalyRig(AnomalyConfig(loop_action_type=LoopActionType(severity="high")))
    for n in range(4):
        watch.clicks(100 * n, label=f"Row {n}")

    verdict = watch.looks(400, type="click", target=Target(label="Next"))

    assert (verdict.decision, verdict.rule) == (Severity.BLOCK, "anomaly.loop_action_type")


def test_logged_actions_without_proposals_are_a_loop_too() -> None:
    def logged(watch: AnomalyRig, kind: str) -> list[list[str]]:
        return [watch.works(100 * n, id=None, type=kind) for n in range(10)]

    assert ["loop_action_type"] in logged(AnomalyRig(AnomalyConfig()), "click")
    # Costs of coding agents are reported as model calls without proposals.
    assert ["loop_action_type"] not in logged(AnomalyRig(AnomalyConfig()), "model_call")


def test_loop_of_one_action_blocks_if_only_that_is_severe() -> None:
    watch = AnomalyRig(AnomalyConfig(loop_action_type=LoopActionType(same_action_severity="high")))
    watch.clicks(0, 100, 200, 300)

    assert watch.looks(400, type="click", target=Target(label="Back")) is ALLOWED
    verdict = watch.looks(400, type="click", target=Target(label="Next"))
    assert (verdict.decision, verdict.rule) == (Severity.BLOCK, "anomaly.loop_action_type")


def test_loop_of_one_action_is_never_less_severe_than_one_of_one_type() -> None:
    watch = AnomalyRig(AnomalyConfig(loop_action_type=LoopActionType(severity="high")))
    watch.clicks(0, 100, 200, 300)

    assert watch.looks(400, type="click", target=Target(label="Next")).cause == "anomaly"


@pytest.mark.req("S2.34")
def test_critical_finding_stops_everybody() -> None:
    watch = AnomalyRig(STOPPING)
    watch.hears(stop(0, epoch=6), resume(0, epoch=7), stop(0, "file:/x", epoch=5))
    watch.clicks(0, 1, 2, 3)

    verdict = watch.looks(4, type="click", target=Target(label="Next"))
    caused = watch.hears_clicks(4)

    assert verdict.cause == "anomaly"
    assert caused[1] == Stopped(
        at=at(4),
        t=4.0,
        source="anomaly",
        by="safetyd",
        reason="Anomaly detected: anomaly.rapid_identical",
        epoch=8,
    )


def test_next_critical_finding_has_the_next_epoch() -> None:
    watch = AnomalyRig(STOPPING)
    watch.clicks(0, 1, 2, 3, 4)
    caused = [event for t in (1000, 1001, 1002, 1003, 1004) for event in watch.hears_clicks(t)]

    assert [event.epoch for event in caused if isinstance(event, Stopped)] == [2]


def test_only_the_last_findings_are_kept() -> None:
    watch = AnomalyRig()
    for n in range(MAX_FINDINGS + 5):
        watch.hears(AnomalyFound(at=at(n), t=n, rule="anomaly.x", severity="low", message=f"m{n}"))

    assert len(watch.guard.findings) == MAX_FINDINGS
    assert watch.messages[-1] == f"m{MAX_FINDINGS + 4}"


def test_agent_that_was_never_heard_has_empty_gauges() -> None:
    gauges = AnomalyRig().guard.gauges("nobody", 0)

    assert (gauges.iterations_per_hour, gauges.error_ratio, gauges.repeated_action) == (0, 0, 0)


@pytest.mark.req("S2.43")
def test_an_absent_operator_is_reported_once_a_day() -> None:
    watch = AnomalyRig()
    watch.hears(tick(0))
    hours = [hour for hour in range(100) if watch.hears(tick(hour * HOUR + 1))]

    assert hours == [24, 48, 72, 96]
    assert watch.messages[:2] == ["No person seen for 24 h", "No person seen for 48 h"]
    assert (watch.guard.findings[0].severity, watch.guard.findings[0].agent) == ("medium", None)
    assert watch.guard.since_human_s(HOUR) == HOUR


def test_a_day_is_not_yet_more_than_a_day() -> None:
    watch = AnomalyRig()
    watch.hears(tick(0))

    assert watch.hears(tick(24 * HOUR)) == []


def test_the_first_start_counts_as_an_active_operator() -> None:
    watch = AnomalyRig()

    (seen,) = watch.hears(tick(100 * HOUR))

    assert isinstance(seen, PersonSeen)
    assert seen.how == "first start"
    assert watch.hears(tick(101 * HOUR)) == []


def test_absence_of_people_can_be_left_unsaid() -> None:
    watch = AnomalyRig(AnomalyConfig(no_human=NoHuman(enabled=False)))
    watch.hears(tick(0))

    assert watch.hears(tick(100 * HOUR)) == []


def seen() -> list[Event]:
    moment: dict[str, Any] = {"at": at(HOUR), "t": HOUR}
    return [
        PersonSeen(**moment, by="alice", how="ack"),
        stop(HOUR),
        resume(HOUR),
        Paused(**moment, agent="code", source="operator", by="alice"),
        Unpaused(**moment, agent="code", sources=("anomaly",), by="alice"),
        SafeModeEntered(**moment, by="alice"),
        SafeModeExited(**moment, by="alice"),
        Forgotten(**moment, agent="code", by="alice"),
    ]


def unseen() -> list[Event]:
    moment: dict[str, Any] = {"at": at(HOUR), "t": HOUR}
    return [
        stop(HOUR, "file:/x"),
        Resumed(**moment, sources=("file:/x",), by="file", epoch=1),
        Resumed(**moment, sources=("environment",), by="environment", epoch=1),
        Paused(**moment, agent="code", source="budget", by="safetyd"),
        Unpaused(**moment, agent="code", sources=("budget",), by="safetyd"),
        SafeModeEntered(**moment, by="safetyd"),
        report(HOUR, Heartbeat()),
    ]


@pytest.mark.parametrize("event", seen(), ids=lambda event: type(event).__name__)
def test_what_people_do_shows_that_they_are_there(event: Event) -> None:
    watch = AnomalyRig()
    watch.hears(tick(0), event)

    assert watch.guard.since_human_s(2 * HOUR) == HOUR


@pytest.mark.parametrize("event", unseen(), ids=lambda event: type(event).__name__)
def test_what_programs_do_shows_nobody(event: Event) -> None:
    watch = AnomalyRig()
    watch.hears(tick(0), event)

    assert watch.guard.since_human_s(2 * HOUR) == 2 * HOUR


def test_an_operator_who_leaves_again_is_reported_again() -> None:
    watch = AnomalyRig()
    watch.hears(tick(0), tick(25 * HOUR))
    watch.hears(PersonSeen(at=at(26 * HOUR), t=26 * HOUR, by="alice", how="web"))

    assert watch.hears(tick(49 * HOUR)) == []
    assert told(watch.hears(tick(51 * HOUR))) == ["no_human"]


def test_irreversible_proposals_need_approval_without_an_operator_if_configured() -> None:
    watch = AnomalyRig(human=HumanConfig(confirm_after_h=8))
    watch.hears(tick(0))

    verdict = watch.looks(9 * HOUR, type="push")

    assert (verdict.decision, verdict.rule) == (Severity.ASK, "human.confirm_after_h")
    assert watch.looks(9 * HOUR, type="edit_file") is ALLOWED
    assert watch.looks(8 * HOUR, type="push") is ALLOWED


def test_an_absent_operator_restricts_nothing_by_default() -> None:
    watch = AnomalyRig()
    watch.hears(tick(0))

    assert watch.looks(999 * HOUR, type="push") is ALLOWED
    assert told(watch.hears(tick(999 * HOUR))) == ["no_human"]


def test_safe_mode_is_entered_once_without_an_operator_if_configured() -> None:
    watch = AnomalyRig(human=HumanConfig(safe_mode_after_h=12))
    watch.hears(tick(0))

    (entered,) = watch.hears(tick(13 * HOUR))

    assert entered == SafeModeEntered(
        at=at(13 * HOUR), t=13 * HOUR, by="safetyd", reason="No person seen for 13 h"
    )
    assert watch.hears(tick(14 * HOUR)) == []


def test_safe_mode_that_an_operator_left_is_entered_again_later() -> None:
    watch = AnomalyRig(human=HumanConfig(safe_mode_after_h=12))
    watch.hears(tick(0), tick(13 * HOUR))
    watch.hears(SafeModeExited(at=at(14 * HOUR), t=14 * HOUR, by="alice"))

    assert watch.hears(tick(26 * HOUR)) == []
    assert isinstance(watch.hears(tick(27 * HOUR))[0], SafeModeEntered)


def test_safe_mode_of_one_agent_is_not_everybodys() -> None:
    watch = AnomalyRig(human=HumanConfig(safe_mode_after_h=12))
    watch.hears(
        tick(0),
        SafeModeEntered(at=at(0), t=0, by="safetyd", agent="code"),
        SafeModeExited(at=at(0), t=0, by="safetyd", agent="code"),
    )

    assert isinstance(watch.hears(tick(13 * HOUR))[0], SafeModeEntered)
