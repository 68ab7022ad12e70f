"""An agent that a project does not list gains nothing by naming the project."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.action_types import Kinds
from safetyd.core.actor import Guard
from safetyd.core.engine.engine import Engine
from safetyd.core.events.decision_events import Proposed
from safetyd.core.events.event import Event
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.guards.gate.gate_config import GateConfig
from safetyd.core.guards.projects import (
    ProjectBudget,
    ProjectConfidence,
    ProjectConfig,
    ProjectGate,
    ProjectSettings,
)
from safetyd.core.guards.rules import ProjectRules, RulesConfig
from safetyd.core.messages.proposal import Observation, Target
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict
from safetyd.core.policy import AgentConfig, Policy
from tests.core.guards.budget.budget_rig import unpause
from tests.core.guards.classify.classify_rig import rule
from tests.core.guards.guard_rig import decided
from tests.story import propose

TYPES = ("read_file", "push", "change_auth", "send_email", "type", "click", "run_shell", "dance")
WORDS = ("", "delete it", "rm -rf /", "pay", "git push", "hello")
HOME = Observation(window_title="Home", app_name="Chrome")


def maybe(*values: object) -> st.SearchStrategy[object]:
    return st.sampled_from((None, *values))


patterns = maybe((), ("hello",), ("delete", "pay"))
shares = maybe(0.0, 0.6, 1.0)
limits = maybe(0, 0.5, 3, 40)
names = st.lists(st.sampled_from(TYPES), max_size=3).map(tuple)
rules = st.builds(
    ProjectRules,
    allow_without_permission=names,
    require_permission=names,
    allow_push_to=st.sampled_from([(), ("origin",)]),
    custom=st.lists(
        st.builds(rule, st.sampled_from(Severity), name=st.uuids().map(str), types=names),
        max_size=2,
    ).map(tuple),
    allow_human_communication=st.none() | st.booleans(),
    known_contacts=maybe((), ("alice",)),
    prohibited_means=maybe("block", "require_confirmation"),
    sensitive_paths=maybe((), ("docs/**",)),
    memory_per_session=maybe(0, 99),
)
gates = st.builds(
    ProjectGate,
    blocklist_patterns=patterns,
    irreversible_patterns=patterns,
    confidence_threshold=shares,
    loop_threshold=maybe(1, 2, 99),
    credential_patterns=patterns,
    credential_allowlist=patterns,
    expected_app=maybe("", "Chrome", "Word"),
    expected_window_pattern=maybe("", "^Home", "^Shop"),
    shell_patterns=patterns,
)
confidences = st.builds(
    ProjectConfidence,
    required_for=maybe((), ("low", "high")),
    low=shares,
    medium=shares,
    high=shares,
    default=shares,
)
budgets = st.builds(ProjectBudget, chain_usd=limits, session_usd=limits, agent_usd=limits)
parts = {"rules": rules, "gate": gates, "confidence": confidences, "budget": budgets}
projects = st.builds(
    ProjectConfig,
    root=st.sampled_from(["", "/srv/web"]),
    agents=st.sampled_from([(), ("code",)]),
    file=st.just("/srv/web/.safetyd.toml"),
    from_file=st.none() | st.builds(ProjectSettings, **parts),
    file_broken=st.sampled_from(["", "it is not TOML"]),
    **parts,
)
fields = st.fixed_dictionaries(
    {
        "type": st.sampled_from(TYPES),
        "text": st.sampled_from(WORDS),
        "target": st.none() | st.builds(Target, label=st.sampled_from(("", "password", "hello"))),
        "observation": st.sampled_from([None, HOME]),
        "confidence": maybe(0.5, 0.65, 0.95),
        "paths": st.sampled_from([(), ("docs/a",), ("/srv/web/x",), ("~/.ssh/x",)]),
        "remote": maybe("origin"),
        "cost_usd": maybe(0, 0.4, 2, 6),
        "session": maybe("s"),
        "chain": maybe("c"),
        "risk": maybe("low", "prohibited"),
    }
)
policies = st.builds(
    Policy,
    profile=st.sampled_from(["strict", "coding"]),
    rules=st.builds(RulesConfig, require_permission=names),
    gate=st.builds(GateConfig, expected_app=maybe("Chrome"), loop_threshold=st.integers(1, 3)),
    budget=st.builds(BudgetConfig, session_usd=st.sampled_from([0.0, 4.0]), chain_usd=st.just(3.0)),
    agents=st.sampled_from([{}, {"ops": AgentConfig(session_usd=1.0)}]),
)


class Pair:
    """The guards with project settings, once with and once without a project."""

    def __init__(self, policy: Policy, project: ProjectConfig) -> None:
        self.kinds = Kinds({}, policy.profile)
        tight = msgspec.structs.replace(policy, projects={"web": project})
        self.within, self.without = self._guards(tight), self._guards(policy)

    def check(self, proposed: Proposed) -> list[tuple[Verdict, Verdict]]:
        kind = self.kinds.of(proposed.proposal)
        both = zip(self.within, self.without, strict=True)
        return [(one.check(proposed, kind), other.check(proposed, kind)) for one, other in both]

    def hear(self, event: Event) -> None:
        for guard in (*self.within, *self.without):
            guard.observe(event)

    def _guards(self, policy: Policy) -> list[Guard]:
        heedful = ("classify", "gate", "budget")
        return [guard for guard in Engine(policy)._guards if guard.name in heedful]


@pytest.mark.req("S3.60")
@given(policies, projects, st.lists(st.tuples(fields, st.booleans()), min_size=1, max_size=8))
def test_an_agent_that_is_not_listed_gains_nothing_by_naming_a_project(policy, project, story):
    pair = Pair(policy, project)

    for number, (said, approved) in enumerate(story):
        proposed = propose(number, "ops", id=f"p{number}", project="web", **said)
        verdicts = pair.check(proposed)
        for tight, usual in verdicts:
            assert tight.decision.rank >= usual.decision.rank, (tight, usual)
            assert tight.masks_text >= usual.masks_text
        strict = max((tight for tight, _ in verdicts), key=lambda verdict: verdict.decision.rank)
        pair.hear(decided(proposed, strict if number % 3 else ALLOWED, kinds=pair.kinds))
        if approved:
            pair.hear(unpause(number, agent="ops"))
