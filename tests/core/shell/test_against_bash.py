"""safetyd and bash find the same simple commands, or the command needs approval."""

import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.shell.places import Project
from safetyd.core.shell.reading import Effect
from safetyd.core.shell.scope import Command, Scope, Trace
from safetyd.core.shell.statements import Statements
from safetyd.core.shell.tree import syntax
from safetyd.core.shell.words import COMMAND, Flow
from tests.core.shell.printed_by_bash import first_words, printed
from tests.core.shell.test_corpus import labelled
from tests.core.shell.test_properties import HARMLESS, WRAPPERS, wrapped
from tests.core.shell.verdicts import stopping
from tests.examples import examples

REJECTED: Final = (
    *("ls; }", "ls )", "( ls", "{ ls", "if ls; then", "ls |", "ls &&", "ls ;; ls", "| ls"),
    *("echo 'a", 'echo "a', "echo $(ls", "echo `ls", "for i in a b; ls; done", "case x in a ls"),
    *("ls && || ls", "ls & & ls", "; ls", "if; then ls; fi", "do ls; done", "fi", "done", "esac"),
    *(
        "then ls",
        "else",
        "function",
        "f() ",
        "() { ls; }",
        "ls > ",
        "ls <",
        "cat << ",
        "[[ a",
        "(( 1",
    ),
    *("ls >> > x", "while; do ls; done", "! | ls", "a=(1 2", "echo ${a", "{ }", "( )", "ls (a)"),
    *("case in esac esac", "ls ;;", "select", "echo )", "ls & ;"),
)
WORDS: Final = (
    *(
        "ls",
        "rm",
        "echo a",
        "-rf",
        "/",
        "x",
        "'a b'",
        '"c d"',
        "$X",
        "$(ls)",
        "`ls`",
        "X=1",
        "a=(1)",
    ),
    *("if", "then", "else", "fi", "for i in a", "do", "done", "while", "case x in", "a)", "esac"),
    *("{", "}", "(", ")", "[[ a ]]", "((", "))", "!", "time", "function f", "f()", "in"),
    *(";", "&", "&&", "||", "|", "|&", ";;", "\n", "> x", "2>&1", "< x", "<<< x", "<(ls)", ">(ls)"),
    *(
        "<<E\nx\nE\n",
        "# c\n",
        "\\",
        "\\\n",
        "''",
        "{a,b}",
        "*",
        "~",
        "export A=1",
        "local",
        "[ a ]",
    ),
)


BEFORE: Final = frozenset({"time", "-p", "!"})  # words for safetyd, syntax for bash


def ours(text: str) -> list[str] | None:
    """Return the first word of each simple command in our analysis, or None if it fails."""
    found: dict[int, str] = {}
    source = text.encode()
    trace = Trace(text)

    def run(command: Command, scope: Scope) -> Flow:
        if command.words and not trace.way:
            given = [(word.start, source[word.start : word.end].decode()) for word in command.words]
            found.update([(start, word) for start, word in given if word not in BEFORE][:1])
        return Flow(None, COMMAND)

    scope = Scope(Project())
    statements = Statements(run, trace, lambda _: False)
    try:
        syntax.check(text)
        statements.read(text, scope)
        bodies = set[int]()
        while left := statements.defined.keys() - bodies:
            for each in left:
                statements.body(statements.defined[each].body, scope, None)
            bodies |= left
    except (syntax.NotAnalysable, RecursionError):
        return None
    return [found[start] for start in sorted(found)]


def compared(word: str) -> str:
    """Return the part of a word that safetyd and bash print in the same way."""
    bare = re.sub(r"\$(?=['\"])|\\\n", "", word)
    if word.startswith("$'"):
        bare = re.sub(r"\\x(..)", lambda found: chr(int(found[1], 16)), bare)
    return re.split(r"\$\(|`|<\(", bare)[0].strip("'\"")


def check(text: str) -> None:
    own, said = ours(text), printed(text)
    assert own is None or said is not None, f"bash rejects {text!r}"
    assert own is None or agree(own, said or ""), said


def check_stopped(text: str) -> None:
    """Check that a text needs approval if bash parses it differently."""
    own, said = ours(text), printed(text)
    if own is None or said is None or not agree(own, said):
        assert any(found.effect is Effect.UNKNOWN for found in stopping(text))


def agree(own: list[str], said: str) -> bool:
    theirs = [compared(word) for word in first_words(said) if word != "["]
    return sorted(compared(word) for word in own if word != "[") == sorted(theirs)


def test_bash_is_new_enough_to_print_parsed_commands() -> None:
    assert (printed("ls") or "").strip() == "ls", "tests compare with bash 5.2 or newer: install it"


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_bash_finds_the_same_commands_in_wrappers(wrapper: str) -> None:
    for command in HARMLESS[:2]:
        check(wrapped(command, [wrapper]))


@pytest.mark.parametrize("text", REJECTED)
def test_a_text_that_bash_rejects_needs_approval(text: str) -> None:
    assert printed(text) is None
    assert ours(text) is None
    assert stopping(text)


def test_bash_finds_the_same_commands_in_the_corpus() -> None:
    texts = [case.command for case in labelled()]
    for text in texts:
        if syntax.plain_words(text) is None:
            check(text)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9))
@examples(2, deadline=None)
def test_random_words_need_approval_if_bash_parses_them_differently(words: list[str]) -> None:
    check_stopped(" ".join(words))
