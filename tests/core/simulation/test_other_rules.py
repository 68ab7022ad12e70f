"""What differs under other rules: decisions, questions, answers, messages, money, anomalies."""

import msgspec
import pytest

from safetyd.core.approvals.request import ApprovalsConfig
from safetyd.core.decision_cache import DecisionsConfig
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import decode
from safetyd.core.events.decision_events import Reported
from safetyd.core.events.guard_events import (
    Resumed,
    SafeModeEntered,
    SafeModeExited,
    Stopped,
    Unpaused,
)
from safetyd.core.events.notification_events import Due, LinkRevoked, NotTold, Told, Unparked
from safetyd.core.events.request_events import Cancelled, Claimed, Deferred, DenialLifted, Granted
from safetyd.core.guards.anomaly.agent_profile import AnomalyConfig
from safetyd.core.guards.anomaly.proposal_detectors import RapidIdentical
from safetyd.core.guards.rules import CustomRule, RulesConfig, When
from safetyd.core.guards.safe_mode import SafeModeConfig
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.telemetry import Unreported
from safetyd.core.messages.verdict import ALLOW, ASK, BLOCK
from safetyd.core.policy import Policy
from safetyd.core.recipients import CalmConfig, QuietHours, Recipient, TellingConfig
from safetyd.core.simulation.recorded_lines import read_line
from safetyd.core.simulation.report import AnswersUsed, SimulationReport
from safetyd.core.simulation.simulation import Simulation
from tests.core.simulation.recorded_story import RecordedStory

CODING = Policy(profile="coding")
ASKS = Policy(profile="coding", rules=RulesConfig(require_permission=("create_file", "llm_call")))
PUSHES = Policy(profile="coding", rules=RulesConfig(allow_without_permission=("push",)))
HELLO = CustomRule(name="hello", when=When(text="hello"), then=BLOCK)
ALICE = TellingConfig(
    channels={"mail": "email"},
    recipients=(
        Recipient(name="alice", channels=("mail",), quiet=QuietHours(start="00:00", end="00:00")),
    ),
    calm=CalmConfig(patience_s=(), next_person_s=0.0),
)


def simulated(story: RecordedStory, policy: Policy) -> tuple[SimulationReport, Engine]:
    engine = Engine(policy)
    simulation = Simulation(engine)
    for line in story.lines:
        simulation.put(read_line(line))
    return simulation.report(), engine


def told(policy: Policy) -> Policy:
    return msgspec.structs.replace(policy, telling=ALICE)


@pytest.mark.req("S4.28")
def test_what_was_blocked_and_would_be_allowed_is_counted_with_its_rule():
    story = RecordedStory(Policy(profile="coding", rules=RulesConfig(custom=(HELLO,))))
    for _ in range(5):
        story.propose("code", "create_file", "hello", description="greet")
        story.wait(5)

    report, _ = simulated(story, CODING)

    (difference,) = report.differences
    assert (difference.was, difference.would, difference.count) == (BLOCK, ALLOW, 5)
    assert difference.rule == "rules.hello"
    assert difference.agents == {"code": 5}
    assert [example.id for example in difference.examples] == ["p1", "p2", "p3"]
    assert difference.examples[0].text == "hello"
    assert report.loosened == 5
    assert not report.changes_nothing


def test_what_would_be_asked_and_was_not_names_the_new_rule_and_misses_an_answer():
    story = RecordedStory(CODING)
    decided = story.propose("code", "create_file", "x")
    assert decided is not None
    story.outcome("code", decided.id, usd=0.5)
    story.outcome("code", "another")
    story.happen(Reported, agent="code", telemetry=Unreported(id=decided.id))

    report, _ = simulated(story, ASKS)

    (difference,) = report.differences
    assert (difference.was, difference.would, difference.rule) == (
        ALLOW,
        ASK,
        "rules.require_permission",
    )
    assert (report.questions.was, report.questions.would) == (0, 1)
    assert report.questions.would_by_hour[12] == 1
    assert report.questions_of["code"].would == 1
    assert report.answers.missing == 1
    # It would not have been done, so nothing would have been spent.
    assert (report.spending.was_usd, report.spending.would_usd) == (0.5, 0.0)
    assert report.loosened == 0


def test_an_answer_to_the_same_action_serves_for_a_question_that_nobody_was_asked():
    story = RecordedStory(ASKS)
    asked = story.ask("create_file", "x")
    story.wait(30)
    story.answer(asked)
    story.propose("code", "create_file", "x")  # uses the approval
    story.configure(CODING)
    story.propose("code", "create_file", "x")
    story.propose("code", "create_file", "y")
    story.wait(20)
    story.propose("code", "read_file", "")
    early, early_engine = simulated(story, ASKS)
    story.wait(100)
    story.propose("code", "read_file", "")

    report, engine = simulated(story, ASKS)

    assert report.answers == AnswersUsed(recorded=1, alike=1, missing=1)
    # It takes as long as it took then.
    assert early.answers == report.answers
    assert early_engine.approvals.pending_count() == 2
    assert [one.asked.proposal.text for one in engine.approvals.pending()] == ["y"]


def test_an_answer_to_a_command_of_the_same_shape_serves_also_for_one_that_was_asked_before():
    told_work = Policy(rules=RulesConfig(allow_without_permission=("run_shell",)))
    story = RecordedStory(told_work)
    story.propose("code", "run_shell", "git commit -m 'one'")
    story.wait(10)
    story.configure(Policy())
    asked = story.ask("run_shell", "git commit -m 'two'")
    story.answer(asked, "denied")
    story.wait(10)
    story.propose("code", "read_file", "")

    report, engine = simulated(story, Policy())

    assert report.answers == AnswersUsed(recorded=1, alike=1)
    assert [one.state for one in engine.approvals.answered()] == ["denied", "denied"]


def test_a_repeat_that_joins_what_was_not_asked_then_brings_its_answer():
    story = RecordedStory(CODING)
    story.propose("code", "create_file", "x")
    story.wait(10)
    story.configure(ASKS)
    asked = story.ask("create_file", "x")
    story.answer(asked)

    report, _ = simulated(story, ASKS)

    assert report.answers == AnswersUsed(recorded=1)


def test_what_a_person_denied_and_would_be_allowed_counts_as_loosened():
    story = RecordedStory(CODING)
    first = story.ask("push", "main")
    story.answer(first, "denied")
    story.answer(story.ask("push", "other"))

    report, _ = simulated(story, PUSHES)

    (difference,) = report.differences
    assert (difference.was, difference.would, difference.count) == (ASK, ALLOW, 2)
    assert (difference.denied, report.loosened) == (1, 1)
    assert (report.questions.was, report.questions.would) == (2, 0)


def test_what_is_allowed_and_was_not_is_spent_as_it_was_estimated_until_it_is_reported():
    story = RecordedStory(ASKS)
    story.answer(story.ask("llm_call", "hello", cost_usd=0.25))
    story.ask("llm_call", "again", cost_usd=0.5)
    story.propose("code", "llm_call", "hello", id="used", cost_usd=0.25)
    story.outcome("code", "used", usd=0.125)

    report, _ = simulated(story, CODING)

    assert report.spending.would_usd == 0.125
    assert report.spending.estimated_usd == 0.75  # of the two that were asked about


def test_messages_are_counted_for_each_recipient_by_the_hour():
    story = RecordedStory(told(ASKS))
    for number in range(3):
        story.propose("code", "create_file", f"x{number}")
        story.wait(90)
    (sent,) = story.engine.outbox.open()
    story.happen(Told, delivery=sent.id, channel="mail", state="accepted")
    story.wait(100)

    fewer, _ = simulated(story, told(CODING))

    dues = [event for event in map(read_line, story.lines) if isinstance(event, Due)]
    assert fewer.messages["alice"].was == fewer.messages["alice"].was_by_hour[12] == len(dues) > 1
    assert fewer.messages["alice"].would == 0


def test_messages_that_the_record_does_not_have_are_taken_by_their_channels():
    story = RecordedStory(told(CODING))
    for number in range(3):
        story.propose("code", "create_file", f"x{number}")
        story.wait(200)
    story.propose("code", "read_file", "")
    story.wait(10)
    story.propose("code", "read_file", "")

    report, engine = simulated(story, told(ASKS))

    # Each waits for the one before to be sent, so that none would follow the first.
    assert report.messages["alice"].would >= 3
    assert {delivery.state for delivery in engine.outbox.deliveries()} == {"accepted"}


def test_what_is_made_at_once_and_not_on_record_is_taken_too():
    story = RecordedStory(CODING)
    story.happen(Stopped, source="operator", by="alice", epoch=1)
    story.propose("code", "read_file", "")
    story.wait(10)
    story.propose("code", "read_file", "")

    report, engine = simulated(story, told(CODING))

    assert report.messages["alice"].would == 1
    assert {delivery.state for delivery in engine.outbox.deliveries()} == {"accepted"}


def test_what_a_channel_says_of_messages_that_would_not_be_is_left_out():
    story = RecordedStory(told(ASKS))
    asked = story.ask("create_file", "x")
    story.wait(70)
    (delivery,) = story.engine.outbox.open()
    story.happen(LinkRevoked, delivery=delivery.id, request_id=asked, recipient="alice", why="x")
    story.happen(NotTold, delivery=delivery.id, channel="mail", state="parked")
    story.happen(Unparked, deliveries=(delivery.id,), by="alice")

    report, engine = simulated(story, told(CODING))

    assert report.messages["alice"].was >= 1
    assert not list(engine.outbox.deliveries())


def test_what_people_did_with_a_request_that_would_not_be_is_left_out():
    story = RecordedStory(ASKS)
    story.happen(Cancelled, request_id=story.ask("create_file", "a"), by="a", via="cli")
    denied = story.ask("create_file", "d")
    story.answer(denied, "denied")
    story.happen(DenialLifted, request_id=denied, agent="code", by="a")
    deferred = story.ask("create_file", "b")
    story.happen(Deferred, request_id=deferred, by="a", until=story.now.at)
    claimed = story.ask("create_file", "c", id="c")
    story.answer(claimed)
    story.happen(Claimed, request_id=claimed, agent="code", id="c", claimant="c")

    report, engine = simulated(story, CODING)

    assert report.questions.would == 0
    assert not engine.approvals.answered()


def test_a_denial_that_was_lifted_is_lifted_again():
    story = RecordedStory(ASKS)
    denied = story.ask("create_file", "d")
    story.answer(denied, "denied")
    story.happen(DenialLifted, request_id=denied, agent="code", by="a")
    story.ask("create_file", "d")

    report, engine = simulated(story, ASKS)

    assert report.questions.would == 2
    assert engine.approvals.pending_count() == 1


def test_an_answer_that_would_have_come_too_late_is_not_taken():
    story = RecordedStory(ASKS)
    asked = story.ask("create_file", "x", wait=True)
    story.wait(1200)
    story.answer(asked)
    story.wait(10)
    story.propose("code", "read_file", "")
    hasty = msgspec.structs.replace(ASKS, approvals=ApprovalsConfig(timeout_minutes=5))

    report, engine = simulated(story, hasty)

    assert report.answers.not_taken == 1
    assert [request.state for request in engine.approvals.answered()] == ["expired"]


def test_a_text_that_was_masked_is_taken_as_it_was_and_counted():
    story = RecordedStory(Policy())
    story.propose("code", "type", "hunter2", target=Target(label="Password"))
    story.propose("code", "type", "hunter2", target=Target(label="Password"), dry_run=True)

    report, engine = simulated(story, Policy(profile="coding"))

    assert (report.unread, report.decisions) == (2, 0)
    assert [one.asked.proposal.text for one in engine.approvals.pending()] == [
        "[masked, 7 characters]"
    ]


def test_a_grant_is_used_up_by_what_was_masked_as_it_was():
    story = RecordedStory(Policy())
    first = story.propose("code", "type", "hunter2", target=Target(label="Password"))
    assert first is not None
    rules = tuple(verdict.rule for verdict in first.verdicts)
    terms = {"uses": 5, "until": story.now.at.replace(year=2027), "rules": rules}
    made = {"id": "grt_1", "agent": "code", "by": "alice", "via": "cli", "reason": "x"}
    story.happen(Granted, request_id="req_1", **made, **terms)
    story.propose("code", "type", "hunter2", target=Target(label="Password"))
    assert story.engine.grants.live()[0].used == 1

    _, engine = simulated(story, Policy())

    assert engine.grants.live()[0].used == 1


def test_what_only_safe_mode_or_a_pause_of_other_rules_brought_about_is_ended_only_there():
    errors = Policy(profile="coding", safe_mode=SafeModeConfig(max_consecutive_errors=1))
    story = RecordedStory(errors)
    decided = story.propose("code", "create_file", "x")
    assert decided is not None
    story.outcome("code", decided.id, ok=False)
    story.wait(60)
    story.happen(SafeModeExited, by="alice", agent="code", forced=True)
    story.happen(Unpaused, agent="code", sources=("anomaly",), by="alice")
    story.happen(SafeModeEntered, by="alice")
    story.happen(SafeModeExited, by="alice", forced=True)

    report, engine = simulated(story, CODING)

    assert report.same == report.decisions == 1
    assert not engine.guards.safe_mode.status(None, story.t).active


def test_a_stop_is_ended_also_if_stops_of_other_rules_came_before_it():
    story = RecordedStory(CODING)
    story.happen(Stopped, source="operator", by="alice", epoch=1)
    story.wait(10)
    story.happen(Resumed, sources=("operator",), by="alice", epoch=2)
    engine = Engine(CODING)
    simulation = Simulation(engine)
    now = story.now
    engine.handle(Stopped(at=now.at, t=0.0, source="anomaly", by="safetyd", epoch=7))

    for line in story.lines:
        simulation.put(read_line(line))
    simulation.report()

    assert [stop.source for stop in engine.stop.stops] == ["anomaly"]


def test_anomalies_are_counted_by_their_rules():
    loud = msgspec.structs.replace(
        CODING, anomaly=AnomalyConfig(rapid_identical=RapidIdentical(count=3, severity="high"))
    )
    story = RecordedStory(CODING)
    for _ in range(3):
        story.propose("code", "read_file", "")

    report, engine = simulated(story, loud)

    found = report.anomalies["anomaly.rapid_identical"]
    assert (found.was, found.would, found.severity) == (0, 1, "high")
    assert found.example
    assert engine.guards.pause.pauses("code")


def test_a_pause_that_other_rules_bring_about_is_ended_by_the_answer_to_the_one_that_was():
    loud = msgspec.structs.replace(
        CODING, anomaly=AnomalyConfig(rapid_identical=RapidIdentical(count=3, severity="high"))
    )
    louder = msgspec.structs.replace(
        CODING, anomaly=AnomalyConfig(rapid_identical=RapidIdentical(count=2, severity="high"))
    )
    story = RecordedStory(loud)
    for _ in range(3):
        story.propose("code", "read_file", "")
    (request,) = story.engine.approvals.pending("code")
    story.answer(request.id)

    report, engine = simulated(story, louder)

    assert report.answers.recorded == 1
    assert not engine.guards.pause.pauses("code")


@pytest.mark.parametrize("stops", [True, False])
def test_a_stop_that_an_anomaly_brought_about_holds_only_where_it_does(stops):
    loud = msgspec.structs.replace(
        CODING, anomaly=AnomalyConfig(rapid_identical=RapidIdentical(count=3, severity="critical"))
    )
    story = RecordedStory(loud)
    for _ in range(3):
        story.propose("code", "read_file", "")
    (stop,) = story.engine.stop.stops
    story.wait(10)
    story.propose("code", "read_file", "other")
    story.happen(Resumed, sources=(stop.source,), by="alice", epoch=stop.epoch + 1)
    story.propose("code", "read_file", "more")

    report, engine = simulated(story, loud if stops else CODING)

    rules = {d.rule for d in report.differences if (d.was, d.would) == (BLOCK, ALLOW)}
    assert rules == (set() if stops else {"anomaly.rapid_identical", "stop.anomaly"})
    assert not engine.stop.stops


def test_what_is_still_remembered_under_other_rules_is_compared_with_the_answer_of_before():
    short = msgspec.structs.replace(PUSHES, decisions=DecisionsConfig(recall_s=1, ttl_s=1))
    story = RecordedStory(short)
    story.propose("code", "push", "main", id="p")
    story.wait(10)
    story.propose("code", "push", "main", id="p")

    same, _ = simulated(story, PUSHES)
    asked, _ = simulated(story, CODING)

    assert (same.same, same.decisions) == (2, 2)
    assert (asked.differences[0].count, asked.differences[0].rule) == (2, "classify.high")


def test_a_dry_run_that_would_be_allowed_had_no_question_to_be_denied():
    story = RecordedStory(CODING)
    story.propose("code", "push", "main", dry_run=True)

    report, _ = simulated(story, PUSHES)

    assert report.differences[0].count == 1
    assert report.loosened == 0


def test_decisions_that_other_rules_make_the_same_way_are_told_apart_by_their_rules():
    story = RecordedStory(Policy(profile="coding", rules=RulesConfig(custom=(HELLO,))))
    story.propose("code", "create_file", "hello")
    other = CustomRule(name="other", when=When(text="hel+o"), then=BLOCK)

    report, _ = simulated(story, Policy(profile="coding", rules=RulesConfig(custom=(other,))))

    (difference,) = report.differences
    assert (difference.was, difference.would, difference.rule) == (BLOCK, BLOCK, "rules.other")
    assert report.loosened == 0


def test_an_answer_alike_finds_nothing_to_answer_once_the_request_is_gone():
    story = RecordedStory(ASKS)
    asked = story.ask("create_file", "x", id="first")
    story.wait(30)
    story.answer(asked)
    story.propose("code", "create_file", "x")
    story.configure(CODING)
    story.propose("code", "create_file", "x", id="p")
    story.propose("code", "create_file", "z", supersedes="p")
    story.wait(60)
    story.propose("code", "read_file", "")

    report, _ = simulated(story, ASKS)

    assert (report.answers.alike, report.answers.not_taken) == (1, 1)


def test_an_empty_record_has_no_times_and_no_differences():
    report = Simulation(Engine(CODING)).report()

    assert report.changes_nothing
    assert (report.first_at, report.last_at, report.events) == (None, None, 0)


def test_how_far_it_is_can_be_asked_in_between():
    story = RecordedStory(CODING)
    story.propose("code", "read_file", "")
    story.wait(60)
    story.propose("code", "read_file", "")
    simulation = Simulation(Engine(CODING))

    for line in story.lines:
        simulation.put(read_line(line))
    assert simulation.decisions == 1  # what comes after the second is not known yet

    simulation.report()
    assert simulation.decisions == 2


def test_a_simulation_takes_over_the_past_as_it_was():
    story = RecordedStory(CODING)
    story.happen(Stopped, source="operator", by="alice", epoch=1)
    past = [decode(line) for line in story.lines]
    story.propose("code", "read_file", "")

    simulation = Simulation.after(CODING, past)
    for line in story.lines[len(past) :]:
        simulation.put(read_line(line))

    report = simulation.report()
    assert report.changes_nothing
    assert report.decisions == 1
