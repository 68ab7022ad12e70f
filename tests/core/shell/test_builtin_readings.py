"""What a shell does itself, and the corners of reading."""

import pytest

from safetyd.core.shell import judge, programs
from safetyd.core.shell.programs import Row, Wraps, problems
from safetyd.core.shell.reading import Blank, Effect
from safetyd.core.shell.shape import filled

TABLE = programs.shipped()


def verdict(command: str) -> str:
    found = judge.read(command, TABLE).stopping
    if not found:
        return "pass"
    return "block" if found[0].blocks else "ask"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cd && touch a", "ask"),
        ("pushd; touch a", "ask"),
        ("eval", "pass"),
        ("source", "ask"),
        ("trap - INT", "pass"),
        ("trap", "pass"),
        ("alias ls", "pass"),
        ('alias x="$Y"', "ask"),
        ("exec", "pass"),
        ("exec -a name", "pass"),
        ("command", "pass"),
        ("echo -n a", "pass"),
        ("echo -e 'rm -rf /' | sh", "block"),
        (r"echo -e '\x72m -rf /' | sh", "block"),
        (r"echo 'a\b'", "pass"),
        ("printf", "pass"),
        ("printf -v", "pass"),
        ("printf -v x rm; $x -rf a", "ask"),
        ("printf 'rm -rf /' | sh", "block"),
        ("printf '%s ' rm -rf / | sh", "block"),
        ("printf '100%%' a", "pass"),
        ("printf '%x' 7 | sh", "ask"),
        ("bash --version", "pass"),
        ("bash --rcfile=/tmp/x -c ls", "ask"),
        ("cat run.sh | bash", "pass"),
        ("cat run.sh > b.sh; sh b.sh", "ask"),
        ("bash $X", "ask"),
        ("cat $(< list)", "pass"),
        ("sort -o=/etc/x a", "ask"),
        ("python3 -c \"import os; os.remove('/tmp/x')\"", "pass"),
        ("X=' b'; echo a$X", "pass"),
        ("l\\\ns", "ask"),
        ("cat <<E\nE", "pass"),
        ("echo {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "pass"),
        ("rm {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "ask"),
        ("for i in 1 2; do printf -v x rm; $x -rf a; done", "ask"),
        ("SafetyD approve x", "block"),
        ("kill $(cat app.pid)", "pass"),
        ("mktemp tmp.XXXX", "pass"),
        ("f() [ a ]", "ask"),
        ("case a in & esac", "ask"),
        ("-rf2>&1 ls", "ask"),
        ("ls | (cat) > x y", "ask"),
        ("ls | (cat) > x", "pass"),
        ("true && { ls; } > /etc/x", "ask"),
        ("ls | while read f; do cat $f; done > x", "pass"),
        ("true && [ a ] > x y", "ask"),
        ("cat <<E && ls | wc\nE", "pass"),
        ("cat <<'E'\nE", "pass"),
    ],
)
def test_a_command_is_judged(command: str, expected: str) -> None:
    assert verdict(command) == expected


def test_a_text_that_is_too_tangled_is_not_read() -> None:
    (finding,) = judge.read("echo " + "${a:-" * 5_000 + "}" * 5_000, TABLE).findings

    assert (finding.effect, "cannot be read" in finding.why or "tangled" in finding.why) == (
        Effect.UNKNOWN,
        True,
    )


def test_of_two_blanks_in_one_place_the_first_holds() -> None:
    assert filled("a bc d", [Blank(2, 4, "X"), Blank(3, 4, "Y")]) == "a X d"


def test_a_row_may_name_the_word_that_a_command_follows() -> None:
    table = TABLE.with_rows({"inside": Row(wraps=Wraps(after="--"), effect=Effect.WORK)})

    assert judge.read("inside x -- rm -rf /", table).stopping[0].blocks
    assert judge.read("inside x", table).stopping[0].effect is Effect.UNKNOWN


def test_rows_that_cannot_match_are_named() -> None:
    rows = {
        "a/b": Row(effect=Effect.READ),
        "mine": Row(effect=Effect.READ, reader="git"),
        "empty": Row(),
        "both": Row(effect=Effect.READ, otherwise=Effect.WORK),
        "verbs": Row(read=(programs.Verb(), "get")),
    }

    assert [key for key, _ in problems(rows)] == [
        *("a/b", "mine.reader", "empty", "both.otherwise", "verbs"),
    ]
