"""Analysis of sed scripts."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.shell.code.sed_code import read_sed
from safetyd.core.shell.reading import HOLE, Code, Effect
from tests.core.shell.code.expected import read, written

UNREADABLE: Final = Code(
    findings=((Effect.UNKNOWN, "cannot be analysed: it is not a valid sed script"),)
)
RUNS_LINES: Final = Code(findings=((Effect.UNKNOWN, "runs its input lines as commands"),))
RUNS_REPLACED: Final = Code(findings=((Effect.UNKNOWN, "runs the replaced text as commands"),))


HARMLESS: Final = [
    "",
    "s/a/b/",
    "s/a/b/g; s|c|d|2; s,e,f,gI",
    "1,10p",
    "$d",
    "/^#/d",
    "/start/,/end/{s/x/y/;p}",
    "0,/re/I s/a/b/",
    "1~2p;2,~4d;5,+3p",
    "$!N;P;D",
    "\\%/usr/local%d",
    r"\,a\,b,d",
    ":a;N;$!ba;s/\\n/ /g",
    "y/abc/xyz/",
    "y/[/]/",
    "/x/!d",
    "q5",
    "l 20",
    "a hello; w /etc/passwd",
    "a\\\nhello\\\nw /etc/passwd",
    "i\\\n  e rm -rf /",
    "c\\",
    "# w /etc/passwd\np",
    "s/[/]w x/y/",
    "s/[]/]/x/",
    "s/[^]/]/x/",
    "s/[[:space:]/]*$//",
    r"s/\[/(/",
    r"s/a\/w b/c/",
    "s/w file/e/",
    "v 4.2",
    "b end; p; : end",
    f"s/a/{HOLE}/g",
    "=;F;z;x;h;H;g;G;n",
]

EFFECTS: Final = [
    ("w out.txt", written("out.txt")),
    ("/x/w out.txt", written("out.txt")),
    ("W out; p", written("out; p")),
    ("s/a/b/w /etc/passwd", written("/etc/passwd")),
    ("s/a/b/gpw out\np", written("out")),
    ("1{w a\n}\nw b", written("a", "b")),
    (f"w {HOLE}", written(HOLE)),
    ("r in.txt", read("in.txt")),
    ("$R /etc/passwd", read("/etc/passwd")),
    (r"s/[\]/x/;w f", written("f")),
    ("s/a/[/;w f", written("f")),
    ("a text\nw f", written("f")),
    ("a one\\\ntwo\nw f", written("f")),
    ("1e rm -rf /", Code(shell=("rm -rf /",))),
    ("e ls\ne id", Code(shell=("ls", "id"))),
    ("e", RUNS_LINES),
    ("s/a/b/e", RUNS_REPLACED),
    ("s/a/b/ ge", RUNS_REPLACED),
    ("s/a/b", UNREADABLE),
    ("s", UNREADABLE),
    ("s\\a\\b\\", UNREADABLE),
    ("y/a", UNREADABLE),
    ("/a", UNREADABLE),
    ("\\", UNREADABLE),
    ("s/[a/b/", UNREADABLE),
    ("s/[[:a/b/", UNREADABLE),
    ("s/[a[", UNREADABLE),
    ("w", UNREADABLE),
    ("1", UNREADABLE),
    ("k", UNREADABLE),
    (HOLE, UNREADABLE),
    (f"s{HOLE}a{HOLE}b{HOLE}", UNREADABLE),
]


@pytest.mark.parametrize("script", HARMLESS)
def test_harmless_scripts_have_no_findings(script: str) -> None:
    assert read_sed(script) == Code()


@pytest.mark.parametrize(("script", "expected"), EFFECTS)
def test_the_effects_of_a_script_are_found(script: str, expected: Code) -> None:
    assert read_sed(script) == expected


@given(st.sampled_from([script for script, _ in EFFECTS]), st.text("abe/w ;"))
def test_a_comment_does_not_change_the_result(script: str, words: str) -> None:
    assert read_sed(f"# {words}\n{script}") == read_sed(script)
