"""Analyses SQL statements by their words. Queries are allowed; other statements change something.

Files and programs in statements are reported as if the database were on this machine.
"""

import functools
from itertools import pairwise
from typing import Final

from safetyd.core.shell.code.code_builder import CodeBuilder
from safetyd.core.shell.code.sql_clients import read_client_command
from safetyd.core.shell.code.sql_tokens import SqlToken, SqlTokenizer, UnreadableSql
from safetyd.core.shell.reading import HOLE, Access, Code, Effect, each, word_set

UNREADABLE: Final = (Effect.UNKNOWN, "cannot be analysed")
_ASKS: Final = frozenset({"SELECT", "VALUES", "TABLE", "WITH", "FROM", "SUMMARIZE", "("})
_LOOKS: Final = frozenset({"SHOW", "DESCRIBE", "DESC", "HELP", "USE", "BEGIN", "COMMIT"}) | {
    *("END", "ROLLBACK", "SAVEPOINT", "RELEASE", "GO", "FETCH", "CLOSE"),
}
_LOOKS_BY_TWO: Final = frozenset({"START TRANSACTION", "RESET ALL", "DETACH DATABASE"})
_WRITERS: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE"})
_CHANGES: Final = {
    "DELETE": "deletes rows",
    "UPDATE": "changes rows",
    "INSERT": "adds rows",
    "REPLACE": "changes rows",
    "MERGE": "changes rows",
    "UPSERT": "changes rows",
    "TRUNCATE": "empties a table",
    "GRANT": "changes permissions",
    "REVOKE": "changes permissions",
    "CALL": "runs a stored procedure",
    "EXEC": "runs a stored procedure",
    "EXECUTE": "runs a stored procedure",
    "DO": "runs a stored procedure",
    "KILL": "ends other database sessions",
}
_KINDS: Final = {"DROP": "drops", "CREATE": "creates", "ALTER": "changes"}
_SKIPPED: Final = word_set("""
    MATERIALIZED OR REPLACE TEMP TEMPORARY UNIQUE IF EXISTS NOT FOREIGN
""")
_DROPS: Final = frozenset({"DROP", "TRUNCATE"})
_OF_SERVER: Final = frozenset(
    {"GLOBAL", "PERSIST", "PERSIST_ONLY", "PASSWORD", "ROLE", "AUTHORIZATION", "SYSTEM"}
)
_PRAGMAS_ASKING: Final = frozenset(
    {"TABLE_INFO", "TABLE_XINFO", "TABLE_LIST", "INDEX_LIST", "INDEX_INFO", "INDEX_XINFO"}
    | {"FOREIGN_KEY_LIST", "FOREIGN_KEY_CHECK", "INTEGRITY_CHECK", "QUICK_CHECK"}
)
_PRAGMAS_OF_SESSION: Final = word_set("""
    FOREIGN_KEYS BUSY_TIMEOUT CACHE_SIZE TEMP_STORE QUERY_ONLY CASE_SENSITIVE_LIKE
""")
_PRAGMAS_ACTING: Final = frozenset(
    {"WAL_CHECKPOINT", "OPTIMIZE", "INCREMENTAL_VACUUM", "SHRINK_MEMORY"}
)
_FILES: Final = {
    **each(Access.READ, "PG_READ_FILE PG_READ_BINARY_FILE PG_LS_DIR"),
    **each(Access.READ, "PG_STAT_FILE LO_IMPORT LOAD_FILE READFILE"),
    **each(Access.READ, "READ_CSV READ_CSV_AUTO READ_PARQUET READ_JSON"),
    **each(Access.READ, "READ_TEXT READ_BLOB READ_JSON_AUTO GLOB"),
    **each(Access.WRITE, "WRITEFILE LO_EXPORT"),
}
# Functions that read files with the permissions of the database server.
_ON_SERVER: Final = word_set("""
    PG_READ_FILE PG_READ_BINARY_FILE PG_LS_DIR PG_STAT_FILE LO_IMPORT LOAD_FILE
""")
_RUNS: Final = frozenset({"XP_CMDSHELL", "SYS_EXEC", "SYS_EVAL"})
_ACTING: Final = {
    **each(
        (Effect.IRREVERSIBLE, "ends other database sessions"),
        "PG_TERMINATE_BACKEND PG_CANCEL_BACKEND",
    ),
    **each(
        (Effect.IRREVERSIBLE, "changes data in a database"),
        """
        NEXTVAL SETVAL LO_UNLINK LO_CREATE LO_PUT LO_FROM_BYTEA
        """,
    ),
    **each(
        (Effect.PRIVILEGED, "changes server settings or permissions"),
        """
        PG_RELOAD_CONF PG_ROTATE_LOGFILE PG_SWITCH_WAL PG_PROMOTE SET_CONFIG
        """,
    ),
    **each(
        (Effect.UNKNOWN, "runs other code"),
        """
        LOAD_EXTENSION EDIT EXECUTABLE QUERY_TO_XML SYSTEM EVAL FTS3_TOKENIZER
        """,
    ),
    **each(
        (Effect.LEAVES, "opens a connection to another machine"),
        """
        DBLINK DBLINK_EXEC DBLINK_CONNECT DBLINK_SEND_QUERY URL S3 REMOTE
        """,
    ),
    **each(
        (Effect.LEAVES, "opens a connection to another machine"),
        """
        OPENROWSET OPENDATASOURCE OPENQUERY HTTP_GET HTTP_POST MYSQL POSTGRESQL
        """,
    ),
}
_DIALECTS: Final = ("pgcli", "mysql", "sqlite3")  # without psql, where `:name` is not a parameter
_ACTING_PREFIXES: Final = ("PG_FILE_", "PG_CREATE_", "PG_DROP_", "PG_LOGICAL_", "PG_REPLICATION_")


def read_sql(text: str, *, program: str) -> Code:
    builder = CodeBuilder()
    try:
        statements = SqlTokenizer(text, program).read()
    except UnreadableSql:
        builder.find(*UNREADABLE)
        return builder.code()
    for tokens in statements:
        _Statement(tokens, builder, program).read()
    return builder.code()


def sql_type(text: str, *, program: str = "psql") -> str:
    """Return the equivalent action type of statements."""
    try:
        statements = SqlTokenizer(text, program).read()
    except UnreadableSql:
        return "db_write"
    if any(tokens[0].kind == "word" and tokens[0].text in _DROPS for tokens in statements):
        return "drop_database"
    code = read_sql(text, program=program)
    changes = any(touch.access is not Access.READ for touch in code.touches)
    return "db_write" if code.findings or code.shell or changes else "db_read"


@functools.lru_cache(maxsize=8)  # one proposal needs the result several times
def only_queries(text: str) -> bool:
    """Return True if statements only query a database, in every dialect of `_DIALECTS`."""
    types = {sql_type(text, program=program) for program in _DIALECTS}
    return types == {"db_read"} and not any(
        read_sql(text, program=program).touches for program in _DIALECTS
    )


class _Statement:
    """One statement."""

    def __init__(self, tokens: list[SqlToken], builder: CodeBuilder, program: str) -> None:
        self._tokens = tokens
        self._builder = builder
        self._program = program
        self._words = [token.text for token in tokens if token.kind == "word"]

    def read(self) -> None:
        for token in self._tokens:
            if token.kind == "hole":
                self._builder.find(*UNREADABLE)
            elif token.kind == "client":
                read_client_command(token.text, self._builder, self._program)
        tokens = [token for token in self._tokens if token.kind != "client"]
        if tokens:
            self._functions()
            self._variables()
            self._first(tokens[0].text)

    def _first(self, first: str) -> None:  # noqa: C901
        if first in _ASKS:
            self._query()
        elif first == "EXPLAIN":
            self._explain()
        elif first == "PRAGMA":
            self._pragma()
        elif first == "SET":
            if set(self._words) & _OF_SERVER:
                why = "changes server settings or permissions"
                self._builder.find(Effect.PRIVILEGED, why)
        elif first == "COPY":
            self._copy()
        elif first == "ATTACH":
            self._builder.touch(self._string(0), Access.WRITE)
        elif first in {"LOAD", "INSTALL"}:
            self._load(first)
        elif first in {"SYSTEM", "SOURCE", "TEE", "PAGER", "DELIMITER", "EDIT"}:
            self._builder.find(Effect.UNKNOWN, "runs other code")
        elif first not in _LOOKS and " ".join(self._words[:2]) not in _LOOKS_BY_TWO:
            self._builder.find(Effect.IRREVERSIBLE, self._change(first))

    def _change(self, first: str) -> str:
        if first in _KINDS:
            kinds = [word for word in self._words[1:] if word not in _SKIPPED]
            kind = kinds[0].lower() if kinds else "object"
            return f"{_KINDS[first]} {'an' if kind[0] in 'aeio' else 'a'} {kind}"
        return _CHANGES.get(first, f"may change the database: {first[:40]}")

    def _string(self, number: int) -> str:
        """Return the string with this number, or a hole."""
        strings = [token.text for token in self._tokens if token.kind == "string"]
        return strings[number] if number < len(strings) else HOLE

    def _after(self, *words: str) -> str:
        """Return the string that follows one of these words, or a hole."""
        for before, token in pairwise(self._tokens):
            if before.kind == "word" and before.text in words and token.kind == "string":
                return token.text
        return HOLE

    def _query(self) -> None:
        if self._program == "duckdb" and (path := self._after("FROM", "JOIN", "SUMMARIZE")) != HOLE:
            self._builder.touch(path, Access.READ)
        if "OUTFILE" in self._words or "DUMPFILE" in self._words:
            self._builder.touch(self._after("OUTFILE", "DUMPFILE"), Access.WRITE)
        elif "INTO" in self._words:
            self._builder.find(Effect.IRREVERSIBLE, self._writer() or "writes a table")
        elif writer := self._writer():
            self._builder.find(Effect.IRREVERSIBLE, writer)

    def _writer(self) -> str:
        """Return the effect of a changing statement inside a query, or an empty string."""
        tokens = [SqlToken("sign", ""), *self._tokens, SqlToken("sign", "")]
        for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
            named = before.text in {".", "FOR", "KEY", "AS", ","} or after.text in {"(", ",", "."}
            if token.kind == "word" and token.text in _WRITERS and not named:
                return _CHANGES[token.text]
        return ""

    def _explain(self) -> None:
        if not {"ANALYZE", "ANALYSE"} & set(self._words):
            return
        starts = (*_ASKS - {"("}, *_CHANGES, *_KINDS, "COPY", "REFRESH", "DECLARE")
        found = (at for at, token in enumerate(self._tokens) if token.text in starts)
        at = next(found, None)
        if at is not None:
            rest = _Statement(self._tokens[at:], self._builder, self._program)
            rest._first(self._tokens[at].text)

    def _pragma(self) -> None:
        signs = {token.text for token in self._tokens if token.kind == "sign"}
        name = self._words[-1] if len(self._words) > 1 else ""
        named = next((word for word in self._words[1:] if word in _PRAGMAS_ASKING), "")
        of_session = set(self._words) & _PRAGMAS_OF_SESSION
        sets = ("=" in signs or "(" in signs) and not named and not of_session
        if sets or name in _PRAGMAS_ACTING:
            self._builder.find(Effect.IRREVERSIBLE, "changes a database setting")

    def _copy(self) -> None:
        """Analyse `COPY`, which copies rows between a table and a file or program."""
        if "PROGRAM" in self._words:
            self._builder.shell(self._after("PROGRAM"))
        elif "STDOUT" not in self._words and "STDIN" not in self._words:
            access = Access.WRITE if "TO" in self._words else Access.READ
            self._builder.touch(self._after("TO", "FROM"), access)
        if writer := self._writer():
            self._builder.find(Effect.IRREVERSIBLE, writer)
        elif "FROM" in self._words and "SELECT" not in self._words:
            self._builder.find(Effect.IRREVERSIBLE, "adds rows")

    def _load(self, first: str) -> None:
        if "INFILE" in self._words:
            self._builder.touch(self._after("INFILE"), Access.READ)
            self._builder.find(Effect.IRREVERSIBLE, "adds rows")
        elif first == "INSTALL":
            self._builder.find(Effect.INSTALLS, "installs an extension")
        else:
            self._builder.find(Effect.UNKNOWN, "loads a library")

    def _functions(self) -> None:
        """Record functions that use files, programs, other machines or sessions."""
        for at, token in enumerate(self._tokens):
            name = token.text.upper()
            follows = self._tokens[at + 1 : at + 3]
            called = bool(follows) and follows[0].text == "("
            given = follows[-1] if called else follows[0] if follows else SqlToken("sign", "")
            argument = given.text if given.kind == "string" else HOLE
            if token.kind not in {"word", "name"}:
                continue
            if name in _RUNS:
                self._builder.shell(argument)
            elif called and name in _FILES:
                self._builder.touch(argument, _FILES[name])
                if name in _ON_SERVER:
                    why = "reads files with the permissions of the database server"
                    self._builder.find(Effect.PRIVILEGED, why)
            elif called and name in _ACTING:
                self._builder.find(*_ACTING[name])
            elif called and name.startswith(_ACTING_PREFIXES):
                self._builder.find(Effect.IRREVERSIBLE, "changes data in a database")

    def _variables(self) -> None:
        """Record variables of `psql`, whose unknown values become part of the statement."""
        texts = [token.text for token in self._tokens]
        for at, token in enumerate(self._tokens[1:], start=1):
            alone = texts[at - 1] == ":" and (at == 1 or texts[at - 2] != ":")
            if self._program == "psql" and alone and token.kind in {"word", "name", "string"}:
                self._builder.find(*UNREADABLE)
