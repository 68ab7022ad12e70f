"""What a grant would have covered of the past, and rules on their own."""

from datetime import timedelta

from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Decided
from safetyd.core.events.request_events import Granted
from safetyd.core.guards.rules import CustomRule, RulesConfig, When
from safetyd.core.guards.safe_mode import SafeModeConfig
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import ALLOW, ASK, BLOCK, Severity
from safetyd.core.policy import Policy
from safetyd.core.simulation import trials
from safetyd.core.simulation.trials import (
    EndState,
    GrantCoverage,
    GrantTrial,
    PastRequest,
    TrialStep,
    counted,
)
from tests.story import NOON, play, propose

CODING = Policy(profile="coding")
HELLO = CustomRule(name="hello", when=When(text="hello"), then=BLOCK)


def grant(**fields: object) -> Granted:
    made = {"id": "grt_1", "agent": "code", "by": "alice", "via": "cli", "reason": "work"}
    until = NOON + timedelta(hours=1)
    return Granted(at=NOON, t=0.0, uses=1, until=until, **made, **fields)  # type: ignore[arg-type]


def decided(engine: Engine, type_: str, text: str, agent: str = "code") -> Decided:
    """Return what was decided a month before any grant."""
    story = propose(-30 * 86_400, agent, text, type_, text=text, digest=f"sha256:{text}")
    return next(event for event in play(engine, story) if isinstance(event, Decided))


def test_a_grant_covers_what_it_would_lift_whatever_its_time_and_uses():
    engine = Engine(CODING)
    trial = GrantTrial(engine, grant(type="push"))

    covered = [decided(engine, "push", text) for text in ("main", "other")]
    others = [decided(engine, "push", "main", "ops"), decided(engine, "deploy", "x")]

    assert [trial.covers(one) for one in covered] == [True, True]
    assert [trial.covers(one) for one in others] == [False, False]


def test_what_was_allowed_anyway_is_not_covered():
    engine = Engine(CODING)

    assert not GrantTrial(engine, grant()).covers(decided(engine, "read_file", ""))


def test_a_grant_that_names_a_rule_covers_what_it_blocked():
    engine = Engine(Policy(profile="coding", rules=RulesConfig(custom=(HELLO,))))
    blocked = decided(engine, "create_file", "hello")
    assert blocked.decision is BLOCK

    assert GrantTrial(engine, grant(rules=("rules.hello",), text="hello")).covers(blocked)
    assert not GrantTrial(engine, grant(rules=("rules.other",), text="hello")).covers(blocked)


def test_requests_are_counted_by_how_they_ended():
    engine = Engine(CODING)
    asked = decided(engine, "push", "main")
    states: tuple[EndState, ...] = (
        "approved",
        "approved",
        "denied",
        "expired",
        "pending",
        "blocked",
    )
    past = [PastRequest(asked, state) for state in states]

    found = counted(GrantTrial(engine, grant(type="push")).covered(past))

    assert found == GrantCoverage(approved=2, denied=1, unanswered=2, blocked=1)
    assert found.total == len(states)


def step(text: str, *, ok: bool | None = None, number: int = 1, type_: str = "push") -> TrialStep:
    proposal = Proposal(type=type_, id=f"p{number}", text=text)
    return TrialStep(agent="code", proposal=proposal, digest=f"sha256:{text}{number}", ok=ok)


def after(policy: Policy, *steps: TrialStep) -> Severity:
    return trials.decided(policy, steps, NOON).decision


def test_a_proposal_is_decided_as_if_nothing_had_happened():
    assert after(CODING, step("main")) is ASK
    assert after(CODING, step("", type_="read_file")) is ALLOW


def test_what_came_before_counts():
    once = Policy(profile="coding", safe_mode=SafeModeConfig(max_consecutive_errors=1))
    write = step("x", type_="create_file", number=2)

    assert after(once, step("x", ok=True, type_="create_file"), write) is ALLOW
    assert after(once, step("x", ok=False, type_="create_file"), write) is BLOCK


def test_an_outcome_of_what_was_not_allowed_counts_for_nothing():
    once = Policy(profile="coding", safe_mode=SafeModeConfig(max_consecutive_errors=1))
    write = step("x", type_="create_file", number=2)

    assert after(once, step("main", ok=False), write) is ALLOW
