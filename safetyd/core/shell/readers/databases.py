"""Database clients, and the statements that they run."""

import re
from collections.abc import Sequence
from typing import Final

from safetyd.core.shell import places, rows
from safetyd.core.shell.addresses import is_local
from safetyd.core.shell.calls import after_options
from safetyd.core.shell.code.sql_code import read_sql, sql_type
from safetyd.core.shell.invocation import Invocation, visible
from safetyd.core.shell.readers.deletions import run_code
from safetyd.core.shell.reading import HOLE, RUNS_FILE, Effect
from safetyd.core.shell.words import KNOWN, NETWORK, PROJECT, Flow, Word

_TEXTS: Final = {
    "psql": ("-c", "--command"),
    "sqlite3": ("-cmd", "--cmd"),
    "duckdb": ("-c", "-s", "-cmd"),
    "clickhouse-client": ("-q", "--query"),
    "clickhouse-local": ("-q", "--query"),
    "snowsql": ("-q", "--query"),
    "sqlcmd": ("-Q", "-q"),
    "influx": ("-execute", "--execute"),
}
_FILED: Final = frozenset({"sqlite3", "sqlite", "duckdb"})  # clients whose database is a file
_CALLED: Final = re.compile(r"(?<![\w$])([\w$]+)\s*\(")
_HIDDEN: Final = re.compile(r"\]\s*\(|`|\$(out|merge|where|function)\b|=>|\bfunction\b")
_REDIS_WATCHES: Final = (
    *("--scan", "--bigkeys", "--memkeys", "--hotkeys", "--stat", "--latency", "--latency-history"),
    *("--intrinsic-latency", "--latency-dist"),
)


def read_sql_client(inv: Invocation) -> None:
    """Analyse an SQL client, with statements in options, files, arguments or input."""
    call = inv.call
    if call.has_surely("--help") or call.has_surely("-?"):
        inv.found_help()
        return
    name = call.program.name
    texts = call.values(*_TEXTS.get(name, ("-e", "--execute", "--init-command")))
    files = call.values(*call.program.row.loads)
    database, texts = _database(inv, texts)
    for word in texts:
        _statements(inv, word, scratch=_is_scratch(inv, database))
    for word in files:
        _file(inv, word, database)
    for word in call.values(*call.program.row.writes):
        inv.writes(word)
    for word in call.values(*call.program.row.runs):
        inv.shell(word, name)
    if name == "psql" and call.has_surely("-l"):
        inv.found(Effect.READ, "lists databases", type="db_read")
    elif not texts and not files:
        _input(inv, database)


def _database(inv: Invocation, texts: list[Word]) -> tuple[Word | None, list[Word]]:
    """Return the database file, and all statements in the arguments."""
    if inv.call.name not in _FILED:
        return None, texts
    words = inv.call.arguments
    inv.reads(*words[:1])
    return (words[0] if words else None), [*texts, *words[1:]]


def _is_scratch(inv: Invocation, database: Word | None) -> bool:
    """Return True if a database is in memory or temporary."""
    if database is None or not database.fixed:
        return False
    in_memory = database.text in {":memory:", ""}
    return in_memory or inv.scope.place(database.text).kind == places.TEMPORARY


def _statements(inv: Invocation, word: Word, *, scratch: bool = False) -> None:
    """Record the effects of statements. Deleting data in a scratch database is harmless."""
    name = inv.call.program.name
    if not word.known:
        why = "runs statements that are only known at run time"
        inv.found(Effect.UNKNOWN, why, type="db_write", remedy="with the statements written out")
        return
    kind = sql_type(word.text, program=name)
    code = read_sql(word.text, program=name)
    for effect, why in code.findings:
        own = scratch and effect is Effect.IRREVERSIBLE
        inv.found(
            Effect.WORK if own else effect,
            f"runs a statement that {why}",
            type="" if own else kind,
        )
    if not code.findings:
        inv.found(Effect.READ, "queries a database", type=kind if kind == "db_read" else "")
    run_code(inv, code._replace(findings=()), word, name)


def _file(inv: Invocation, word: Word, database: Word | None) -> None:
    """Record the effects of a file of statements."""
    source = inv.source(word)
    inv.reads(word)
    _given(inv, source or Flow(None, PROJECT), database)


def _given(inv: Invocation, given: Flow, database: Word | None) -> None:
    own = database is not None and inv.scope.place(database.text).kind in {
        places.INSIDE,
        places.TEMPORARY,
    }
    if given.text is not None and given.origin in {KNOWN, PROJECT}:
        start, end = inv.command.start, inv.command.end
        _statements(inv, Word(given.text, start, end, given.origin))
    elif given.origin == PROJECT and own:
        inv.found(Effect.WORK, "runs the project's statements on the project's database")
    elif given.origin == NETWORK:
        inv.runs_unknown(given.origin, "statements")
    else:
        why = "runs statements from a file or another command, which are not analysed"
        inv.found(Effect.UNKNOWN, why, type="db_write", traits=RUNS_FILE)


def _input(inv: Invocation, database: Word | None) -> None:
    if inv.stdin is None:
        inv.found(Effect.UNKNOWN, "opens an interactive database shell", traits=("open_input",))
    else:
        _given(inv, inv.stdin, database)


def read_query(inv: Invocation) -> None:
    """Analyse a client with a verb `query`, which is followed by statements."""
    rows.apply(inv)
    if inv.call.verb != "query":
        return
    words = [w for w in inv.call.arguments[1:] if not w.text.startswith("-")]
    if words:
        for word in words:
            _statements(inv, word)
    else:
        _input(inv, None)


def read_mongo(inv: Invocation) -> None:
    """Analyse `mongosh`: every call in `--eval` must be a known query."""
    call = inv.call
    texts = [word.text for word in call.values("--eval", "-eval")]
    if not texts and inv.stdin is not None and inv.stdin.text is not None:
        texts = [inv.stdin.text]
    for script in (word for word in call.arguments if word.text.endswith((".js", ".mongodb"))):
        inv.found(Effect.UNKNOWN, f"runs {visible(script.text)} on a database", type="db_write")
    if not texts and not call.arguments[1:]:
        inv.found(Effect.UNKNOWN, "opens an interactive database shell", traits=("open_input",))
    known = inv.runner.listed("mongo_reads")
    for text in texts:
        called = set(_CALLED.findall(text))
        if HOLE in text or _HIDDEN.search(text):
            inv.found(Effect.UNKNOWN, "runs statements that cannot be analysed", type="db_write")
        elif "dropDatabase" in called or "drop" in called:
            why = "drops a database or collection"
            inv.found(Effect.IRREVERSIBLE, why, type="drop_database")
        elif called <= known:
            inv.found(Effect.READ, "queries a database", type="db_read")
        else:
            named = ", ".join(sorted(called - known))
            why = f"calls {visible(named)} on a database"
            inv.found(Effect.IRREVERSIBLE, why, type="db_write")


def read_redis(inv: Invocation) -> None:
    """Analyse `redis-cli COMMAND`, or the commands in its input."""
    call = inv.call
    for word in call.values("--rdb", "--functions-rdb"):
        inv.writes(word)
    words = [word.text.lower() for word in after_options(call.words, call.program.valued)]
    if call.has("--eval", "--pipe", "--cluster", "--cluster-mode", "-x", "-X"):
        inv.found(Effect.UNKNOWN, "runs commands from a file or its input", type="db_write")
    elif words:
        _redis(inv, words)
    elif any(call.has_surely(option) for option in _REDIS_WATCHES) or call.has("--rdb"):
        inv.found(Effect.READ, "queries a database", type="db_read")
    elif inv.stdin is not None and inv.stdin.text is not None:
        for line in inv.stdin.text.splitlines():
            if line.strip():
                _redis(inv, line.lower().split())
    else:
        inv.found(Effect.UNKNOWN, "opens an interactive database shell", traits=("open_input",))


def _redis(inv: Invocation, words: Sequence[str]) -> None:
    verb = words[0]
    inv.named = inv.call.name if HOLE in verb else f"{inv.call.name} {verb}"
    listed = inv.runner.listed
    if verb in listed("redis_reads") or " ".join(words[:2]) in listed("redis_reads"):
        inv.found(Effect.READ, "queries a database", type="db_read")
    elif verb in listed("redis_deletes"):
        why = f"deletes data in a database with the command {visible(verb)}"
        kind = "drop_database" if verb.startswith("flush") else "db_write"
        inv.found(Effect.IRREVERSIBLE, why, type=kind)
    elif verb in listed("redis_server"):
        inv.found(
            Effect.PRIVILEGED,
            f"changes the database server with the command {visible(verb)}",
            type="modify_config",
        )
    else:
        inv.found(
            Effect.IRREVERSIBLE,
            f"changes a database with the command {visible(verb)}",
            type="db_write",
        )


def read_database_tool(inv: Invocation) -> None:
    """Analyse a tool whose row covers local databases. Changing others needs approval."""
    rows.apply(inv)
    hosts = inv.call.values("-h", "--host", "-H")
    if any(not is_local(word.text) and not word.text.startswith("/") for word in hosts):
        inv.found(Effect.LEAVES, "changes a database on another machine", type="db_write")
