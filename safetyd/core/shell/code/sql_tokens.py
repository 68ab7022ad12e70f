"""Splits SQL into statements and tokens, including client commands."""

import re
from typing import Final, NamedTuple

from safetyd.core.shell.reading import HOLE

MAX_TOKENS: Final = 5_000

_BLANK: Final = re.compile(r"\s+")
_WORD: Final = re.compile(r"[^\W\d][\w$]*")
_NUMBER: Final = re.compile(r"\d[\w.]*")
_DOLLAR: Final = re.compile(r"\$(?:[^\W\d]\w*)?\$")
_CLIENT: Final = re.compile(r"\\(!|[^\s\\]*)([^\n]*)")
_DOT: Final = re.compile(r"\.([^\n]*)")
_WHOLE_LINE: Final = frozenset({"!", "copy"})  # client commands that use the rest of the line
_ESCAPING: Final = frozenset({"mysql", "mariadb", "mycli", "bq", "clickhouse-client", "snowsql"})
_MYSQL: Final = frozenset({"mysql", "mariadb", "mycli"})
_POSTGRES: Final = frozenset({"psql", "pgcli"})
_DOLLARS: Final = _POSTGRES | {"duckdb", "snowsql"}
_SQUARE: Final = frozenset({"sqlite3", "sqlcmd"})
_DOTTED: Final = frozenset({"sqlite3", "duckdb"})


class SqlToken(NamedTuple):
    kind: str  # "word", "name", "string", "number", "sign", "client" or "hole"
    text: str  # words are in upper case


class UnreadableSql(Exception):
    """The end of a statement cannot be determined."""


class SqlTokenizer:
    """Splits a text into statements, each a list of tokens."""

    def __init__(self, text: str, program: str) -> None:
        self._text = text
        self._program = program
        self._at = 0
        self._count = 0
        self.statements: list[list[SqlToken]] = [[]]

    def read(self) -> list[list[SqlToken]]:
        while self._at < len(self._text):
            if not self._comment():
                self._one(self._text[self._at])
        return [statement for statement in self.statements if statement]

    def _one(self, char: str) -> None:
        text, at = self._text, self._at
        before = self.statements[-1][-1:] if text[at - 1 : at] not in {" ", "\n", "\t"} else []
        if found := _BLANK.match(text, at):
            self._at = found.end()
        elif char == ";":
            self._at += 1
            self.statements.append([])
        elif char == "\\" and self._program not in _DOTTED:
            self._client()
        elif char == "." and self._program in _DOTTED and not self.statements[-1]:
            self._dot()
        elif char == "'":
            self._add("string", self._quoted("'", escapes=before == [SqlToken("word", "E")]))
        elif char in '"`':
            kind = "string" if char == '"' and self._program in _MYSQL else "name"
            self._add(kind, self._quoted(char, escapes=False))
        elif char == "[" and self._program in _SQUARE:
            self._add("name", self._quoted("]", escapes=False))
        elif found := _DOLLAR.match(text, at) if self._program in _DOLLARS else None:
            self._dollars(found[0])
        elif char == HOLE:
            self._at += 1
            self._add("hole", HOLE)
        else:
            self._plain(char)

    def _plain(self, char: str) -> None:
        if found := _WORD.match(self._text, self._at):
            self._at = found.end()
            self._add("word", found[0].upper())
        elif found := _NUMBER.match(self._text, self._at):
            self._at = found.end()
            self._add("number", found[0])
        else:
            self._at += 1
            self._add("sign", char)

    def _add(self, kind: str, text: str) -> None:
        self._count += 1
        if self._count > MAX_TOKENS:
            raise UnreadableSql
        self.statements[-1].append(SqlToken(kind, text))

    def _comment(self) -> bool:
        text, at = self._text, self._at
        dashes = text.startswith("--", at)
        if dashes and self._program in _MYSQL:
            dashes = not text[at + 2 : at + 3].strip()
        if dashes or (text[at] == "#" and self._program in _MYSQL):
            end = text.find("\n", at)
            self._at = len(text) if end < 0 else end
            return True
        if not text.startswith("/*", at):
            return False
        if text.startswith("/*!", at) or text.startswith("/*M!", at):
            raise UnreadableSql  # MySQL runs the content of such comments
        self._block()
        return True

    def _block(self) -> None:
        """Skip a comment. Only some databases allow nested comments."""
        opened, self._at = 1, self._at + 2
        while opened:
            end = self._text.find("*/", self._at)
            if end < 0:
                raise UnreadableSql
            inner = self._text.find("/*", self._at, end)
            if inner >= 0 and self._program not in _POSTGRES:
                raise UnreadableSql
            opened += 1 if inner >= 0 else -1
            self._at = (inner if inner >= 0 else end) + 2

    def _quoted(self, quote: str, *, escapes: bool) -> str:
        escapes = escapes or (self._program in _ESCAPING and quote != "`")
        at = begin = self._at + 1
        while (char := self._text[at : at + 1]) != quote or self._text[at + 1 : at + 2] == quote:
            if not char:
                raise UnreadableSql
            at += 2 if char == quote or (char == "\\" and escapes) else 1
        self._at = at + 1
        return self._text[begin:at].replace(quote * 2, quote)

    def _dollars(self, tag: str) -> None:
        begin = self._at + len(tag)
        end = self._text.find(tag, begin)
        if end < 0:
            raise UnreadableSql
        self._at = end + len(tag)
        self._add("string", self._text[begin:end])

    def _client(self) -> None:
        r"""Read a client command such as `\dt`, up to the next command or the end of the line."""
        found = _CLIENT.match(self._text, self._at)
        assert found is not None  # noqa: S101 - it begins with a backslash
        name, rest = found[1], found[2]
        if name not in _WHOLE_LINE and "\\" in rest:
            rest = rest[: rest.index("\\")]
        self._at += 1 + len(name) + len(rest)
        self._add("client", f"\\{name} {rest.strip()}")
        if name not in {"", ";"}:
            self.statements.append([])

    def _dot(self) -> None:
        found = _DOT.match(self._text, self._at)
        assert found is not None  # noqa: S101 - it begins with a dot
        self._at = found.end()
        self._add("client", found[0])
        self.statements.append([])
