"""Properties that hold for the analysis of every language."""

import functools
from collections.abc import Callable
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.shell.code.awk_code import read_awk
from safetyd.core.shell.code.javascript_code import read_javascript
from safetyd.core.shell.code.one_liners import read_one_liner
from safetyd.core.shell.code.python_code import read_python
from safetyd.core.shell.code.sed_code import read_sed
from safetyd.core.shell.code.sql_code import read_sql
from safetyd.core.shell.reading import Code
from tests.cost import ratio


class Reader(NamedTuple):
    read: Callable[[str], Code]
    parts: tuple[str, ...]  # parts of random texts that look like code
    units: tuple[str, ...]  # texts that are repeated to measure the cost
    times: int


READERS: Final = {
    "awk": Reader(
        read_awk,
        (*"|>(){}/x=$\n[]<@;, f", "print", "getline", "system", '"a"', "ENVIRON", "++", "|&"),
        ("{print $1}\n", "system(", '"a" | getline;', "print > ", "print ", "x = 1;", "(", '"a"'),
        1000,
    ),
    "javascript": Reader(
        read_javascript,
        (
            *("exec", "'a'", "eval", "${", "process.env", "require", "fs.", "rmSync", "open"),
            *("=>", "/*", "//", *'()"`=\nx[]{}/$+, :\\'),
        ),
        ("f('a', b)(c);\n", "`${a}`;", "x = x + 'a'\n", "a[b]", "f(("),
        200,
    ),
    "perl": Reader(
        functools.partial(read_one_liner, language="perl"),
        (*"/|#$@()[]{}'\\;. 1", "s/", "y|", "print ", "$1", "$_", "$F[0]", " if /", "(?{", '"a"'),
        ("1.1.", "print 1;", "s/a/b/;", "print 'a' . ", "s/", "$1", " ", "print if /a/;"),
        200,
    ),
    "python": Reader(
        read_python,
        (
            *(
                "import os",
                "os",
                ".system",
                "'a'",
                "exec",
                "for ",
                " in ",
                "f'{x}'",
                "open",
                "Path",
            ),
            *("lambda", "**", *"()=\nx[]+,/: *@"),
        ),
        ("os.system('a')\n", "x = x + 'a'\n", "f('a', b)(c)\n", "a = b = c\n", "for a in b: c\n"),
        150,
    ),
    "sed": Reader(
        read_sed,
        tuple("s/[]we;{}!\\\n:a1$,^.= #"),
        ("s/a/b/;", "s/[[:a:]/]/b/;", "[", "1,", "s/[[:", "a\\\n", "w x\n"),
        1000,
    ),
    "sql": Reader(
        functools.partial(read_sql, program="psql"),
        (),  # test_sql_code checks this for every client
        ("select 'a';", "(a,", "drop table a;", "/* a */", "pragma a;"),
        200,
    ),
}


@pytest.mark.parametrize("name", [name for name, reader in READERS.items() if reader.parts])
@given(st.data())
def test_analysis_never_raises_and_is_deterministic(name: str, data: st.DataObject) -> None:
    reader = READERS[name]
    parts = st.lists(st.sampled_from(reader.parts), max_size=40).map("".join)
    text = data.draw(st.text(max_size=200) | parts)

    assert reader.read(text) == reader.read(text)


@pytest.mark.parametrize(
    ("name", "unit"), [(name, unit) for name, reader in READERS.items() for unit in reader.units]
)
def test_time_grows_linearly_with_the_text(name: str, unit: str) -> None:
    read, times = READERS[name].read, READERS[name].times
    assert ratio(lambda: read(unit * times * 4), lambda: read(unit * times)) < 10
