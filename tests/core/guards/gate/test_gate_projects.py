import pytest

from safetyd.core.guards.gate.gate_config import GateConfig, problems
from safetyd.core.guards.projects import (
    ProjectConfidence,
    ProjectConfig,
    ProjectGate,
    ProjectSettings,
)
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict
from tests.core.guards.gate.gate_rig import HOME, GateRig, kinds
from tests.core.guards.guard_rig import replayed, rules
from tests.story import propose

ASK, BLOCK = Severity.ASK, Severity.BLOCK


def web(base: GateConfig | None = None, **project: object) -> GateRig:
    """Return a gate with one project, `web`, that lists the agent `code`."""
    return GateRig(base, projects={"web": ProjectConfig(agents=("code",), **project)})  # type: ignore[arg-type]


def both(agent: GateRig, type: str = "click", **fields: object) -> tuple[Verdict, Verdict]:  # noqa: A002
    """Return the verdict for the agent that the project lists, and for another."""
    asked = [propose(0, name, type=type, project="web", **fields) for name in ("code", "ops")]  # type: ignore[arg-type]
    return tuple(agent.gate.check(p, kinds().of(p.proposal)) for p in asked)  # type: ignore[return-value]


@pytest.mark.req("S3.60")
def test_a_projects_patterns_replace_the_usual_ones_for_its_agents_and_join_them_for_others() -> (
    None
):
    agent = web(gate=ProjectGate(blocklist_patterns=("frobnicate",)))

    listed, other = both(agent, text="delete")
    assert listed is ALLOWED
    assert other.rule == "gate.blocklist:delete"
    assert {v.rule for v in both(agent, text="frobnicate")} == {"gate.blocklist:custom_1"}
    assert agent.looks(text="frobnicate") is ALLOWED
    assert agent.looks(text="frobnicate", project="api") is ALLOWED


@pytest.mark.req("S3.60")
def test_a_projects_thresholds_loosen_only_for_the_agents_it_lists() -> None:
    lower = web(
        gate=ProjectGate(confidence_threshold=0.1), confidence=ProjectConfidence(medium=0.1)
    )
    higher = web(confidence=ProjectConfidence(low=0.9, required_for=("low",)))

    for type_ in ("click", "edit_file"):
        listed, other = both(lower, type_, confidence=0.4)
        assert (listed, other.rule) == (ALLOWED, "gate.confidence")
    assert {v.rule for v in both(higher, "read_file", confidence=0.8)} == {"gate.confidence"}
    assert {v.rule for v in both(higher, "read_file")} == {"gate.confidence"}
    assert higher.looks("read_file") is ALLOWED


def test_a_project_may_expect_an_app_or_none() -> None:
    base = GateConfig(expected_app="Chrome")

    listed, other = both(web(base, gate=ProjectGate(expected_app="")), target=Target(app="Word"))
    assert (listed, other.rule) == (ALLOWED, "gate.window")
    listed, other = both(
        web(base, gate=ProjectGate(expected_app="Word")), target=Target(app="Word")
    )
    assert (listed, other.rule) == (ALLOWED, "gate.window")


def test_visits_are_counted_once_and_judged_by_each_threshold() -> None:
    agent = web(gate=ProjectGate(loop_threshold=5))
    for _ in range(3):
        agent.asks(observation=HOME)

    listed = agent.looks(observation=HOME, project="web")

    assert listed is ALLOWED
    assert agent.looks(observation=HOME).rule == "gate.loop"


def test_every_rule_that_matched_in_any_set_is_listed() -> None:
    agent = web(gate=ProjectGate(irreversible_patterns=("frob",), expected_app="Word"))

    _, other = both(agent, text="pay frob", target=Target(app="Chrome"))

    assert other.decision is ASK
    assert rules(other) == ("gate.irreversible:pay", "gate.irreversible:custom_1", "gate.window")


def test_what_is_a_secret_in_any_set_is_masked() -> None:
    agent = web(gate=ProjectGate(credential_patterns=("pin",)))

    listed, other = both(agent, "type", text="1234", target=Target(label="password"))
    assert not listed.masks_text
    assert other.masks_text
    assert all(v.masks_text for v in both(agent, "type", text="1", target=Target(label="pin")))


def test_a_secret_that_a_project_names_is_the_same_visit_live_and_replayed() -> None:
    live, fresh = (web(gate=ProjectGate(credential_patterns=("pin",))) for _ in range(2))
    field = {"target": Target(label="pin"), "observation": HOME, "project": "web"}
    for text in ("1234", "4321", "1243"):
        live.asks("type", text=text, **field)

    assert replayed(fresh.gate, live.journal).save()() == live.gate.save()()


@pytest.mark.req("S3.60")
def test_a_file_that_agents_may_write_only_tightens_the_gate() -> None:
    loose = ProjectGate(
        blocklist_patterns=("frobnicate",), confidence_threshold=0, loop_threshold=9
    )
    agent = web(from_file=ProjectSettings(gate=loose, confidence=ProjectConfidence(low=0)))

    for word in ("delete", "frobnicate"):
        assert {v.decision for v in both(agent, text=word)} == {BLOCK}
    assert {v.decision for v in both(agent, confidence=0.5)} == {ASK}


def test_a_project_that_says_nothing_of_the_gate_has_the_usual_one() -> None:
    agent = web(from_file=ProjectSettings())

    for name in ("code", "ops"):
        usual = agent.gate._usual._rules
        assert agent.gate._binding(propose(0, name, project="web")) is usual


def test_problems_of_a_projects_gate_are_named() -> None:
    config = ProjectGate(shell_patterns=("a", "("), expected_window_pattern="[")

    assert [key for key, _ in problems(config)] == ["shell_patterns[1]", "expected_window_pattern"]
    assert problems(ProjectGate()) == []
