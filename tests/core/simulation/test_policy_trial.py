"""Rules on their own: one proposal after others."""

from safetyd.core.guards.safe_mode import SafeModeConfig
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.proposal import Proposal
from safetyd.core.messages.verdict import ALLOW, ASK, BLOCK
from safetyd.core.policy import Policy
from safetyd.core.simulation.policy_trial import PolicyTrial, TrialStep
from tests.story import NOON


def step(text: str, *, ok: bool | None = None, number: int = 1, type_: str = "push") -> TrialStep:
    proposal = Proposal(type=type_, id=f"p{number}", text=text)
    return TrialStep(agent="code", proposal=proposal, digest=f"sha256:{text}{number}", ok=ok)


def decided(policy: Policy, *steps: TrialStep) -> Decision:
    return PolicyTrial(policy).decide(steps, NOON)


def test_a_proposal_is_decided_as_if_nothing_had_happened():
    trial = PolicyTrial(Policy(profile="coding"))

    assert trial.decide([step("main")], NOON).decision is ASK
    assert trial.decide([step("", type_="read_file")], NOON).decision is ALLOW


def test_what_came_before_counts():
    once = Policy(profile="coding", safe_mode=SafeModeConfig(max_consecutive_errors=1))
    write = step("x", type_="create_file", number=2)

    assert decided(once, step("x", ok=True, type_="create_file"), write).decision is ALLOW
    failed = decided(once, step("x", ok=False, type_="create_file"), write)
    assert (failed.decision, failed.triggered_rules) == (BLOCK, ("safe_mode_restricted",))


def test_an_outcome_of_what_was_not_allowed_counts_for_nothing():
    once = Policy(profile="coding", safe_mode=SafeModeConfig(max_consecutive_errors=1))
    write = step("x", type_="create_file", number=2)

    assert decided(once, step("main", ok=False), write).decision is ALLOW
