"""Suggestions from answers to commands: shapes, and entries for the table of programs."""

import tomllib

import pytest
import re2

from safetyd.core.approvals.suggestions import ENOUGH, Suggestion
from safetyd.core.policy import Policy
from safetyd.core.shell.shape import MESSAGE, NUMBER, PATH, pattern
from tests.core.approvals.queue_story import QueueStory
from tests.story import propose


def answered(policy: Policy, *commands: str, denied: int = 0) -> list[Suggestion]:
    """Return the suggestions after commands were approved, and the last ones denied."""
    queue = QueueStory(policy)
    for number, text in enumerate(commands):
        asked = queue.proposes(propose(number, type="run_shell", id=f"r{number}", text=text))
        last = number >= len(commands) - denied
        queue.answers(number, asked.request_id, "denied" if last else "approved")
    return queue.engine.past_answers.suggestions()


def test_an_unknown_program_that_is_always_approved_gets_lines_for_the_table() -> None:
    commands = [f"acmectl lint {n}/a.py --x{n}" for n in range(ENOUGH)]

    (found,) = answered(Policy(profile="coding"), *commands)

    assert tomllib.loads(found.toml) == {"shell": {"programs": {"acmectl": {"work": ["lint"]}}}}
    assert found.reason == f"approved {ENOUGH} times and never denied"


def test_a_program_without_a_verb_gets_an_effect() -> None:
    commands = [f"acmectl --x{n}" for n in range(ENOUGH)]

    (found,) = answered(Policy(profile="coding"), *commands)

    assert 'effect = "work"' in found.toml


def test_one_denial_is_enough_to_suggest_nothing() -> None:
    commands = [f"acmectl lint {n}/a.py" for n in range(ENOUGH + 1)]

    assert answered(Policy(profile="coding"), *commands, denied=1) == []


def test_commands_of_one_shape_make_one_rule() -> None:
    commands = [f"touch src/a{n}.py" for n in range(ENOUGH)]

    (found,) = answered(Policy(), *commands)

    (rule,) = tomllib.loads(found.toml)["rules"]["custom"]
    matches = re2.compile(rule["when"]["text"]).search
    assert matches("touch src/other.py")
    for other in ("touch ../x", "touch /etc/x", "touch src/.env", "touch src/a b", "rm src/a.py"):
        assert not matches(other), other


@pytest.mark.parametrize(
    ("shape", "matching", "other"),
    [
        (f"head -n {NUMBER}", "head -n 20", "head -n x"),
        (f"git commit -m {MESSAGE}", "git commit -m 'mend it'", 'git commit -m "$(x)"'),
        (f"cat {PATH}", "cat a/b.py", "cat a/../b.py"),
        ("ls", "ls", "ls a"),
    ],
)
def test_the_pattern_of_a_shape_matches_it_and_nothing_else(
    shape: str, matching: str, other: str
) -> None:
    found = re2.compile(pattern(shape))

    assert found.search(matching)
    assert not found.search(other)
