from safetyd.agents.refusals import EXAMPLE_CHARS, MAX_COUNTED, OTHERS, Refusals, refusal
from safetyd.core.events.event import Moment
from safetyd.core.messages.verdict import Severity
from tests.story import NOON

MOMENT = Moment(NOON, 7.0)


def test_refusals_of_one_agent_and_cause_become_one_event() -> None:
    refusals = Refusals()
    counts = [refusals.count("code", "rate_limit", f"reason {n}") for n in range(3)]

    (refused,) = refusals.take(MOMENT)

    assert counts == [1, 2, 3]
    assert (refused.agent, refused.cause, refused.count) == ("code", "rate_limit", 3)
    assert refused.example == "reason 0"
    assert (refused.at, refused.t) == (NOON, 7.0)


def test_agents_and_causes_are_counted_apart() -> None:
    refusals = Refusals()
    refusals.count("code", "rate_limit", "")
    refusals.count("code", "malformed", "")
    refusals.count("ops", "malformed", "")

    assert len(list(refusals.take(MOMENT))) == 3


def test_taking_begins_a_new_window() -> None:
    refusals = Refusals()
    refusals.count("code", "malformed", "")
    list(refusals.take(MOMENT))

    assert list(refusals.take(MOMENT)) == []
    assert refusals.count("code", "malformed", "") == 1


def test_totals_outlive_the_window() -> None:
    refusals = Refusals()
    refusals.count("code", "malformed", "")
    list(refusals.take(MOMENT))
    refusals.count("ops", "malformed", "")

    assert refusals.total == {"malformed": 2}


def test_invented_names_share_a_count_beyond_the_bound() -> None:
    refusals = Refusals()
    for number in range(MAX_COUNTED + 50):
        refusals.count(f"agent-{number}", "malformed", "")

    events = list(refusals.take(MOMENT))

    assert len(events) == MAX_COUNTED + 1
    assert (events[-1].agent, events[-1].count) == (OTHERS, 50)


def test_known_name_is_counted_beyond_the_bound() -> None:
    refusals = Refusals()
    for number in range(MAX_COUNTED):
        refusals.count(f"agent-{number}", "malformed", "")

    assert refusals.count("agent-0", "malformed", "") == 2


def test_example_is_short() -> None:
    refusals = Refusals()
    refusals.count("code", "malformed", "x" * 10_000)

    (refused,) = refusals.take(MOMENT)

    assert refused.example == "x" * EXAMPLE_CHARS


def test_refusal_is_a_block_without_a_line_of_its_own() -> None:
    decision = refusal("code", "p1", "unavailable", "the disk is full", moment=MOMENT)

    assert decision.decision is Severity.BLOCK
    assert (decision.cause, decision.reason) == ("unavailable", "the disk is full")
    assert decision.triggered_rules == ("intake.unavailable",)
    assert decision.seq is None
    assert "Do not act" in decision.agent_message


def test_refusal_names_the_limit_and_how_long_to_wait() -> None:
    decision = refusal(
        "code",
        "p1",
        "rate_limit",
        "too fast",
        digest="sha256:d1",
        rule="intake.agent",
        retry_after_s=1.5,
        limit_id="intake:code",
        moment=MOMENT,
    )

    assert (decision.limit_id, decision.retry_after_s) == ("intake:code", 1.5)
    assert decision.triggered_rules == ("intake.agent",)
    assert decision.digest == "sha256:d1"


def test_stopped_agent_is_told_to_hold_still() -> None:
    decision = refusal("code", "p1", "stopped", "by alice", moment=MOMENT)

    assert "Everything is stopped" in decision.agent_message
