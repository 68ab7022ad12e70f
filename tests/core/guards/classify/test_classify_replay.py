"""For any story: a classify guard rebuilt from the journal is the same."""

from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.guards.projects import ProjectConfig, ProjectSettings
from safetyd.core.guards.rules import ProjectRules, RulesConfig
from safetyd.core.messages.verdict import Severity, strictest
from tests.core.guards.classify.classify_rig import ClassifyRig, closed, rule
from tests.core.guards.guard_rig import assert_retold, stories
from tests.cost import ratio, reading
from tests.story import propose

WEB = ProjectConfig(
    root="/srv/web",
    agents=("code",),
    rules=ProjectRules(allow_without_permission=("push",), memory_per_session=3),
    from_file=ProjectSettings(rules=ProjectRules(require_permission=("edit_file",))),
)
RULES = RulesConfig(
    memory_per_session=2,
    custom=(
        rule(Severity.BLOCK, "b", types=("deploy",), hours="12:00-12:01"),
        rule(Severity.ALLOW, "a", types=("modify_code",), paths=("docs/**",)),
    ),
)

agents = st.sampled_from(["code", "ops"])
sessions = st.sampled_from([None, "s", "t"])
types = st.sampled_from(
    [
        "read_file",
        "memory_write",
        "memory_prune",
        "memory_zap",
        "push",
        "edit_file",
        "deploy",
        "change_auth",
        "dance",
        "Jump",
        "send_email",
        "modify_code",
        "delete_file",
    ]
)
proposals = st.builds(
    propose,
    st.just(0),
    agent=agents,
    type=types,
    session=sessions,
    project=st.sampled_from([None, "web", "other"]),
    paths=st.sampled_from(
        [(), ("docs/a",), ("/srv/web/docs/a",), ("../x", "docs/a"), ("~/.ssh/x",)]
    ),
    risk=st.sampled_from([None, "low", "high", "prohibited"]),
    reversibility=st.sampled_from([None, "read_only", "irreversible"]),
)
ends = st.builds(closed, agents, st.sampled_from(["", "s", "t"]))


def rig(profile: str = "coding") -> ClassifyRig:
    return ClassifyRig(RULES, {"web": WEB}, profile=profile)


@given(stories(proposals | ends), proposals)
def test_a_replayed_classifier_is_the_same_one(story, last) -> None:
    assert_retold(lambda: rig().guard, story, last, rig().kinds)


@given(proposals)
def test_an_agents_own_words_only_tighten(proposed) -> None:
    fields = {"agent": proposed.agent, "paths": proposed.proposal.paths}
    fields["project"] = proposed.proposal.project
    silent = rig().looks(proposed.proposal.type, **fields)

    verdict = rig().judges(proposed)

    assert strictest((verdict, silent)) is verdict


@given(proposals)
def test_naming_a_project_only_tightens_for_an_agent_it_does_not_list(proposed) -> None:
    fields = {"agent": "ops", "paths": proposed.proposal.paths, "risk": proposed.proposal.risk}
    fields["cwd"] = "/srv/web"  # a project also says where relative paths begin
    elsewhere = rig().looks(proposed.proposal.type, **fields)

    verdict = rig().looks(proposed.proposal.type, project="web", **fields)

    assert strictest((verdict, elsewhere)) is verdict


def test_a_look_at_what_passes_costs_a_fraction_of_reading_it() -> None:
    guard, kinds = rig().guard, rig().kinds
    proposed = propose(0, type="search", project="web")
    kind = kinds.of(proposed.proposal)

    assert ratio(lambda: guard.check(proposed, kind), reading, times=100) < 0.5
