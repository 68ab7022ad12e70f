"""Events in a real PostgreSQL: all of them, once, as they stand in the audit files."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from safetyd.clock import uptime
from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.event import Event
from safetyd.core.events.guard_events import PersonSeen
from safetyd.extras.postgres import loading
from safetyd.extras.postgres.audit_rows import Progress
from safetyd.extras.postgres.database import Database
from safetyd.extras.postgres.export_problem import ExportProblem, MissingEvents
from safetyd.extras.postgres.loading import TABLES
from safetyd.extras.postgres.schema_migrations import migrate, migrations, reader_sql
from safetyd.extras.postgres.standing import standing
from safetyd.journal.audit import Audit
from safetyd.journal.audit_reading import Rests
from tests.event_samples import one_of_each
from tests.extras.postgres.event_mix import event_mix
from tests.extras.postgres.postgres_store import PostgresStore
from tests.postgres_server import PostgresServer
from tests.story import at

NASTY = (
    "nul \x00 and \\u0000 and \\\x00",
    "tab\tnewline\nreturn\r\\N \\. \\\\",
    "quotes \" ' $$ -- ; DROP TABLE events",
    '","agent":"impostor","hash":"' + "0" * 64 + '"}',
    "\U0001f600 \u202e \ufeff \x7f ü",
)
COPIED = "INSERT INTO events (seq, at, event, hash, line)"


@pytest.fixture
def store(postgres: PostgresServer, schema: str, tmp_path: Path) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres, schema, tmp_path)
    yield store
    store.database.close()


def numbered(*events: Event) -> list[Event]:
    for seq, event in enumerate(events, 1):
        event.seq = seq
    return list(events)


def seen(t: float, how: str = "ack") -> PersonSeen:
    return PersonSeen(at=at(t), t=t, by="alice", how=how)


@pytest.mark.req("S1.44")
def test_every_kind_of_event_is_loaded_once_and_as_it_was_written(store: PostgresStore) -> None:
    events = numbered(*one_of_each())
    store.write(events, max_bytes=4096, at_once=5)

    assert store.load(batch=7).seq == len(events)

    assert store.loaded_lines() == store.audit_lines()
    kinds = Counter(str(type(event).__struct_config__.tag) for event in events)
    assert dict(store.rows("SELECT event, count(*) FROM events GROUP BY 1")) == kinds
    found = store.compare()
    assert (found.events, found.last_seq, found.difference) == (len(events), len(events), "")


def test_what_an_agent_says_neither_breaks_nor_changes_a_row(store: PostgresStore) -> None:
    store.write(numbered(*(seen(t, text) for t, text in enumerate(NASTY))))

    store.load()

    assert store.loaded_lines() == store.audit_lines()
    said = [how for (how,) in store.rows("SELECT body->>'how' FROM events ORDER BY seq")]
    assert said[1:] == list(NASTY[1:])
    assert said[0].startswith("nul \ufffd and ")
    assert store.rows("SELECT DISTINCT agent FROM events") == [(None,)]
    assert store.compare().difference == ""


def test_loading_goes_on_where_it_stopped(store: PostgresStore) -> None:
    events = list(event_mix(50))
    store.write(events[:20])
    first = store.load()
    audit = Audit(store.audit, 1 << 20)
    audit.open()
    audit.append([encode(event) for event in events[20:]], 50)
    audit.close()

    assert (first.seq, store.load().seq) == (20, 50)
    assert store.loaded_lines() == store.audit_lines()


def test_rests_are_for_what_was_worked_and_not_for_the_time_between_batches(
    store: PostgresStore,
) -> None:
    store.write(event_mix(20))
    rests = Rests(20.0)
    loader = store.loader(10, rests=rests)
    loader.load()
    rested_s, since = rests.total_s, uptime()
    while uptime() < since + 0.2:
        pass

    loader.load()

    assert rests.total_s - rested_s < 3.0  # the time between alone would make it 4


def test_two_that_load_at_once_load_everything_once(store: PostgresStore) -> None:
    store.write(event_mix(60))
    one, other = store.loader(10), store.loader(10)
    one.reached()
    other.reached()

    one.load()
    stale = other.load()  # it had read the rows that the first has loaded meanwhile
    while other.load().seq < 60:
        pass

    assert stale.seq == 10
    assert store.loaded_lines() == store.audit_lines()


def test_a_batch_is_whole_or_not_there(store: PostgresStore) -> None:
    store.write(event_mix(40))
    loader = store.loader(20)
    loader.load()
    store.change("ALTER TABLE outcomes ADD CHECK (seq < 30)")

    with pytest.raises(ExportProblem, match=r"violates check constraint .*23514"):
        loader.load()

    assert store.one("SELECT max(seq) FROM events") == 20
    assert store.one("SELECT seq FROM progress") == 20
    store.change("ALTER TABLE outcomes DROP CONSTRAINT outcomes_seq_check")
    assert loader.load().seq == 40
    assert store.compare().difference == ""


def test_large_lines_make_small_batches(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "MAX_BATCH_BYTES", 50_000)
    store.write(numbered(*(seen(t, "x" * 20_000) for t in range(7))))

    assert store.loader().load().seq == 3


def test_each_month_has_a_part_and_the_next_is_there_before_it_is_needed(
    store: PostgresStore,
) -> None:
    times = [datetime(2026, 12, 31, 23, 59, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)]
    stepped_back = datetime(2019, 5, 5, tzinfo=UTC)
    store.write(
        numbered(*(PersonSeen(at=t, t=0.0, by="a", how="ack") for t in (*times, stepped_back)))
    )

    store.load()

    parts = "SELECT tableoid::regclass::text FROM events ORDER BY seq"
    names = [name.rpartition(".")[2] for (name,) in store.rows(parts)]
    assert names == ["events_2026_12", "events_2027_01", "events_2019_05"]
    for table in ("events", *TABLES):
        assert store.one(f"SELECT to_regclass('{table}_2027_02') IS NOT NULL")


def test_a_part_that_somebody_dropped_is_made_again(store: PostgresStore) -> None:
    store.write(event_mix(40))
    loader = store.loader(20)
    loader.load()
    store.change("DROP TABLE events_2026_03")

    with pytest.raises(ExportProblem, match="no partition of relation"):
        loader.load()

    assert loader.load().seq == 40


def test_events_of_another_journal_are_refused(
    store: PostgresStore, postgres: PostgresServer, tmp_path: Path
) -> None:
    store.write(event_mix(5))
    store.load()
    other = PostgresStore(postgres, store.schema, tmp_path / "other")
    other.write(event_mix(9))

    for attempt in (other.load, other.compare):
        with pytest.raises(ExportProblem, match="the events of another journal"):
            attempt()

    assert store.one("SELECT count(*) FROM events") == 5
    found = standing(other.database, other.audit, other.journal)
    assert (found.other_journal, found.seq, found.audit_seq) == (True, 5, 9)
    other.database.close()


def test_a_journal_that_went_another_way_is_refused(store: PostgresStore) -> None:
    """As after a backup that is older than what was loaded."""
    store.write(event_mix(10))
    store.load()
    (store.audit / "audit-00000001.jsonl").unlink()
    store.write(event_mix(12, at(900)))

    with pytest.raises(ExportProblem, match=r"event 11 .* does not follow from event 10"):
        store.load()


def test_missing_events_are_left_out_only_if_somebody_says_so(store: PostgresStore) -> None:
    store.write(event_mix(60), max_bytes=4096, at_once=5)
    first, second, *_ = sorted(store.audit.iterdir())
    first.unlink()
    begin = int(second.read_text().partition('"after_seq":')[2].partition(",")[0])

    with pytest.raises(MissingEvents, match=f"events 1 to {begin} are not in the audit files"):
        store.load()
    assert store.load(without_missing=True).seq == 60

    assert store.loaded_lines() == store.audit_lines()
    assert store.rows("SELECT first_seq, last_seq FROM gaps") == [(1, begin)]
    found = store.compare()
    assert (found.difference, found.missing, found.events) == ("", begin, 60 - begin)
    assert standing(store.database, store.audit, store.journal).missing == begin


def test_audit_files_that_cannot_be_read_are_named(store: PostgresStore) -> None:
    store.write(event_mix(5))
    path = store.audit / "audit-00000001.jsonl"
    path.rename(path.with_suffix(".moved"))
    path.mkdir()

    with pytest.raises(ExportProblem, match=r"cannot read the audit files: .*directory"):
        store.load()


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ("DELETE FROM events WHERE seq = 7", "event 7 is in the audit files but not in the"),
        ("DELETE FROM events WHERE seq > 25", "event 26 is in the audit files but not in the"),
        ("UPDATE events SET agent = 'x' WHERE seq = 3", "event 3 has a different agent in the"),
        (
            "UPDATE events SET hash = 'x' WHERE seq = 3",
            "event 3 has a different hash in the database",
        ),
        ("UPDATE events SET at = at + '1 s' WHERE seq = 4", "event 4 has a different at in the"),
        (
            "UPDATE events SET line = replace(line, 'make', 'rm') WHERE seq = 1",
            "event 1 has a different line in the database",
        ),
        (
            f"{COPIED} SELECT seq, at + '1 s', event, hash, line FROM events WHERE seq = 9",
            "event 9 is in the database twice",
        ),
        (
            f"{COPIED} SELECT 31, at, event, hash, line FROM events WHERE seq = 9",
            "event 31 is in the database, but the export has only reached event 30",
        ),
        (
            "UPDATE decisions SET decision = 'allow'",
            "event 10 does not match its rows in decisions",
        ),
        ("DELETE FROM request_steps", "event 10 does not match its rows in request_steps"),
    ],
)
def test_the_first_difference_is_found(store: PostgresStore, change: str, difference: str) -> None:
    store.write(event_mix(30))
    store.load()
    assert store.compare().difference == ""

    store.change(change)

    found = store.compare()
    assert found.difference.startswith(difference)


def test_an_event_that_no_audit_file_has_is_a_difference(store: PostgresStore) -> None:
    store.write(event_mix(10))
    store.load()
    path = store.audit / "audit-00000001.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:5] + lines[6:]))

    assert store.compare().difference == "event 5 is in the database but not in the audit files"
    assert store.compare(after=5).difference == ""


def test_what_people_ask_is_in_the_views(store: PostgresStore) -> None:
    store.write(event_mix(300))
    store.load()

    (cost,) = store.rows("SELECT sum(cost_usd), sum(actions) FROM cost_per_day")
    actions = store.one("SELECT count(*) FROM events WHERE event = 'settled'")
    assert cost == (Decimal("0.018") * actions, actions)
    rules = dict(store.rows("SELECT rule, times FROM top_rules"))
    assert rules["gate.blocklist:rm_rf"] == store.one("SELECT sum(times) FROM blocked_by_rule")
    ends = Counter(ended for (ended,) in store.rows("SELECT ended FROM request_ends"))
    assert ends["approved"] > 0
    assert store.one("SELECT count(*) FROM open_requests") == ends[None]
    assert store.rows("SELECT DISTINCT via, median_s FROM time_to_answer") == [("link", 1.5)]
    assert store.rows("SELECT DISTINCT state FROM delivery_ends") == [("accepted",)]
    assert store.rows("SELECT DISTINCT at_least FROM stated_confidence") == [(Decimal("0.8"),)]
    errors, outcomes = store.rows("SELECT sum(errors), sum(outcomes) FROM errors_per_day")[0]
    assert 0 < errors < outcomes == actions


def test_changes_of_the_tables_are_made_once_and_in_order(store: PostgresStore) -> None:
    assert migrate(store.database) == len(migrations())
    assert migrate(store.database) == 0

    recorded = store.rows("SELECT number, name, sha256 FROM migrations ORDER BY number")
    assert recorded == [one[:3] for one in migrations()]
    assert [number for number, *_ in recorded] == list(range(1, len(recorded) + 1))


def test_a_change_that_fails_leaves_nothing_behind(store: PostgresStore) -> None:
    store.server.execute(f"CREATE SCHEMA {store.schema}")
    store.server.execute(f"CREATE TABLE {store.schema}.decisions (mine text)")

    with pytest.raises(ExportProblem, match='relation "decisions" already exists'):
        migrate(store.database)

    assert store.one("SELECT to_regclass('events') IS NULL AND to_regclass('migrations') IS NULL")


def test_tables_of_a_newer_safetyd_or_of_others_are_left_alone(store: PostgresStore) -> None:
    migrate(store.database)
    store.change("INSERT INTO migrations (number, name, sha256) VALUES (99, 'later', '')")
    with pytest.raises(ExportProblem, match=r"created by a newer safetyd .migration 99, this one"):
        migrate(store.database)

    store.change("DELETE FROM migrations WHERE number = 99")
    store.change("UPDATE migrations SET sha256 = 'x' WHERE number = 2")
    with pytest.raises(ExportProblem, match=r"migration 2 of schema .* differs"):
        migrate(store.database)


def test_a_reader_sees_everything_and_changes_nothing(store: PostgresStore) -> None:
    store.write(event_mix(20))
    store.load()

    def as_reader(query: str) -> list[tuple[Any, ...]]:
        role = f"SET ROLE {store.schema}_reader; SET search_path = {store.schema}; "
        return store.server.execute(role + query)

    for table in ("events", *TABLES, "progress", "cost_per_day", "events_2026_03"):
        as_reader(f"SELECT count(*) FROM {table}")
    for change in ("DELETE FROM events", "UPDATE progress SET seq = 0", "CREATE TABLE x ()"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_reader(change)


def test_who_may_make_no_roles_loads_all_the_same(store: PostgresStore) -> None:
    role = f"{store.schema}_writer"
    store.server.execute(f"CREATE ROLE {role} LOGIN")
    store.server.execute(f"CREATE SCHEMA {store.schema} AUTHORIZATION {role}")
    store.database = Database(lambda: store.server.dsn(role), store.schema)
    store.write(event_mix(5))

    assert store.load().seq == 5
    assert standing(store.database, store.audit, store.journal).reader == ""

    for line in reader_sql(store.schema):
        store.server.execute(line.as_string(None))
    assert standing(store.database, store.audit, store.journal).reader == f"{store.schema}_reader"


def test_before_anything_is_loaded_there_is_nothing(store: PostgresStore) -> None:
    store.write(event_mix(5))

    found = standing(store.database, store.audit, store.journal)

    assert (found.tables, found.seq, found.behind) == (False, 0, 5)
    assert found.server.startswith("PostgreSQL ")
    assert found.server.endswith(", database postgres, user owner")


def test_progress_is_that_of_the_rows(store: PostgresStore) -> None:
    store.write(event_mix(10))

    progress = store.load(batch=4)

    assert progress == Progress(10, store.one("SELECT hash FROM events WHERE seq = 10"))
