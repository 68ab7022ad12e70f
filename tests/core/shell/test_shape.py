"""A shape is the text of a command, with placeholders for parts that may vary."""

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.shell import judge, programs
from safetyd.core.shell.places import Project
from safetyd.core.shell.reading import Blank
from safetyd.core.shell.shape import filled, in_words, narrowed

TABLE = programs.shipped()
PATH, NUMBER, MESSAGE = "<a path in the project>", "<a number>", "<a message>"
SEEN = "acmectl lint src/a.py --fix"


def shape(text: str, root: str = "") -> str:
    return judge.read(text, TABLE, Project(root, root)).shape


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (SEEN, f"acmectl lint {PATH} --fix"),
        ("acmectl lint src/a.py | head -n 20", f"acmectl lint {PATH} | head -n {NUMBER}"),
        ("git commit -m 'fix it' src/a.py", f"git commit -m {MESSAGE} {PATH}"),
        ("cd src; acmectl lint a/b.py", f"cd src; acmectl lint {PATH}"),
        # Paths stay literal if they are deleted, sent, installed or outside the project.
        ("rm -rf src/old", "rm -rf src/old"),
        ("scp src/a.py host:/x", "scp src/a.py host:/x"),
        ("git push origin feature/x", "git push origin feature/x"),
        ("npm install lodash", "npm install lodash"),
        (
            "acmectl lint /etc/a.txt ../x/y ~/z.py",
            "acmectl lint /etc/a.txt ../x/y ~/z.py",
        ),
        ("cd /; acmectl lint a/b.py", "cd /; acmectl lint a/b.py"),
        ("cat src/a.py > /etc/x", "cat src/a.py > /etc/x"),
        ("acmectl lint 'src/a.py'", "acmectl lint 'src/a.py'"),
        ("acmectl lint src/*.py $X", "acmectl lint src/*.py $X"),
        ("acmectl retry 3", "acmectl retry 3"),
        ("gh pr create -m 'a b'", "gh pr create -m 'a b'"),
        ("sh -c 'acmectl lint src/a.py'", "sh -c 'acmectl lint src/a.py'"),
        ("acmectl lint 'src", "acmectl lint 'src"),
        ("cat ./-", "cat ./-"),
    ],
)
def test_a_command_has_this_shape(command: str, words: str) -> None:
    assert in_words(shape(command)) == words


def test_an_absolute_path_below_the_root_is_a_placeholder() -> None:
    assert in_words(shape("acmectl lint /srv/app/a.py", "/srv/app")) == f"acmectl lint {PATH}"
    assert shape("acmectl lint /srv/b/a.py", "/srv/app") == "acmectl lint /srv/b/a.py"


@given(st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,2}\.[a-z]{1,3}", fullmatch=True))
def test_another_file_of_the_project_has_the_same_shape(path: str) -> None:
    assert shape(f"acmectl lint {path} --fix") == shape(SEEN)


@given(
    st.sampled_from(
        [
            "{0}x lint src/b.py --fix",
            "acmectl {0}t src/b.py --fix",
            "acmectl lint src/b.py --{0}",
            "acmectl lint src/b.py --fix --{0}",
            "acmectl lint src/b.py --fix={0}",
            "acmectl lint /{0}/b.py --fix",
            "acmectl lint ../{0} --fix",
            "acmectl lint ~/{0} --fix",
            "acmectl lint https://{0}.example/a --fix",
            "acmectl lint {0}@host:a.py --fix",
            "acmectl lint src/b.py --fix > {0}",
            "acmectl lint src/b.py --fix >> {0}",
            "acmectl lint < {0} src/b.py --fix",
            "acmectl lint src/b.py --fix | {0}",
            "acmectl lint src/b.py --fix; {0}",
            "acmectl lint src/b.py --fix && {0}",
            "acmectl lint src/b.py --fix &",
            "{0}=1 acmectl lint src/b.py --fix",
            "sudo acmectl lint src/b.py --fix",
            "acmectl lint $({0}) --fix",
            "acmectl lint src/${0}.py --fix",
            "acmectl lint src/{0}* --fix",
        ]
    ),
    st.from_regex(r"[a-z]{1,8}", fullmatch=True),
)
def test_a_different_program_option_host_outside_path_or_redirection_changes_the_shape(
    command: str, word: str
) -> None:
    assert shape(command.replace("{0}", word)) != shape(SEEN)


def test_the_first_of_two_overlapping_blanks_is_replaced() -> None:
    assert filled("a bc d", [Blank(2, 4, "X"), Blank(3, 4, "Y")]) == "a X d"


@pytest.mark.parametrize(
    ("commands", "data", "covered", "others"),
    [
        (
            ["head -n 5 a/x.log", "head -n 12 a/x.log"],
            "",
            ["head -n 99 a/x.log"],
            ["head -n 100 a/x.log"],
        ),
        (
            ["touch a/x.py", "touch b/y.py"],
            "a/x.py b/y.py",
            ["touch b/z.py"],
            ["touch c/z.py", "touch a/.z.py", "touch a/z.sh"],
        ),
        (["touch a/x", "touch a/y"], "a/x a/y", ["touch a/z"], ["touch a/z.sh", "touch z"]),
        (["touch a/x.py", "touch a/y.py"], "a/x.py", ["touch a/y.py"], ["touch a/z.py"]),
        (
            ["git commit -m 'a b'", "git commit -m 'c'"],
            "",
            ["git commit -m 'd'"],
            ['git commit -m "$(d)"'],
        ),
        (["git commit -m 'a b'"] * 2, "", ["git commit -m 'a b'"], ["git commit -m 'd'"]),
        (["touch ./x.py", "touch ./y.py"], "./x.py ./y.py", ["touch ./x.py"], ["touch ./z.py"]),
    ],
)
def test_a_narrowed_shape_covers_values_like_those_seen(
    commands: list[str], data: str, covered: list[str], others: list[str]
) -> None:
    (common,) = {shape(command) for command in commands}

    matches = re2.compile(narrowed(common, commands, data.split())).search

    assert all(map(matches, [*commands, *covered]))
    assert not any(map(matches, others))
