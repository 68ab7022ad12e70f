"""Analysis of awk programs."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.shell.code.awk_code import read_awk
from safetyd.core.shell.reading import HOLE, Code, Effect
from tests.core.shell.code.expected import read, shell, written

UNREADABLE: Final = (Effect.UNKNOWN, "cannot be analysed: it is not valid awk")
HIDDEN: Final = (Effect.UNKNOWN, "loads or evaluates other code")
ENVIRONMENT: Final = (Effect.SECRETS, "prints all environment variables")
CONNECTS: Final = (Effect.LEAVES, "opens a connection to another machine")


HARMLESS: Final = [
    "",
    "{print $1}",
    "{print $1, $NF}",
    "NR > 1 {print $2}",
    "$3 > 100",
    "$3 > 100 && $4 < 5 {n++} END {print n}",
    'BEGIN {FS=":"} {a[$1] += $2} END {for (k in a) print k, a[k]}',
    "{print ($1 > $2)}",
    '{print ($1 > $2 ? "a" : "b")}',
    "/> file/ {print}",
    "/[/]usr > x/ {print}",
    "/[]/>]/ {print}",
    "/[^]/>]/ {print}",
    r"/\/ > x/ {print}",
    '{print "a > b | c"}',
    '{print "system(\\"ls\\")"} # system("ls")',
    '# print > "x"\n{print}',
    "{x = $1 / 2; y = $2 / 3; print x / y}",
    "{print length($0) / 2, a[1] / 2, n++ / 2}",
    "{if ($1 > 5) print $1; else if ($2 >= 3) print $2}",
    "{if ($1) /x/; print}",
    "!seen[$0]++",
    '{gsub(/a|b/, "c"); printf "%s\\n", $1}',
    "BEGIN {while ((getline line) > 0) n++; print n}",
    "$1 ~ /a|b/ || $2 !~ /c/ {print}",
    "function f(a, b) {return a > b}\n{print f($1, $2)}",
    "{print \\\n $1}",
    "{print $1,\n $2}",
    'BEGIN {print ENVIRON["HOME"]; for (k in ENVIRON) print k}',
    "{sum += $1} END {print sum/NR}",
    "BEGIN {print 1e3, .5 , 0x1F}",
    '{ a = b ** 2; c **= 2; close("x") }',
    f'/{HOLE}/ {{print "{HOLE}"}}',
]

EFFECTS: Final = [
    ('BEGIN {system("rm -rf /")}', shell("rm -rf /")),
    ('{system ("rm " $1)}', shell(f"rm {HOLE}")),
    ("{system($0)}", shell(HOLE)),
    ("{system()}", shell(HOLE)),
    ('BEGIN {c = "ls"; system(c)}', shell("ls")),
    ('BEGIN {c = "ls"; c = c " x"; system(c)}', shell(HOLE)),
    ('BEGIN {c = "ls"; sub(/ls/, "rm", c); system(c)}', shell(HOLE)),
    ('BEGIN {c = "ls" x; system(c)}', shell(HOLE)),
    ('BEGIN {system("\\162\\155 x")}', shell(f"{HOLE}62{HOLE}55 x")),
    ('BEGIN {system("a\\tb\\"c\\"\\\\")}', shell('a\tb"c"\\')),
    ('BEGIN {system("a" toupper("b") "c")}', shell(f"a{HOLE}bc")),
    ('BEGIN {awk::system("ls")}', shell("ls")),
    ('BEGIN {system("a"); system("b")}', shell("a", "b")),
    ('{x = 1 / system("ls") / 2}', shell("ls")),
    ('BEGIN {if (1) /"/; system("id"); x = "/"}', shell("id")),
    ('BEGIN {"date" | getline d; print d}', shell("date")),
    ('BEGIN {while (("ls " dir | getline f) > 0) print f}', shell(f"ls {HOLE}")),
    ('BEGIN {x = ("a" "b") | getline}', shell("ab")),
    ('"date" | getline', shell("date")),
    ('BEGIN {"cat" |& getline x}', shell("cat")),
    ('{print | "sort"}', shell("sort")),
    ('{print $1, $2 | "sort -k" n}', shell(f"sort -k{HOLE}")),
    ('{print $1 |& "cat"}', shell("cat")),
    ('{print "cat" | getline}', shell("cat")),
    ('{print > "out.txt"}', written("out.txt")),
    ('{print $1 >> "/etc/passwd"; print}', written("/etc/passwd")),
    ('{print($1, $2) > "out"}', written("out")),
    ('{print (a > b) > "out"}', written("out")),
    ('{printf "%s", $1 > $2 ".txt"}', written(f"{HOLE}.txt")),
    ('{print $1,\n $2 > "out"}', written("out")),
    ('{print a > "x" > "y"}', written("x", "y")),
    ("{print > FILENAME}", written(HOLE)),
    ('BEGIN {f = "out"\nprint 1 > f}', written("out")),
    ('BEGIN {print "x" > "/inet/tcp/0/example.org/80"}', Code(findings=(CONNECTS,))),
    ('BEGIN {getline line < "/etc/passwd"; print line}', read("/etc/passwd")),
    ('BEGIN {while ((getline a[n] < "f") > 0) n++; getline < "g"}', read("f", "g")),
    ('{getline $1 < "f"; getline $(2) < "g"}', read("f", "g")),
    ('@load "filefuncs"', Code(findings=(HIDDEN,))),
    ('@include "x"; BEGIN {f = "system"; @f("ls")}', Code(findings=(HIDDEN,))),
    ("BEGIN {for (k in ENVIRON) print ENVIRON[k]}", Code(findings=(ENVIRONMENT,))),
    ('BEGIN {print ENVIRON["API_TOKEN"]}', Code(
        findings=((Effect.SECRETS, "reads API_TOKEN from the environment"),))),
    ('{print "a}', Code(findings=(UNREADABLE,))),
    ('{print "a\nb"}', Code(findings=(UNREADABLE,))),
    ("/a", Code(findings=(UNREADABLE,))),
    ("/a\n/", Code(findings=(UNREADABLE,))),
    ("{print", Code(findings=(UNREADABLE,))),
    ("}", Code(findings=(UNREADABLE,))),
    ("{print)", Code(findings=(UNREADABLE,))),
    ("{print `a`}", Code(findings=(UNREADABLE,))),
    (f"{{print {HOLE}}}", Code(findings=(UNREADABLE,))),
    ('BEGIN {system("' + '" "'.join("a" * 300) + '")}', shell(HOLE)),
    ("{print getline", Code(findings=(UNREADABLE,))),
]  # fmt: skip


@pytest.mark.parametrize("program", HARMLESS)
def test_harmless_programs_have_no_findings(program: str) -> None:
    assert read_awk(program) == Code()


@pytest.mark.parametrize(("program", "expected"), EFFECTS)
def test_the_effects_of_a_program_are_found(program: str, expected: Code) -> None:
    assert read_awk(program) == expected


def test_findings_before_a_syntax_error_are_reported() -> None:
    code = read_awk('BEGIN {system("ls")} `')

    assert (code.findings, code.shell) == ((UNREADABLE,), ("ls",))


@given(
    st.sampled_from([one for one, code in EFFECTS if UNREADABLE not in code.findings]),
    st.text("ab(/>| "),
)
def test_a_comment_or_an_unused_string_changes_nothing(program: str, words: str) -> None:
    assert read_awk(f"{program}\n# {words}") == read_awk(program)
    assert read_awk(f'BEGIN {{"{words}"}}\n{program}') == read_awk(program)
