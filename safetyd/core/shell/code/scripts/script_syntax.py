"""How scripts of other languages are written: comments, strings, names."""

import re
from typing import Final, NamedTuple


class Syntax(NamedTuple):
    """What the tokenizer must know of a language."""

    language: str
    shown: str  # as people write it
    program: str  # that runs a file of it
    name: re.Pattern[str]  # a name with the names of its owners before it
    comments: tuple[str, ...] = ("#",)
    blocks: tuple[tuple[str, str], ...] = ()
    quotes: str = "\"'"
    raw: str = ""  # quotes in which a backslash is mostly itself
    filled: str = ""  # quotes in which variables and code are put in
    opens: tuple[str, ...] = ()  # what begins code in them
    variables: bool = False  # `$x` in them is a variable
    shells: bool = False  # backticks run programs
    patterns: bool = False  # a slash may begin a regular expression
    heredocs: bool = False
    ends_lines: bool = True  # a line's end ends a statement
    bare: bool = False  # functions are called without brackets
    perl: bool = False
    pod: str = ""  # how documentation ends
    joins: frozenset[str] = frozenset({"+"})  # signs that put texts together


def _name(first: str, more: str, joins: str) -> re.Pattern[str]:
    return re.compile(rf"{first}{more}*(?:\s*(?:{joins})\s*{first}{more}*)*")


_SLASHES: Final = ("/*", "*/")

SYNTAXES: Final = {
    "javascript": Syntax(
        *("javascript", "JavaScript", "node", _name(r"[A-Za-z_$#@]", r"[\w$]", r"\?\.|\.(?!\.)")),
        comments=("//", "#!"),
        blocks=(_SLASHES,),
        quotes="\"'`",
        filled="`",
        opens=("${",),
        patterns=True,
    ),
    "perl": Syntax(
        *("perl", "Perl", "perl", _name(r"(?:[$@%&]\#?\^?)?[A-Za-z_]", r"[\w]", r"::|->")),
        quotes="\"'`",
        raw="'",
        filled='"`',
        opens=("@{", "${"),
        variables=True,
        shells=True,
        patterns=True,
        heredocs=True,
        ends_lines=False,
        bare=True,
        perl=True,
        pod=r"^=cut\b.*$",
        joins=frozenset({"."}),
    ),
    "ruby": Syntax(
        *("ruby", "Ruby", "ruby", _name(r"[$@]{0,2}[A-Za-z_]", r"[\w?!]", r"&?\.(?!\.)|::")),
        quotes="\"'`",
        raw="'",
        filled='"`',
        opens=("#{",),
        shells=True,
        patterns=True,
        heredocs=True,
        bare=True,
        pod=r"^=end\b.*$",
    ),
    "php": Syntax(
        *("php", "PHP", "php", _name(r"\\?\$*[A-Za-z_]", r"\w", r"::|\??->|\\")),
        comments=("//", "#"),
        blocks=(_SLASHES,),
        quotes="\"'`",
        raw="'",
        filled='"`',
        opens=("{$", "${"),
        variables=True,
        shells=True,
        heredocs=True,
        ends_lines=False,
        joins=frozenset({"."}),
    ),
    "lua": Syntax(
        *("lua", "Lua", "lua", _name(r"[A-Za-z_]", r"\w", r"\.(?!\.)|:(?!:)")),
        comments=("--",),
        blocks=(("--[[", "]]"), ("--[=[", "]=]")),
        bare=True,
        joins=frozenset({".."}),
    ),
    "r": Syntax(
        *("r", "R", "Rscript", _name(r"[A-Za-z.]", r"[\w.]", r":::?|\$")),
        joins=frozenset(),
    ),
    "julia": Syntax(
        *("julia", "Julia", "julia", _name(r"[A-Za-z_@]", r"[\w!]", r"\.(?!\.)")),
        blocks=(("#=", "=#"),),
        quotes="\"'`",
        filled='"`',
        opens=("$(",),
        variables=True,
        shells=True,
        joins=frozenset({"*"}),
    ),
}
