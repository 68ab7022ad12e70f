"""Analysis of SQL statements."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.shell.code.sql_code import read_sql, sql_type
from safetyd.core.shell.reading import HOLE, Code, Effect
from tests.core.shell.code.expected import found, read, shell, written

UNREADABLE: Final = (Effect.UNKNOWN, "cannot be analysed")
UNSHOWN: Final = (Effect.UNKNOWN, "runs other code")
SERVER: Final = (Effect.PRIVILEGED, "changes server settings or permissions")
ON_SERVER: Final = (
    Effect.PRIVILEGED,
    "reads files with the permissions of the database server",
)
CONNECTS: Final = (Effect.LEAVES, "opens a connection to another machine")
PRAGMA: Final = "changes a database setting"
HOLDS: Final = "changes data in a database"


def changes(*whys: str) -> Code:
    return found(*((Effect.IRREVERSIBLE, why) for why in whys))


ASKING: Final = [
    ("psql", "select * from users where name = 'drop table a; --' limit 5;"),
    ("psql", "SELECT 1; -- drop table a\n/* delete /* from */ a */ select 2"),
    ("psql", "with a as (select 1) select * from a for update"),
    ("psql", "select replace(a, 'b', 'c'), t.update, \"delete\" from t"),
    ("psql", "select $$drop; table$$, $a$ it's $a$, E'it\\'s; ', '{}'::json, a[1]"),
    ("psql", "explain select 1"),
    ("psql", "explain delete from a"),
    ("psql", "explain (analyze, buffers) select 1"),
    ("psql", "explain analyze"),
    ("psql", "show all; values (1); table a; (select 1) union (select 2)"),
    ("psql", "begin; set search_path to a; start transaction; rollback"),
    ("psql", "\\d users"),
    ("psql", "\\dt+ \\l \\x \\timing \\conninfo"),
    ("psql", "select 1 \\gx\n\\d a\nselect 2 \\g (format=csv)"),
    ("psql", "copy (select * from a) to stdout"),
    ("psql", "\\copy (select 1) to stdout"),
    ("psql", "select 1 \\; select 2"),
    ("mysql", "show tables; describe users; desc a"),
    ("mysql", 'select "a\\"; drop table b" # delete\n, 1 -- drop'),
    ("mysql", "use app; select 1\\G"),
    ("sqlite3", ".tables"),
    ("sqlite3", ".headers on\n.mode column\nselect * from [a;b];\n.schema a"),
    ("sqlite3", "pragma table_info(a); pragma user_version; pragma foreign_keys = on"),
    ("sqlite3", "explain query plan select 1; .output stdout"),
    ("sqlite3", "select 'a\\'; detach database b"),
    ("bq", "select `a.b.c` from `d`"),
    ("duckdb", "summarize a; from b"),
]

ACTING: Final = [
    ("psql", "drop table users", changes("drops a table")),
    ("psql", "DROP MATERIALIZED VIEW IF EXISTS a", changes("drops a view")),
    ("psql", "drop index a; create unique index b on c (d)",
     changes("drops an index", "creates an index")),
    ("psql", "drop", changes("drops an object")),
    ("psql", "truncate a; delete from a; update a set b = 1",
     changes("empties a table", "deletes rows", "changes rows")),
    ("psql", "insert into a values (1); alter table a add b int; grant all on a to b",
     changes("adds rows", "changes a table", "changes permissions")),
    ("psql", "vacuum full", changes("may change the database: VACUUM")),
    ("psql", "do $$ begin perform 1; end $$; call f()", changes("runs a stored procedure")),
    ("psql", "with a as (delete from b returning *) select * from a", changes("deletes rows")),
    ("psql", "with a as (select 1) insert into b select * from a", changes("adds rows")),
    ("psql", "select * into b from a", changes("writes a table")),
    ("psql", "explain analyze delete from a", changes("deletes rows")),
    ("psql", "select 'a\\'; drop table b; --'", changes("drops a table")),
    ("psql", "select pg_read_file('/etc/passwd')",
     read("/etc/passwd")._replace(findings=(ON_SERVER,))),
    ("psql", "select pg_read_file(a)", read(HOLE)._replace(findings=(ON_SERVER,))),
    ("psql", "select pg_terminate_backend(1)", changes("ends other database sessions")),
    ("psql", "select nextval('a'), pg_create_restore_point('b')", changes(HOLDS)),
    ("psql", "select pg_reload_conf(); set role a; alter system set b = 1",
     found(SERVER, (Effect.IRREVERSIBLE, "changes a system"))),
    ("psql", "select * from dblink('a', 'b')", found(CONNECTS)),
    ("psql", "copy a to program 'curl x'; copy a from program 'id'",
     Code(shell=("curl x", "id"), findings=((Effect.IRREVERSIBLE, "adds rows"),))),
    ("psql", "copy a to '/tmp/a.csv'", written("/tmp/a.csv")),
    ("psql", "copy (delete from a returning *) to stdout", changes("deletes rows")),
    ("psql", "copy a from stdin", changes("adds rows")),
    ("psql", "load 'x.so'", found((Effect.UNKNOWN, "loads a library"))),
    ("psql", "select :x; select :'y'", found(UNREADABLE)),
    ("psql", "\\! rm -rf ~", shell("rm -rf ~")),
    ("psql", "\\timing \\! ls\\ a", shell("ls\\ a")),
    ("psql", "\\echo `id` \\o |cat", shell("id", "cat")),
    ("psql", "\\o out.txt\n\\g '| sh'\n\\w",
     Code(touches=written("out.txt").touches, shell=("sh",))),
    ("psql", "\\o ''", written(HOLE)),
    ("psql", "select 'a' \\gexec", found(UNSHOWN)),
    ("psql", "\\i x.sql", found(UNSHOWN)),
    ("psql", "\\password a", found((Effect.PRIVILEGED, "changes a password"))),
    ("psql", "\\lo_unlink 1", changes(HOLDS)),
    ("psql", "\\copy a to program 'sh'", shell("sh")),
    ("psql", "\\copy a to 'b.csv' csv", written("b.csv")),
    ("psql", "\\copy a from b.csv", read("b.csv")._replace(findings=changes("adds rows").findings)),
    ("psql", "\\copy (delete from a returning *) to stdout", changes("may change rows")),
    ("psql", "select 'a", found(UNREADABLE)),
    ("psql", "select $a$ b", found(UNREADABLE)),
    ("psql", "select 1 /* /* */", found(UNREADABLE)),
    ("psql", f"select {HOLE}", found(UNREADABLE)),
    ("psql", "select 1," * 20_000, found(UNREADABLE)),
    ("mysql", "select 1 --1; drop table a", changes("drops a table")),
    ("mysql", "/*!50000 drop table a */", found(UNREADABLE)),
    ("mysql", "/* /* */ drop table a; */", found(UNREADABLE)),
    ("mysql", "select 1 into outfile '/tmp/a'; select load_file('/etc/a')",
     Code(findings=(ON_SERVER,), touches=(*written("/tmp/a").touches, *read("/etc/a").touches))),
    ("mysql", "load data infile 'a.csv' into table b",
     read("a.csv")._replace(findings=changes("adds rows").findings)),
    ("mysql", "system ls; \\. x.sql", found(UNSHOWN)),
    ("mysql", "\\! ls", shell("ls")),
    ("mysql", "set global a = 1; kill 5; reset master; start slave",
     found(SERVER, *changes("ends other database sessions", "may change the database: RESET",
                            "may change the database: START").findings)),
    ("sqlite3", ".shell ls\n.system", shell("ls", HOLE)),
    ("sqlite3", ".output a.txt\n.once |cat\n.open b.db",
     Code(touches=written("a.txt", "b.db").touches, shell=("cat",))),
    ("sqlite3", ".import '|id' a\n.restore b",
     Code(changes("adds rows").findings, shell=("id' a",))),
    ("sqlite3", ".load x\n.read y", found(UNSHOWN)),
    ("sqlite3", "attach 'b.db' as b; attach x", written("b.db", HOLE)),
    ("sqlite3", "select load_extension('x'), writefile('a', b), readfile('c')",
     Code(found(UNSHOWN).findings, (*written("a").touches, *read("c").touches))),
    ("sqlite3", "pragma journal_mode = wal; pragma wal_checkpoint; pragma user_version(1); pragma",
     changes(PRAGMA)),
    ("sqlcmd", "exec xp_cmdshell 'dir'; exec xp_cmdshell",
     Code(changes("runs a stored procedure").findings, shell=("dir", HOLE))),
    ("duckdb", "install httpfs; select * from 'a.csv'",
     Code(((Effect.INSTALLS, "installs an extension"),), read("a.csv").touches)),
    ("clickhouse-client", "detach table a", changes("may change the database: DETACH")),
]  # fmt: skip


@pytest.mark.parametrize(("program", "text"), ASKING)
def test_queries_have_no_findings(program: str, text: str) -> None:
    assert read_sql(text, program=program) == Code()
    assert sql_type(text, program=program) == "db_read"


@pytest.mark.parametrize(("program", "text", "expected"), ACTING)
def test_the_effects_of_statements_are_found(program: str, text: str, expected: Code) -> None:
    assert read_sql(text, program=program) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1", "db_read"),
        ("select 'drop table a'", "db_read"),
        ("select pg_read_file('a')", "db_write"),
        ("update a set b = 1", "db_write"),
        ("copy a to 'b'", "db_write"),
        ("\\! ls", "db_write"),
        ("select 'a", "db_write"),
        ("select 1; drop table a", "drop_database"),
        ("truncate a", "drop_database"),
    ],
)
def test_statements_have_the_equivalent_action_type(text: str, expected: str) -> None:
    assert sql_type(text) == expected


PROGRAMS: Final = st.sampled_from(["psql", "mysql", "sqlite3", "duckdb", "bq", "sqlcmd", "cqlsh"])
WORDS: Final = st.sampled_from(
    ["select ", "drop ", "with ", "a ", "(", ")", "'", '"', "`", ";", "\n", "--", "/*", "*/", "$$",
     "\\", "\\!", "\\copy ", "to ", "from ", ".", ".output ", "|", "pragma ", "explain ",
     "analyze ", "copy ", "program ", "into ", "=", ":", "1", "[", "]", "#", "into outfile ",
     "load "]
)  # fmt: skip


@given(PROGRAMS, st.text(max_size=200) | st.lists(WORDS, max_size=30).map("".join))
def test_analysis_never_raises_and_is_deterministic(program: str, text: str) -> None:
    assert read_sql(text, program=program) == read_sql(text, program=program)
    assert sql_type(text, program=program) in {"db_read", "db_write", "drop_database"}


@given(st.sampled_from([each for each in ACTING if "\\" not in each[1]]), st.text("ab'(; "))
def test_a_comment_does_not_change_the_result(case: tuple[str, str, Code], words: str) -> None:
    program, text, expected = case
    if UNREADABLE not in expected.findings:
        assert read_sql(f"{text}\n-- {words}", program=program) == expected
        assert read_sql(f"{text}\n/* {words} */", program=program) == expected
