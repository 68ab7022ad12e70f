"""The grant command in the remedy of a block really allows the action."""

import shlex

import pytest

from safetyd.core.approvals.grant_hints import is_exact, may_be_named
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.guards.rules import CustomRule, RulesConfig, When
from safetyd.core.messages.proposal import Target
from safetyd.core.messages.verdict import Severity, Verdict
from safetyd.core.policy import Policy
from tests.core.approvals.grant_samples import granted
from tests.core.approvals.queue_story import QueueStory
from tests.story import propose, stop

FREEZE = CustomRule(name="freeze", when=When(types=("click", "comment")), then=Severity.BLOCK)
FROZEN = Policy(rules=RulesConfig(custom=(FREEZE,)))
HOSTILE = "reset 'x' \"$(y)\" \x1b]0;z\x07 \u00fc (a|b)* .+\n[c]\\"


def blocked(proposed: Proposed, policy: Policy | None = None) -> Verdict:
    queue = QueueStory(policy)
    assert queue.proposes(proposed).decision is Severity.BLOCK
    decided = queue.journal[0]
    assert isinstance(decided, Decided)
    return decided.verdicts[0]


def verdicts(queue: QueueStory) -> list[Verdict]:
    return [v for event in queue.journal if isinstance(event, Decided) for v in event.verdicts]


def options(line: str) -> dict[str, str]:
    words = shlex.split(line)
    assert words[:3] == ["safetyd", "grant", "add"]
    return dict(zip(words[3::2], words[4::2], strict=True))


def lines(verdict: Verdict) -> list[dict[str, str]]:
    return [options(part) for part in verdict.remedy.split("`")[1::2]]


@pytest.mark.parametrize(
    ("proposed", "policy"),
    [
        (propose(0, type="click", text="reset it"), Policy()),
        (propose(0, type="click", text="delete and reset it"), Policy()),
        (propose(0, type="click", text=HOSTILE), Policy()),
        (propose(0, type="click", text="go", target=Target(label="Reset", name="form")), Policy()),
        (propose(0, type="click", target=Target(label="Reset")), Policy()),
        (propose(0, type="change_password", text="for bob"), Policy()),
        (propose(0, type="change_password"), Policy()),
        (propose(0, type="click"), FROZEN),
    ],
)
def test_the_printed_command_permits_what_was_blocked(proposed: Proposed, policy: Policy) -> None:
    verdict = blocked(proposed, policy)
    queue = QueueStory(policy)

    for n, line in enumerate(lines(verdict)):
        assert (line["--agent"], line["--type"]) == ("code", proposed.proposal.type)
        assert line["--text"].isascii()
        assert line["--text"].isprintable()
        queue.happens(granted(0, f"grt_{n}", rules=(line["--rule"],), text=line["--text"]))

    assert queue.proposes(proposed).allowed


@pytest.mark.parametrize(
    "text", ["safetyd watch", "sh -c 'safetyd approve x'", "echo \u00fc $(safetyd run)"]
)
def test_of_what_is_safetyds_own_the_remedy_alone_has_the_command(text: str) -> None:
    coding = Policy(profile="coding")
    proposed = propose(0, type="run_shell", text=text)
    verdict = blocked(proposed, coding)
    (line,) = lines(verdict)
    queue = QueueStory(coding)

    queue.happens(granted(rules=(line["--rule"],), text=line["--text"]))

    assert line["--rule"] == "gate.own"
    assert is_exact(line["--text"])
    assert queue.proposes(proposed).allowed


def test_a_path_of_safetyds_own_is_not_to_be_permitted() -> None:
    verdict = blocked(propose(0, text="look", paths=["keys/operator.nk"]))

    assert "safetyd" not in verdict.remedy


@pytest.mark.parametrize(
    "pattern", ["", "a", "^a", "a$", "^.$", "^a.*$", "^a|b$", "^\\w$", "^(a|.)$", "^(a$", "^[a]$"]
)
def test_a_pattern_that_leaves_something_open_is_not_exact(pattern: str) -> None:
    assert not is_exact(pattern)


def test_the_printed_command_permits_nothing_else() -> None:
    verdict = blocked(propose(0, type="click", text="reset a.b"))
    (line,) = lines(verdict)
    queue = QueueStory()
    queue.happens(granted(rules=(line["--rule"],), text=line["--text"]))

    assert not queue.proposes(propose(1, id="p1", type="click", text="reset a.b now")).allowed
    assert not queue.proposes(propose(2, id="p2", type="click", text="reset a_b")).allowed


@pytest.mark.parametrize(
    "proposed",
    [
        propose(0, type="click", text="reset " + "x" * 200),
        propose(0, type="type", text="reset hunter2", target=Target(label="Password")),
    ],
)
def test_a_long_or_secret_text_is_left_to_the_person(proposed: Proposed) -> None:
    verdict = blocked(proposed)

    assert "--text PATTERN " in verdict.remedy
    assert "hunter2" not in verdict.reason + verdict.remedy


@pytest.mark.parametrize(
    ("proposed", "policy", "before"),
    [
        (propose(1), Policy(), (stop(0),)),
        (propose(1, type="comment", text="hi"), FROZEN, ()),
    ],
)
def test_what_no_grant_lifts_prints_none(proposed, policy, before) -> None:
    queue = QueueStory(policy)
    queue.happens(*before)

    queue.proposes(proposed)

    assert not any("grant add" in verdict.remedy for verdict in verdicts(queue))


def test_the_remedy_of_a_dry_run_has_the_command_as_well() -> None:
    queue = QueueStory()
    queue.proposes(propose(0, type="click", text="reset it", dry_run=True))

    assert any("grant add" in verdict.remedy for verdict in verdicts(queue))


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("gate.blocklist:reset", True),
        ("classify.prohibited", True),
        ("rules.freeze", True),
        ("classify.failed", False),
        ("classify.human", False),
        ("rules.known_contacts", False),
        ("gate.loop", False),
        ("budget.day", False),
        ("emergency_stop", False),
    ],
)
def test_only_rules_of_classify_and_of_the_blocklist_may_be_named(rule: str, named: bool) -> None:  # noqa: FBT001
    assert may_be_named(rule) is named
