"""Functions that call themselves, and files that are written twice."""

import pytest

from safetyd.core.shell import judge, programs


def verdict(command: str) -> str:
    stopping = judge.read(command, programs.shipped()).stopping
    if not stopping:
        return "pass"
    return "block" if stopping[0].blocks else "ask"


@pytest.mark.parametrize(
    "command",
    [
        ":(){ :|:& };:",
        "bomb() { bomb | bomb & }; bomb",
        "f() { f & f & }; f",
        "f() { (f &); f; }",
        "function f { while true; do f & done; }; f",
    ],
)
def test_function_that_starts_itself_beside_itself_is_blocked(command: str) -> None:
    assert verdict(command) == "block"


@pytest.mark.parametrize(
    "command",
    [
        "f() { echo $1 | cat; }; f x",
        "count() { [ $1 -gt 0 ] && count $(($1 - 1)); }; count 3",
        "f() { echo a & }; f",
    ],
)
def test_function_that_waits_for_itself_is_read(command: str) -> None:
    assert verdict(command) == "pass"


def test_second_call_of_a_function_by_itself_may_have_any_words() -> None:
    assert verdict("f() { rm -rf $1; f /etc; }; f build") == "ask"


def test_file_that_is_appended_to_holds_both_texts() -> None:
    written = 'echo "rm -rf /" > a; echo "echo done" >> a; sh a'

    assert verdict(written) == "block"
    assert verdict('echo "echo 1" > a; echo "echo 2" >> a; sh a') == "pass"


def test_file_that_a_program_changed_is_not_known_any_more() -> None:
    assert verdict('echo "echo 1" > a.sh; tee a.sh; sh a.sh') == "ask"
