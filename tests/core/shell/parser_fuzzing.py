"""Parses random texts in a child process, to find texts that end it.

`make fuzz-parser` runs it. Each text depends only on a seed and a number. To print a text again:
`python -m tests.core.shell.parser_fuzzing --seed S --only N`.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from safetyd.core.shell import judge, programs
from safetyd.core.shell.tree import syntax

ROOT: Final = Path(__file__).parents[3]
SIZES: Final = (300, 1_200, syntax.MAX_BYTES)  # lengths at which texts are cut
ROUND: Final = 5_000  # texts per child process
DEADLINE_S: Final = 30  # for one text; the slowest take a tenth of a second

# Tokens that the scanner of the grammar treats specially, and characters of each UTF-8 length.
TOKENS: Final = (
    *(
        "<<",
        "<<-",
        "<<<",
        "<<E ",
        "\nE\n",
        "<<'a b' ",
        "<<日 ",
        "\n日\n",
        "$(",
        "${",
        "$((",
        "))",
        "((",
    ),
    *("[[ ", " ]]", "{", "}", "{1..", "..", "{,", "case x in ", "esac", "for i in ", "do ", "done"),
    *(
        "if ",
        "then ",
        "fi",
        "function f ",
        "f()",
        "select x in ",
        "|&",
        "&>",
        ">|",
        "<>",
        ">&",
        "2>",
    ),
    *("`", "$'", "'", '"', "\\", "\\\n", "\n", "\t", " ", "\r", "\0", "=~", "==", "@(", "?(", "!("),
    *("+(", "*(", "#", "##", "%%", "//", ":-", ":=", "!", "~", "x=", "x+=", "x[", "]", "=(", ")"),
    *("export ", "declare -A ", "unset ", "coproc ", "time ", ";;", ";&", ";;&", "&&", "||", "&"),
    *(
        "-f ",
        "-eq ",
        "$@",
        "$*",
        "$",
        "\x1a",
        "\x7f",
        "\x85",
        "\xa0",
        "é",
        "ÿ",
        "Ā",
        "߿",
        "ࠀ",
        "日",
    ),
    *(
        "\u2028",
        "\u3000",
        "\ufeff",
        "\uffff",
        "𐀀",
        "😀",
        "\U0010ffff",
        "a",
        "0",
        "1",
        "E",
        "_",
        "-",
    ),
)
# Texts that brought the parser to its limits.
HARD: Final = (
    *("a=(日" * 600, "f()日" * 600, "[[ 日" * 600, "a日=(" * 600, "<<日 " * 600, "<" * 5_000),
    *(
        "(" * 500 + ")" * 500,
        "$(" * 300 + ")" * 300,
        "${a:-" * 300 + "}" * 300,
        "a&&" * 5_000 + "a",
    ),
    *("日" * 20_000, "a" * 60_000, "cat " + "<<E " * 300, "cat <<" + "D" * 1_100 + "\nx\n"),
    *("cat <<A <<B\n1\nA\n2\nB\n", "x=$(cat <<E\n$(cat <<F\na\nF\n)\nE\n)", "\\\n" * 3_000),
    *("[[ $a =~ ^(x|y)[[:space:]]{2}$ ]]", "case $x in @(a|b)*|日*) ls;; [!a]) ;; esac"),
    *("for ((i=0;i<3;i++)); do echo $i; done", "echo ${a:-日} ${!x} ${x//a/b} ${x[@]} ${x@Q}"),
)


class Texts:
    """An endless list of random texts that depends only on the seed."""

    def __init__(self, seed: int) -> None:
        files = sorted((ROOT / "tests" / "corpus").rglob("*.jsonl"))
        lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
        found = (json.loads(line) for line in lines)
        commands: list[str] = [each["command"] for each in found if "command" in each]
        self.bases = [*HARD, *commands]
        self._seed = seed

    def __getitem__(self, number: int) -> str:
        if number < len(HARD):
            return HARD[number]
        chance = random.Random(f"{self._seed}:{number}")
        text = chance.choice((chance.choice(self.bases), chance.choice(TOKENS)))
        for _ in range(chance.choice((1, 2, 4, 8, 30))):
            text = self._changed(text, chance)[: chance.choice(SIZES)]
        return text

    def _changed(self, text: str, chance: random.Random) -> str:
        at, until = sorted(chance.randint(0, len(text)) for _ in range(2))
        match chance.randrange(6):
            case 0 | 1:
                return text[:at] + chance.choice(TOKENS) + text[at:]
            case 2:
                return text[:at] + text[until:]
            case 3:
                return text[:at] + text[at:until] * chance.choice((2, 3, 20, 200)) + text[until:]
            case 4:
                return text[:at] + chance.choice(TOKENS) * chance.choice((2, 60, 900)) + text[at:]
            case _:
                return text[:at] + chance.choice(self.bases) + text[until:]


class Found(NamedTuple):
    """A text that ended the process that parsed it, or took longer than the deadline."""

    number: int
    signal: int


def parse(text: str) -> None:
    """Parse a text and analyse it, as for a decision."""
    judge.read(text, programs.shipped())
    with suppress(syntax.NotAnalysable):
        syntax.tree(text.encode("utf-8", "replace"))  # control characters too


def found(seed: int, first: int, last: int) -> Iterator[Found]:
    """Yield the texts that end a child process. Another child continues after each of them."""
    while first < last:
        options = ("--seed", seed, "--from", first, "--until", last, "--child")
        command = (sys.executable, "-m", "tests.core.shell.parser_fuzzing", *map(str, options))
        child = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
        if not child.returncode:
            return
        number = int(child.stdout.split()[-1])
        yield Found(number, -child.returncode)
        first = number + 1


def _parse_all(texts: Texts, first: int, last: int) -> None:
    """Print the number of each text, then parse it. The alarm ends the process if it hangs."""
    for number in range(first, last):
        os.write(sys.stdout.fileno(), b"%d\n" % number)
        signal.alarm(DEADLINE_S)
        parse(texts[number])


def main() -> None:
    """Parse random texts for some time, and print those that end the process."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--until", type=int, default=0, dest="last")
    parser.add_argument("--child", action="store_true", help="parse in this process")
    parser.add_argument("--only", type=int, help="print one text")
    parser.add_argument("--seeds", type=Path, help="only write the seed texts to this folder")
    given = parser.parse_args()
    texts = Texts(given.seed)
    if given.child:
        _parse_all(texts, given.first, given.last)
    elif given.only is not None:
        print(texts[given.only])
    elif given.seeds:
        for number, text in enumerate(texts.bases):
            (given.seeds / str(number)).write_bytes(text.encode("utf-8", "replace"))
    else:
        begun, bad = time.monotonic(), 0
        while time.monotonic() - begun < given.seconds:
            for each in found(given.seed, given.first, given.first + ROUND):
                bad += 1
                print(f"text {each.number} of seed {given.seed}: signal {each.signal}", flush=True)
            given.first += ROUND
        print(f"{given.first} texts of seed {given.seed}, {bad} of them ended the process")
        sys.exit(bool(bad))


if __name__ == "__main__":
    main()
