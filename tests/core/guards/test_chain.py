"""Guarantees of the whole chain of guards."""

from collections.abc import Sequence
from typing import Any

import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.decision_events import Decided, Proposed, Reported
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import AnomalyFound
from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.anomaly.proposal_detectors import RapidIdentical
from safetyd.core.messages.proposal import Scores, Target
from safetyd.core.messages.telemetry import Iteration, Outcome, SessionEnded
from safetyd.core.messages.verdict import Severity
from safetyd.core.policy import AgentConfig, Policy
from tests.story import ask, outcome, play, propose, report, resume, stop, tick

POOR = Scores(
    strategic_alignment=3,
    autonomy_appropriateness=4,
    output_quality=3,
    resource_efficiency=3,
    learning_application=3,
)
SEVERE = Policy(anomaly=AnomalyConfig(rapid_identical=RapidIdentical(severity="high")))


def events_of(journal: Sequence[Event]) -> list[str]:
    return [event.event_type for event in journal if isinstance(event, SafetyEvent)]


def same_reads(times: int) -> list[Proposed]:
    return [propose(n / 10, id=f"r{n}", text="notes.txt") for n in range(times)]


@pytest.mark.req("S2.1")
@pytest.mark.parametrize(
    ("before", "scores", "rule"),
    [
        ([report(0, Iteration()) for _ in range(4)], None, "iterations.limit"),
        ([], POOR, "scores.average"),
        ([stop(0)], None, "stop.operator"),
        (same_reads(4), None, "anomaly.rapid_identical"),
    ],
    ids=["limits", "scores", "people", "anomalies"],
)
def test_each_layer_refuses_while_all_others_agree(before, scores, rule) -> None:
    engine = Engine(SEVERE)
    play(engine, *before)

    decision = ask(engine, propose(1, text="notes.txt", scores=scores))

    assert not decision.allowed
    assert decision.triggered_rules == (rule,)


def exhausted() -> Engine:
    """At second 121 the agent has no iteration, no cooldown, no token and no money left."""
    agents = {"code": AgentConfig(tokens_per_minute=1, burst=4)}
    engine = Engine(Policy(mode="development", agents=agents))
    dispatches = [propose(60 * n, id=f"p{n}", type="dispatch") for n in range(3)]
    play(engine, *dispatches, *(propose(120, id=f"r{n}") for n in range(3)))
    return engine


@pytest.mark.req("S2.38")
def test_all_guards_judge_and_the_first_of_the_strictest_gives_the_reason() -> None:
    engine = exhausted()
    play(engine, stop(121, "file:/x"), stop(121, "environment", epoch=2))

    says: dict[str, Any] = {"provider": "openai", "scores": POOR, "text": "rm -rf /tmp/x"}
    decision = ask(engine, propose(121, id="last", type="dispatch", chain="c", cost_usd=6, **says))

    assert decision.triggered_rules == (
        "stop.file",
        "mode.cloud",
        "gate.blocklist:rm_rf",
        "scores.average",
        "iterations.limit",
        "cooldown.dispatch",
        "rate.agent",
        "budget.chain",
    )
    assert decision.cause == "stopped"


def test_a_proposal_that_was_refused_takes_nothing_anywhere() -> None:
    engine, spared = exhausted(), exhausted()

    for number in range(5):
        assert not ask(engine, propose(121, id=f"n{number}", type="dispatch")).allowed
    play(spared, propose(121, id="once", type="dispatch"))

    for name in ("iterations", "cooldown", "rate"):
        assert engine.save()().actors[name] == spared.save()().actors[name]


def test_a_session_that_ends_or_rests_begins_its_rounds_again() -> None:
    engine = Engine(Policy())
    play(engine, *(report(0, Iteration(session=name)) for name in ("a", "b") for _ in range(4)))
    assert ask(engine, propose(1, id="p1", session="a")).cause == "iteration_limit"

    play(engine, report(2, SessionEnded(session="a")))
    assert ask(engine, propose(3, id="p2", session="a")).allowed
    assert ask(engine, propose(3, id="p3", session="b")).cause == "iteration_limit"

    play(engine, tick(3 + 1800))
    assert ask(engine, propose(1804, id="p4", session="b")).allowed


@pytest.mark.req("S2.16")
def test_a_prohibited_action_is_blocked_and_reported() -> None:
    journal = play(Engine(Policy()), propose(0, type="change_password"))

    decided, told = journal
    assert isinstance(decided, Decided)
    assert isinstance(told, SafetyEvent)
    assert decided.decision is Severity.BLOCK
    assert (told.event_type, told.agent_id) == ("ACTION_BLOCKED", "code")


@pytest.mark.req("S2.39")
def test_risk_confidence_and_anomalies_are_looked_at_before_each_action() -> None:
    engine = Engine(SEVERE)
    pushes = [propose(n / 10, id=f"p{n}", type="push", confidence=0.5) for n in range(5)]

    *_, last = [ask(engine, push) for push in pushes]

    assert last.triggered_rules == ("classify.high", "gate.confidence", "anomaly.rapid_identical")
    assert last.decision is Severity.BLOCK


@pytest.mark.req("S2.41")
def test_errors_are_journalled_and_the_third_in_a_row_is_reported() -> None:
    story = [
        event
        for n in range(3)
        for event in (
            propose(n, id=f"p{n}", type="edit_file", text=f"line {n}"),
            report(n + 0.5, Outcome(id=f"p{n}", ok=False, error="no space left")),
        )
    ]

    journal = play(Engine(Policy()), *story)

    kept = [event.telemetry for event in journal if isinstance(event, Reported)]
    assert [said.error for said in kept if isinstance(said, Outcome)] == ["no space left"] * 3
    assert events_of(journal) == ["SAFE_MODE_ENTERED"]


@pytest.mark.req("S2.41")
def test_errors_that_are_too_many_are_a_pattern_even_if_no_two_follow_one_another() -> None:
    story = [
        event
        for n in range(20)
        for event in (
            propose(10 * n, id=f"p{n}", text=f"page {n}"),
            outcome(10 * n + 1, f"p{n}", ok=n % 10 > 0),
        )
    ]

    journal = play(Engine(Policy()), *story)

    found = [event.message for event in journal if isinstance(event, AnomalyFound)]
    assert found == ["High error rate: 10.0%"]


@pytest.mark.req("S4.2")
@pytest.mark.req("S1.38")
@pytest.mark.req("S1.39")
def test_the_same_story_gives_the_same_journal_and_every_refusal_says_why() -> None:
    story = [
        propose(0, type="model_call", dependency="api", model="m", cost_usd=4.5, chain="c"),
        outcome(1, ok=False),
        propose(2, id="p2", type="dispatch"),
        propose(3, id="p3", type="dispatch"),
        propose(4, id="p4", type="click", target=Target(label="Submit Order"), confidence=0.4),
        propose(5, id="p5", type="run_shell", text="rm -rf /"),
        propose(6, id="p6", cost_usd=2.0, chain="c"),
        stop(7),
        propose(8, id="p7"),
        resume(9),
        tick(20),
        propose(21, id="p8", provider="openai"),
    ]

    journal, again = (play(Engine(Policy()), *story) for _ in range(2))

    assert [encode(event) for event in journal] == [encode(event) for event in again]
    refused = [event for event in journal if isinstance(event, Decided) and event.verdicts]
    assert [event.id for event in refused] == ["p3", "p4", "p5", "p6", "p7"]
    assert all(verdict.rule and verdict.reason for event in refused for verdict in event.verdicts)


def test_mode_and_scores_remember_nothing() -> None:
    deaf = [guard.name for guard in Engine(Policy()).guards if not guard.hears]

    assert deaf == ["mode", "scores"]


@pytest.mark.req("S1.46")
def test_statistics_only_tell_and_rules_decide() -> None:
    config = AnomalyConfig()

    assert {config.outlier.severity, config.ewma_latency.severity} == {"low"}


@pytest.mark.req("S1.46")
def test_an_agents_own_limit_holds_while_there_is_room_for_all() -> None:
    engine = Engine(Policy())
    mine = [ask(engine, propose(0, id=f"p{n}", text=f"page {n}")) for n in range(121)]

    assert [decision.allowed for decision in mine] == [True] * 120 + [False]
    assert mine[-1].limit_id == "rate.agent:code"
    assert ask(engine, propose(0, agent="ops")).allowed


@pytest.mark.req("S4.27")
def test_the_gate_knows_words_and_not_their_meaning() -> None:
    engine = Engine(Policy())

    blocked = ask(engine, propose(0, id="p1", type="click", target=Target(label="Delete all")))
    passed = ask(engine, propose(1, id="p2", type="click", target=Target(label="Get rid of all")))

    assert (blocked.allowed, passed.allowed) == (False, True)
