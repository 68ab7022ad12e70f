r"""Commands of database clients: `\dt`, `\!`, `.tables`, `.shell`."""

import re
from typing import Final

from safetyd.core.shell.code.code_builder import CodeBuilder
from safetyd.core.shell.reading import HOLE, Access, Effect, word_set

_PSQL_LOOKS: Final = re.compile(
    r"\\(d\w*[+S]*|l[+x]*|list|timing|x|conninfo|pset|a|t|H|f|C|T|echo|qecho|warn|q|z|sf\+?|sv\+?"
    r"|encoding|errverbose|h|help|\?|c|connect|set|unset|if|elif|else|endif|gdesc|crosstabview|gset"
    r"|watch|gx?|p|r|cd|;|G|u|s|W)?"
)
_MYSQL: Final = frozenset({"mysql", "mariadb", "mycli"})
_MYSQL_LOOKS: Final = frozenset("cgGhqrstuwWx?")
_SQLITE_LOOKS: Final = word_set("""
    tables schema headers header mode indexes indices databases width nullvalue separator timer
    echo show help quit exit print dump fullschema stats eqp explain bail limit prompt changes
    version timeout dbinfo sha3sum maxrows columns lint
""")
_SQLITE_WRITES: Final = frozenset({"output", "once", "save", "backup", "clone", "log", "open"})
_BACKTICKS: Final = re.compile(r"`([^`]*)`?")
_NOWHERE: Final = frozenset({"", "stdout", "stderr", "off", "on", "pstdout"})
_UNSHOWN: Final = (Effect.UNKNOWN, "runs other code")


def read_client_command(text: str, builder: CodeBuilder, program: str) -> None:
    """Record the effects of a client command among SQL statements."""
    name, _, rest = text.partition(" ")
    rest = rest.strip()
    if name.startswith("."):
        _sqlite(name[1:], rest, builder)
    elif name == "\\!":
        builder.shell(rest or HOLE)
    elif program in _MYSQL:
        if name[1:2] not in _MYSQL_LOOKS:
            builder.find(*_UNSHOWN)
    else:
        _psql(name, rest, builder)


def _psql(name: str, rest: str, builder: CodeBuilder) -> None:
    if name == "\\copy":
        _copy(rest, builder)
        return
    for found in _BACKTICKS.finditer(rest):
        builder.shell(found[1])
    if name in {"\\o", "\\out", "\\g", "\\gx", "\\w", "\\write", "\\s"}:
        if rest and not rest.startswith("("):
            _output(rest, builder)
    elif name == "\\password":
        builder.find(Effect.PRIVILEGED, "changes a password")
    elif name.startswith("\\lo_"):
        builder.find(Effect.IRREVERSIBLE, "changes data in a database")
    elif not _PSQL_LOOKS.fullmatch(name):
        builder.find(*_UNSHOWN)


def _copy(rest: str, builder: CodeBuilder) -> None:
    r"""Analyse `\copy`, which copies rows between a table and a local file or program."""
    found = re.search(r"\b(to|from)\s+(program\s+)?('[^']*'|\S+)[^()]*$", rest, re.IGNORECASE)
    if found is None or re.search(r"\b(insert|update|delete|merge)\b", rest, re.IGNORECASE):
        builder.find(Effect.IRREVERSIBLE, "may change rows")
        return
    target = found[3].strip("'")
    if found[2]:
        builder.shell(target)
    elif target.lower() not in {"stdin", "stdout", "pstdin", "pstdout"}:
        builder.touch(target, Access.WRITE if found[1].lower() == "to" else Access.READ)
    if found[1].lower() == "from":
        builder.find(Effect.IRREVERSIBLE, "adds rows")


def _sqlite(name: str, rest: str, builder: CodeBuilder) -> None:
    if name in {"shell", "system"}:
        builder.shell(rest or HOLE)
    elif name in _SQLITE_WRITES:
        if rest not in _NOWHERE:
            _output(rest, builder)
    elif name in {"import", "restore"}:
        if rest.lstrip("'\"").startswith("|"):
            builder.shell(rest.strip("'\"|"))
        builder.find(Effect.IRREVERSIBLE, "adds rows")
    elif name not in _SQLITE_LOOKS:
        builder.find(*_UNSHOWN)


def _output(target: str, builder: CodeBuilder) -> None:
    target = target.strip().strip("'\"")
    if target.startswith("|"):
        builder.shell(target[1:].strip())
    else:
        builder.touch(target.split()[-1] if target.split() else HOLE, Access.WRITE)
