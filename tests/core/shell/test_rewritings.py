"""A stopped command gets no looser verdict if it is written in another way.

bash itself proves that a rewriting means the same: it runs both with programs that only print
their arguments. No other program is in its PATH.
"""

import base64
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from safetyd.core.shell.places import Project
from tests.core.shell.test_corpus import labelled
from tests.core.shell.verdicts import stopping, verdict

PROJECT: Final = Project("/home/me/project")
SAMPLE: Final = 40  # commands for each class of rewritings
PRINTS: Final = '#!/bin/sh\nprintf "<%s>" "${0##*/}" "$@"; echo\n'
REAL: Final = ("sh", "bash", "xargs", "base64", "cat", "env")  # programs that rewritings use
is_plain = re.compile(r"[A-Za-z0-9_./:@,+=% -]+").fullmatch
Rewrite = Callable[[list[str], random.Random], str]


def some(words: list[str], chance: random.Random, change: Callable[[str], str]) -> str:
    """Change one or all words of a command."""
    at = chance.choice([*range(len(words)), -1])
    return " ".join(change(w) if at in {-1, n} else w for n, w in enumerate(words))


def cut(word: str, chance: random.Random) -> tuple[str, str]:
    at = chance.randint(0, len(word))
    return word[:at], word[at:]


def quotes(words: list[str], chance: random.Random) -> str:
    def change(word: str) -> str:
        a, b = cut(word, chance)
        return chance.choice((f"'{word}'", f'"{word}"', f"{a}''{b}", f'{a}"{b}"', f"'{a}'\"{b}\""))

    return some(words, chance, change)


def escapes(words: list[str], chance: random.Random) -> str:
    def change(word: str) -> str:
        a, b = cut(word, chance)
        return f"{a}\\{b}" if b else f"\\{word}"

    return some(words, chance, change)


def ansi(words: list[str], chance: random.Random) -> str:
    def change(word: str) -> str:
        codes = (lambda c: f"\\x{ord(c):02x}", lambda c: f"\\{ord(c):03o}", lambda c: c)
        return "$'" + "".join(chance.choice(codes)(letter) for letter in word) + "'"

    return some(words, chance, change)


def variables(words: list[str], chance: random.Random) -> str:
    at = chance.randrange(len(words))
    a, b = cut(words[at], chance)
    used = chance.choice(("$x", "${x}", '"$x"'))
    first = chance.choice((f"x={a}; ", f"x='{a}' && ", f"export x={a}\n", f"declare x={a}; "))
    return first + " ".join([*words[:at], f'{used}"{b}"', *words[at + 1 :]])


def whole_variable(words: list[str], chance: random.Random) -> str:
    said = " ".join(words)
    return chance.choice((f"x='{said}'; $x", f"x='{said}'; y=$x; $y", f"x='{said}'; eval \"$x\""))


def substitutions(words: list[str], chance: random.Random) -> str:
    at = chance.randrange(len(words))
    word = words[at]
    a, b = cut(word, chance)
    made = chance.choice(
        (f"$(echo {word})", f"$(printf %s {word})", f"`echo {word}`", f'{a}"$(printf %s "{b}")"')
    )
    return " ".join([*words[:at], made, *words[at + 1 :]])


def brace_lists(words: list[str], chance: random.Random) -> str:
    at = chance.randrange(len(words))
    joined = ",".join(words[at : at + 2])
    rest = [f"{{{joined}}}"] if len(words[at : at + 2]) > 1 else [words[at]]
    return " ".join([*words[:at], *rest, *words[at + 2 :]])


def evaluated(words: list[str], chance: random.Random) -> str:
    said = " ".join(words)
    return chance.choice(
        (f"eval {said}", f"eval '{said}'", f"eval eval {said}", f"eval ' ' '{said}'")
    )


def shells(words: list[str], chance: random.Random) -> str:
    said = " ".join(words)
    a, b = said.split(" ", 1) if " " in said else (said, "")
    return chance.choice(
        (
            f"sh -c '{said}'",
            f"bash -ec '{said}'",
            f"sh -c '{a} \"$@\"' - {b}",
            f"env sh -c '{said}'",
        )
    )


def heredocs(words: list[str], chance: random.Random) -> str:
    said = " ".join(words)
    return chance.choice(
        (
            f"sh <<E\n{said}\nE",
            f"bash <<'E'\n{said}\nE",
            f"sh <<< '{said}'",
            f"cat <<E | sh\n{said}\nE",
        )
    )


def piped(words: list[str], chance: random.Random) -> str:
    said = " ".join(words)
    return chance.choice(
        (f"echo '{said}' | sh", f"printf '%s\\n' '{said}' | bash", f"sh < <(echo {said})")
    )


def arguments(words: list[str], chance: random.Random) -> str:
    first, rest = words[0], " ".join(words[1:])
    return chance.choice(
        (
            f"echo {rest} | xargs {first}",
            f"printf '%s\\n' '{rest}' | xargs {first}",
            f"echo '{first} {rest}' | xargs env",
            f"echo {words[-1]} | xargs -I@ {' '.join(words[:-1] or ['env'])} @",
        )
    )


def functions(words: list[str], chance: random.Random) -> str:
    said, rest = " ".join(words), " ".join(words[1:])
    return chance.choice(
        (
            f"f() {{ {said}; }}; f",
            f'f() {{ {words[0]} "$@"; }}; f {rest}',
            f"function f {{ $*; }}; f {said}",
            f'set -- {said}; "$@"',
        )
    )


def continued(words: list[str], chance: random.Random) -> str:
    said = " ".join(words)
    at = chance.randint(1, len(said) - 1)
    return f"{said[:at]}\\\n{said[at:]}"


def encoded(words: list[str], chance: random.Random) -> str:
    text = base64.b64encode(" ".join(words).encode()).decode()
    return chance.choice(
        (
            f"echo {text} | base64 -d | sh",
            f'eval "$(echo {text} | base64 -d)"',
            f'sh -c "$(base64 -d <<< {text})"',
        )
    )


# The analysis does not follow values that `read` or a branch sets. So a block may become a request.
def loops(words: list[str], chance: random.Random) -> str:
    at = chance.randrange(len(words))
    used = " ".join([*words[:at], "$x", *words[at + 1 :]])
    return chance.choice(
        (
            f"for x in {words[at]}; do {used}; done",
            f"echo {words[at]} | while read -r x; do {used}; done",
            f"read -r x <<< {words[at]}; {used}",
            f"case a in a) x={words[at]};; esac; {used}",
        )
    )


CLASSES: Final[tuple[Rewrite, ...]] = (
    *(quotes, escapes, ansi, variables, whole_variable, substitutions, brace_lists, evaluated),
    *(shells, heredocs, piped, arguments, functions, continued, encoded, loops),
)


def _is_unreadable(command: str) -> bool:
    """Return True if a command needs approval because it cannot be analysed."""
    return any(found.why.startswith("cannot be analysed") for found in stopping(command, PROJECT))


STRICTNESS: Final = ("pass", "ask", "block")


@pytest.fixture(scope="module")
def builtins() -> frozenset[str]:
    done = subprocess.run(
        ["bash", "-c", "compgen -b; compgen -k"], capture_output=True, text=True, check=True
    )
    return frozenset(done.stdout.split())


@pytest.fixture(scope="module")
def stopped(builtins: frozenset[str]) -> list[str]:
    """Return stopped commands of plain words, whose programs are no builtins."""
    found = [
        case.command for case in labelled() if case.expect != "pass" and is_plain(case.command)
    ]
    return [
        command
        for command in found
        if (first := command.split()[0]) not in {*builtins, *REAL}
        and re.fullmatch(r"[A-Za-z][\w.+-]*", first)
        and command == " ".join(command.split())
        and not any("open_input" in found.traits for found in stopping(command, PROJECT))
    ]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory, stopped: list[str]) -> Path:
    """Return a folder with programs that print their names and arguments."""
    folder = tmp_path_factory.mktemp("programs")
    for name in {command.split()[0] for command in stopped}:
        (folder / name).write_text(PRINTS)
        (folder / name).chmod(0o755)
    for name in REAL:
        (folder / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    return folder


def printed(command: str, programs: Path) -> str:
    """Return the programs that bash runs for a command, with their arguments."""
    done = subprocess.run(
        [programs / "bash", "--norc", "--noprofile", "-c", command],
        env={"PATH": str(programs), "HOME": "/home/me"},
        cwd=programs,
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize("rewrite", CLASSES, ids=lambda each: each.__name__)
def test_a_rewriting_that_bash_proves_equal_gets_no_looser_verdict(
    rewrite: Rewrite, stopped: list[str], programs: Path
) -> None:
    chance = random.Random(rewrite.__name__)
    looser, equal = list[str](), 0
    for command in chance.sample(stopped, 3 * SAMPLE):
        rewritten = rewrite(command.split(), chance)
        if equal == SAMPLE or printed(rewritten, programs) != printed(command, programs):
            continue
        equal += 1
        verdicts = [STRICTNESS.index(verdict(each, PROJECT)) for each in (command, rewritten)]
        excused = rewrite is loops or _is_unreadable(rewritten)
        if verdicts[1] < verdicts[0] and not (verdicts[1] and excused):
            looser.append(rewritten)

    assert equal == SAMPLE
    assert looser == []
