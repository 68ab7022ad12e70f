r"""One-liners in Perl, Ruby and other languages that only replace or print text.

These languages are not analysed. Code is allowed only if it has one of the forms below. In these
forms every word is known, and no other code can hide. In Perl an index is code even in a string
(`"$1[system('id')]"`), `(?{` starts code in a pattern, and `'` may be part of a name.
"""

import re
from typing import Final

from safetyd.core.shell.reading import HOLE, Code, Effect, each

_VARIABLE: Final = r"\$(?:\d++|&|(?:_|F\[-?\d+\])(?![\w:']))(?![\[{]|->)"
_STRING: Final = rf"""(?:'[^'\\\n{HOLE}]*'|"(?:[^"\\$@#`\n{HOLE}]|\\[nt]|{_VARIABLE})*")"""
_VALUE: Final = rf"(?:\d++(?:\.\d++)?+|{_VARIABLE}|{_STRING}|[A-Z]*_?VERSION|PHP_OS)"
_VALUES: Final = rf"{_VALUE}(?: *[,.+*] *{_VALUE})*"
_CALL: Final = rf"(?:mean|sum|length)\((?:\[{_VALUES}\]|{_VALUES})\)"
_PRINT: Final = (
    rf"(?:print|println|printf|puts|say|echo|p)(?: +{_VALUES}| ?\((?:{_CALL}|{_VALUES})\))?"
)


def _pattern(end: str, without: str = "") -> str:
    """Return a pattern that matches Perl patterns up to a delimiter that contain no code."""
    code = r"\((?:\?\??p?\{|\*)"
    return rf"(?:\\[^{HOLE}]|\$(?=[)]|\||[{end}])|(?!{code})[^\\$@{HOLE}{end}{without}])*"


def _substitution(end: str) -> str:
    replacement = rf"(?:\\[^{HOLE}]|{_VARIABLE}|[^\\$@{HOLE}{end}])*"
    return rf"(?:s|y|tr)[{end}]{_pattern(end)}[{end}]{replacement}[{end}][gimsxrcd]*"


_CONDITION: Final = rf" +(?:if|unless) +/{_pattern('/', '#')}/[imsx]*"
_STATEMENT: Final = rf"{_PRINT}(?:{_CONDITION})?|next{_CONDITION}|using [A-Z]\w*"
_SUBSTITUTION: Final = "|".join(map(_substitution, "/|#!,"))


def _all(statement: str) -> re.Pattern[str]:
    return re.compile(rf"\s*(?:(?:{statement})[ \t]*(?:[;\n]\s*|$))*+")


_HARMLESS: Final = {
    **each(_all(_STATEMENT), "ruby php lua r julia"),
    "perl": _all(f"{_STATEMENT}|{_SUBSTITUTION}"),
}
is_substitution = re.compile(_SUBSTITUTION).fullmatch
# Where a script starts inside other text, as in PHP files.
_begins_script = re.compile(r"<\?|#!").search


def read_one_liner(source: str, language: str) -> Code:
    harmless = _HARMLESS.get(language)
    if harmless and harmless.fullmatch(source) and not _begins_script(source):
        return Code()
    why = "is not analysed: safetyd analyses only Python, JavaScript and shell scripts"
    return Code(findings=((Effect.UNKNOWN, why),))
