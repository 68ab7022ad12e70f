import enum
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

import safetyd
from safetyd import SafetyAssessment, SafetyConfig, SafetyDecision, SafetyGate
from safetyd.core.messages.proposal import Observation, Target


class ActionType(enum.Enum):
    CLICK = "click"
    TYPE = 2


@dataclass
class Action:
    type: object = ActionType.CLICK
    text: str | None = None
    target: object = None
    confidence: float | None = None


@dataclass
class Step:
    observation: object
    action: object = None


HOME = Observation(window_title="Home", app_name="Chrome", url="https://shop.example")
CART = Observation(window_title="Cart", app_name="Chrome", url="https://shop.example/cart")


def assess(action: object, observation: object = None) -> SafetyAssessment:
    return SafetyGate().assess(action, observation)


@pytest.mark.req("S4.17")
def test_there_are_three_decisions() -> None:
    assert {decision.value for decision in SafetyDecision} == {
        "allow",
        "block",
        "require_confirmation",
    }


@pytest.mark.req("S4.1")
@pytest.mark.req("S4.18")
def test_a_harmless_action_is_allowed_for_certain() -> None:
    assert assess(Action(), HOME) == SafetyAssessment(
        decision=SafetyDecision.ALLOW,
        reason="All safety checks passed",
        triggered_rules=[],
        confidence=1.0,
    )


@pytest.mark.req("S4.5")
@pytest.mark.req("S4.25")
@pytest.mark.req("S4.26")
@pytest.mark.parametrize(
    ("action", "decision", "rule"),
    [
        (Action(ActionType.TYPE, "rm -rf /"), SafetyDecision.BLOCK, "gate.blocklist:rm_rf"),
        (
            Action(target=Target(label="Submit Order")),
            SafetyDecision.REQUIRE_CONFIRMATION,
            "gate.irreversible:submit",
        ),
        (Action(confidence=0.5), SafetyDecision.REQUIRE_CONFIRMATION, "gate.confidence"),
        (
            Action("TYPE", "hunter2", SimpleNamespace(label="Password", name=None)),
            SafetyDecision.REQUIRE_CONFIRMATION,
            "gate.credential:password",
        ),
    ],
)
def test_the_dangers_of_the_design_are_caught(
    action: Action, decision: SafetyDecision, rule: str
) -> None:
    assessment = assess(action, HOME)

    assert assessment.decision is decision
    assert assessment.triggered_rules == [rule]
    assert assessment.reason


@pytest.mark.req("S4.26")
def test_the_third_visit_of_a_state_is_blocked_whatever_is_done_there() -> None:
    gate = SafetyGate()

    first, second, third = (gate.assess(Action(text=text), HOME) for text in "abc")

    assert first.decision is second.decision is SafetyDecision.ALLOW
    assert third.decision is SafetyDecision.BLOCK
    assert third.triggered_rules == ["gate.loop"]


@pytest.mark.req("S4.21")
def test_reset_forgets_all_visits() -> None:
    gate = SafetyGate(SafetyConfig(loop_threshold=2))
    gate.assess(Action(), HOME)

    gate.reset()

    assert gate.assess(Action(), HOME).decision is SafetyDecision.ALLOW
    assert gate.assess(Action(), HOME).decision is SafetyDecision.BLOCK


@pytest.mark.req("S4.20")
def test_with_a_trace_its_steps_are_the_visits() -> None:
    gate = SafetyGate()

    for _ in range(5):
        assert gate.assess(Action(), HOME, trace=[]).decision is SafetyDecision.ALLOW
    looped = gate.assess(Action(), HOME, trace=[Step(HOME), Step(CART), Step(HOME)])
    elsewhere = gate.assess(Action(), CART, trace=[Step(HOME), Step(CART), Step(None)])

    assert looped.decision is SafetyDecision.BLOCK
    assert elsewhere.decision is SafetyDecision.ALLOW


def test_without_an_observation_there_is_no_loop() -> None:
    gate = SafetyGate()

    for _ in range(5):
        assert gate.assess(Action(), None).decision is SafetyDecision.ALLOW
        assert gate.assess(Action(), None, trace=[Step(None)] * 9).triggered_rules == []


@pytest.mark.req("S4.19")
@pytest.mark.req("S4.4")
def test_the_defaults_are_those_of_the_design() -> None:
    config = SafetyConfig()

    assert config.blocklist_patterns[0] == r"\bdelete\b"
    assert config.irreversible_patterns[4] == r"\bclos(?:e|ing)\b.*\bunsaved\b"
    assert (config.confidence_threshold, config.loop_threshold) == (0.7, 3)
    assert "password" in config.credential_patterns
    assert config.credential_allowlist == []
    assert config.expected_app is config.expected_window_pattern is None


@pytest.mark.req("S4.4")
def test_everything_can_be_configured() -> None:
    gate = SafetyGate(
        SafetyConfig(
            blocklist_patterns=[r"\bwipe\b", r"\bdelete\b", r"\bdelete\b"],
            irreversible_patterns=["launch"],
            confidence_threshold=0.8,
            credential_patterns=["pin"],
            credential_allowlist=["pinboard"],
            expected_app="Chrome",
            expected_window_pattern="Shop",
        )
    )
    here = {"app": "chrome", "window": "Shop"}

    def rules(action: Action) -> list[str]:
        return gate.assess(action, None).triggered_rules

    assert rules(Action(text="wipe", target=SimpleNamespace(**here))) == ["gate.blocklist:custom_1"]
    assert rules(Action(text="delete", target=SimpleNamespace(**here))) == ["gate.blocklist:delete"]
    assert rules(Action(text="launch", target=SimpleNamespace(**here))) == [
        "gate.irreversible:custom_1"
    ]
    assert rules(Action("type", target=SimpleNamespace(label="PIN", **here))) == [
        "gate.credential:custom_1"
    ]
    assert rules(Action("type", target=SimpleNamespace(label="Pinboard", **here))) == []
    assert rules(Action(confidence=0.75)) == ["gate.window", "gate.confidence"]


@pytest.mark.parametrize("type", ["push", "dance", "read_file"])
def test_one_threshold_holds_for_every_type(type: str) -> None:  # noqa: A002
    assert assess(Action(type, confidence=0.7)).decision is SafetyDecision.ALLOW
    assert assess(Action(type, confidence=0.69)).triggered_rules == ["gate.confidence"]


@pytest.mark.req("S4.3")
def test_a_confidence_that_is_no_number_does_not_pass() -> None:
    assert assess(Action(confidence=float("nan"))).triggered_rules == ["gate.confidence"]


def test_half_a_character_does_no_harm() -> None:
    assert assess(Action(text="de\udc80lete"), Observation(url="\udc80")).triggered_rules == [
        "gate.blocklist:delete"
    ]


def test_a_bad_pattern_is_named() -> None:
    with pytest.raises(ValueError, match=r"pattern custom_1, '\(a'"):
        SafetyGate(SafetyConfig(blocklist_patterns=["(a"]))


@pytest.mark.req("S4.23")
def test_rules_of_ones_own_are_added_by_a_subclass() -> None:
    class Maintained(SafetyGate):
        def assess(self, action, observation, trace=None) -> SafetyAssessment:
            if action.text == "now":
                return SafetyAssessment(
                    SafetyDecision.BLOCK, "Maintenance", ["maintenance_window"], 1.0
                )
            return super().assess(action, observation, trace)

    gate = Maintained()

    assert gate.assess(Action(text="now"), HOME).triggered_rules == ["maintenance_window"]
    assert gate.assess(Action(text="later"), HOME).decision is SafetyDecision.ALLOW


@pytest.mark.req("S4.7")
def test_importing_safetyd_does_not_import_the_library() -> None:
    code = "import safetyd, sys; print(sorted(m for m in sys.modules if m.startswith('safetyd')))"

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stdout.strip() == "['safetyd']"


def test_what_safetyd_does_not_have_is_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'safetyd' has no attribute 'nonsense'"):
        _ = safetyd.nonsense


def test_mappings_are_read_like_objects() -> None:
    assessment = SafetyGate().assess(
        {"type": "click", "target": {"label": "Submit"}, "confidence": 0.9}, {"app_name": "Chrome"}
    )

    assert assessment.decision is SafetyDecision.REQUIRE_CONFIRMATION


@pytest.mark.parametrize("action", [{}, {"kind": "click"}, "click", None])
def test_an_action_without_a_type_is_an_error(action: object) -> None:
    with pytest.raises(TypeError, match="must have a type"):
        SafetyGate().assess(action, None)
