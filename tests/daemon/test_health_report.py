import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from safetyd.bus.keyring import Keyring
from safetyd.daemon.health_report import stored_in
from safetyd.daemon.written_records import Written
from safetyd.journal.audit import Audit
from safetyd.journal.checkpoints import Checkpoints
from safetyd.operators.views.health_view import StoredFacts
from tests.conftest import StartDaemon
from tests.journeys.agents import until
from tests.journeys.people import query
from tests.story import at, stop

pytestmark = pytest.mark.usefixtures("measured")

SAVED: Final = datetime(2026, 1, 2, tzinfo=UTC)


def test_nothing_is_said_of_an_empty_directory(tmp_path: Path) -> None:
    assert stored_in(tmp_path) == StoredFacts()


def test_files_of_a_data_directory_are_counted(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit", 4096)
    audit.open()
    audit.close()
    Checkpoints(tmp_path / "checkpoints")
    for name in ("00000000000000000007.msgpack", "00000000000000000011.msgpack", "x.msgpack"):
        path = tmp_path / "checkpoints" / name
        path.touch()
        os.utime(path, (SAVED.timestamp(), SAVED.timestamp()))
    keyring = Keyring(tmp_path / "keys")
    keyring.make_own()
    keyring.add("agents", "code")
    keyring.add("observers", "wall")

    found = stored_in(tmp_path)

    assert (found.audit_file, found.audit_files) == ("audit-00000001.jsonl", 1)
    assert found.audit_bytes == (tmp_path / "audit" / found.audit_file).stat().st_size
    assert (found.checkpoint_seq, found.checkpoint_at) == (11, SAVED)
    assert set(found.keys) == {("agents", "code"), ("operators", "local"), ("observers", "wall")}


def test_what_was_written_last_is_remembered() -> None:
    written = Written(3)
    event = stop(5)
    event.seq = 4

    written.observe([event])
    written.observe([])

    assert (written.seq, written.at) == (4, at(5))


@pytest.mark.journey
def test_a_daemon_that_is_well_says_so_to_an_observer_and_of_every_part(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon()
    assert daemon.safetyd("operator", "add", "wall", "--observer").returncode == 0
    key = daemon.data_dir / "keys" / "observers" / "wall.nk"

    answer = query(daemon, "health", key=key, by="wall")

    checks = {check["name"]: check["says"] for check in answer["checks"]}
    assert answer["ok"]
    assert answer["state"] == "good"
    assert "4 of 4 connections work" in checks["bus"]
    assert checks["audit"].startswith("audit-00000001.jsonl ends with event ")
    assert checks["keys"] == "0 agents, 1 operator, 1 observer"
    assert checks["configuration"] == str(daemon.config_path)
    assert "nats-server 2." in checks["versions"]


@pytest.mark.journey
def test_new_thresholds_of_the_disk_hold_after_a_reload(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    with daemon.config_path.open("a") as config:
        config.write(f"[disk]\nwarn_percent = 1\nwarn_free_bytes = {1024**5}\n")

    assert daemon.safetyd("reload").returncode == 0

    until(lambda: query(daemon, "status")["disk"]["level"] == "warn")
    assert query(daemon, "health")["state"] == "warn"
    assert daemon.safetyd("status").stdout.startswith("DISK FILLING: the disk at ")
