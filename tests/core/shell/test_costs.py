"""The cost of analysis and decision is linear in the length of the command."""

from typing import Final

import pytest

from safetyd.console.shell.command_trial import CommandTrial, Place
from safetyd.core.policy import Policy
from safetyd.core.shell.judge import read
from safetyd.core.shell.programs import shipped
from tests.core.shell.verdicts import stopping
from tests.cost import ratio

SIZE: Final = 10_000  # bytes of the shorter text
MOST: Final = 8  # times the cost, for four times the text; quadratic cost would be sixteen

PARTS: Final = {
    "pipes": ("cat|", "cat"),
    "lists": ("X=1 || ", "ls"),
    "assignments": ("X=1;", "ls"),
    "words": ("", "ls"),
    "redirections": ("> x ", "ls"),
    "redirections between words": ("a > x b ", ""),
    "input between words": ("a < x b ", ""),
    "comments": ("# c\n", "ls"),
    "here-documents": ("cat <<E\nx\nE\n", "ls"),
    "substitutions": ("$(ls)", ""),
    "variables": ("$X", ""),
    "quotes": ("'a'\"b\"", ""),
    "braces": ("{a,b}{c,d} ", ""),
    "open pipes": ("a|", ""),
    "tangled arrows": ("<", ""),
    "tangled arrays": ("a=(", ""),
    "tangled functions": ("f()", ""),
    "tangled subscripts": ("x[ ", ""),
    "tangled expansions": ("${", ""),
    "open brackets": ("(", ""),
    "open branches": ("if ", ""),
}


@pytest.mark.parametrize("name", PARTS)
def test_four_times_the_text_costs_about_four_times_as_much(name: str) -> None:
    part, end = PARTS[name]
    short = (part or "x ") * (SIZE // len(part or "x "))
    texts = [f"echo {short * times}{end}" for times in (4, 1)]
    long, shorter = (lambda text=text: read(text, shipped()) for text in texts)
    assert ratio(long, shorter, rounds=3) < MOST


def test_the_cost_is_linear_in_the_number_of_words() -> None:
    texts = [f"rm {' '.join(f'a{number}' for number in range(many))}" for many in (8_000, 2_000)]
    long, shorter = (lambda text=text: read(text, shipped()) for text in texts)
    assert ratio(long, shorter, rounds=3) < MOST


def test_the_cost_of_a_decision_is_linear_in_the_number_of_options() -> None:
    trial = CommandTrial(Policy(profile="coding"))
    numbers = iter(range(10**6))  # a new command each time, because results are cached
    long, shorter = (
        lambda times=times: trial.decide(f"git {'-c a.b=c ' * times}log {next(numbers)}", Place())
        for times in (480, 30)
    )
    assert ratio(long, shorter, rounds=3) < 24  # for 16 times the options; quadratic: 40


@pytest.mark.parametrize(
    "command",
    [
        f"git {'-c user.name=x ' * 600}log",
        f"rm {' '.join(f'a{number}.o' for number in range(5000))}",
    ],
)
def test_a_command_with_too_many_parts_cannot_be_analysed(command: str) -> None:
    assert any("cannot be analysed" in finding.why for finding in stopping(command))


def test_the_cost_of_python_code_is_linear_in_its_statements() -> None:
    texts = [f"python3 -c '{';'.join(['x=x+x'] * many)}'" for many in (800, 200)]
    long, shorter = (lambda text=text: read(text, shipped()) for text in texts)
    assert ratio(long, shorter, rounds=3) < MOST


def test_a_command_without_shell_syntax_costs_less() -> None:
    plain, other = "git status", "cd src && grep -rn foo . | head -20"
    assert ratio(lambda: read(plain, shipped()), lambda: read(other, shipped()), 50) < 1
