"""What `safetyd outlet` says of a real PostgreSQL, without a daemon."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.console_rig import Said, here
from tests.extras.postgres.event_mix import event_mix
from tests.extras.postgres.postgres_store import PostgresStore
from tests.postgres_server import PostgresServer


@pytest.fixture
def store(postgres: PostgresServer, schema: str, tmp_path: Path) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres, schema, tmp_path)
    (tmp_path / "dsn").write_text(postgres.dsn())
    (tmp_path / "safetyd.toml").write_text(
        f'[outlets.postgres]\ndsn_file = "dsn"\nschema = "{schema}"\nbatch = 50\n'
    )
    store.write(event_mix(120))
    yield store
    store.database.close()


def outlet(store: PostgresStore, *arguments: str) -> Said:
    return here("outlet", *arguments, "--data-dir", str(store.data_dir))


@pytest.mark.req("S1.44")
def test_events_are_loaded_compared_and_counted(store: PostgresStore) -> None:
    before = outlet(store, "status")
    loaded = outlet(store, "backfill")
    again = outlet(store, "backfill", "--json")
    verified = outlet(store, "verify", "--json")
    after = outlet(store, "status")

    assert (before.returncode, before.stderr) == (0, "")
    assert "  events   0 of 120: 120 events behind\n  loaded   nothing yet\n" in before.stdout
    assert loaded.stdout.startswith("Loaded 120 events in ")
    assert (json.loads(again.stdout)["loaded"], json.loads(again.stdout)["seq"]) == (0, 120)
    assert (verified.returncode, json.loads(verified.stdout)["events"]) == (0, 120)
    assert "  events   120 of 120: 0 events behind\n" in after.stdout
    assert f"  readers  {store.schema}_reader\n" in after.stdout


def test_the_first_difference_is_named_and_is_a_failure(store: PostgresStore) -> None:
    outlet(store, "backfill")
    store.change("DELETE FROM events WHERE seq = 7")

    said = outlet(store, "verify")
    told = outlet(store, "verify", "--json")
    later = outlet(store, "verify", "--after", "7")

    assert (said.returncode, said.stderr) == (1, "")
    assert said.stdout == (
        "DIFFERENT: event 7 is in the audit files but not in the database. "
        "The first 6 events are equal.\n"
    )
    assert (told.returncode, json.loads(told.stdout)["seq"]) == (1, 7)
    assert later.stdout.startswith("Equal: 113 events up to number 120")


def test_files_that_are_elsewhere_are_loaded_from_there(
    store: PostgresStore, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    store.audit.rename(elsewhere)

    missing = outlet(store, "backfill")
    loaded = outlet(store, "backfill", "--from", str(elsewhere), "--json")

    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == f"safetyd: no audit files in {store.audit}\n"
    assert json.loads(loaded.stdout)["loaded"] == 120


def test_what_no_file_has_is_left_out_if_somebody_says_so(store: PostgresStore) -> None:
    for path in store.audit.iterdir():
        path.unlink()
    store.write(event_mix(120), max_bytes=4096, at_once=10)
    min(store.audit.iterdir()).unlink()

    refused = outlet(store, "backfill")
    loaded = outlet(store, "backfill", "--without-missing")
    verified = outlet(store, "verify")
    shown = outlet(store, "status")

    assert refused.returncode == 1
    assert "`--without-missing`" in refused.stderr
    assert loaded.returncode == 0
    assert verified.stdout.splitlines()[-1].startswith("Skipped: 10 events")
    assert "  missing  10 events in no audit file\n" in shown.stdout


def test_a_database_that_is_not_there_is_told_without_its_password(store: PostgresStore) -> None:
    (store.data_dir / "dsn").write_text("host=/nowhere password=hunter2 user=u")

    for arguments in (("status",), ("verify",), ("backfill",), ("status", "--json")):
        said = outlet(store, *arguments)
        assert said.returncode == 1
        assert "/nowhere/" in said.stdout + said.stderr
        assert "hunter2" not in said.stdout + said.stderr


def test_events_of_another_journal_are_told(store: PostgresStore) -> None:
    outlet(store, "backfill")
    (store.data_dir / "journal-id").unlink()

    said = outlet(store, "status")

    assert said.returncode == 1
    assert "ERROR: schema s" in said.stdout
    assert "contains events of another daemon" in said.stdout


def test_an_administrator_is_told_how_to_make_the_role(store: PostgresStore) -> None:
    said = outlet(store, "role")
    told = outlet(store, "role", "--json")

    assert said.stdout.splitlines()[0] == f'CREATE ROLE "{store.schema}_reader" NOLOGIN;'
    assert said.stdout.count(";\n") == 4
    assert len(json.loads(told.stdout)["sql"]) == 2
    outlet(store, "backfill")
    store.server.execute(f'DROP OWNED BY "{store.schema}_reader"')
    store.server.execute(f'DROP ROLE "{store.schema}_reader"')
    assert "no read-only role" in outlet(store, "status").stdout
    store.server.execute(said.stdout)
    assert f"  readers  {store.schema}_reader\n" in outlet(store, "status").stdout


def test_who_has_none_is_told_where_to_set_it(tmp_path: Path) -> None:
    said = here("outlet", "status", "--data-dir", str(tmp_path))
    (tmp_path / "safetyd.toml").write_text("[outlets.postgres]\nbatch = 0\n")
    wrong = here("outlet", "verify", "--data-dir", str(tmp_path))

    assert (said.returncode, wrong.returncode) == (1, 1)
    assert said.stderr.startswith("safetyd: outlets.postgres.dsn_file is not set ")
    assert "--config" in said.stderr
    assert "outlets.postgres.batch is 0; it must be a whole number, at least 1" in wrong.stderr


def test_without_the_driver_it_says_what_to_type(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("database", "loading", "comparing", "standing", "schema_migrations"):
        monkeypatch.delitem(sys.modules, f"safetyd.extras.postgres.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)

    for command in ("status", "verify", "backfill", "role"):
        said = outlet(store, command)
        assert said.returncode == 1
        assert "run `pip install 'safetyd[postgres]'`" in said.stdout + said.stderr
