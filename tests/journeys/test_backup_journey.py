"""A backup of a running daemon, restored into another daemon that continues from it."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import decode
from safetyd.core.events.event import Event
from safetyd.core.events.history_events import BackupMade, SnapshotMissed, SnapshotTaken
from safetyd.core.policy import Policy
from safetyd.extras.backup.daily_snapshots import GONE
from safetyd.journal.audit_reading import lines_after, seq_of
from safetyd.journal.checkpoints import Checkpoints, SavedCheckpoint, state_digest
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import told
from tests.journeys.agents import until
from tests.journeys.asking_agent import Asker
from tests.journeys.audit_record import assert_verifies, events
from tests.journeys.people import control, query

CONFIG = '[history]\nsnapshot_at = "00:00"\n'


def known(daemon: RunningDaemon) -> dict[str, Any]:
    """Return pending requests, grants and spending, without remaining times."""
    found = {name: query(daemon, name) for name in ("pending", "grants", "budgets")}
    for request in found["pending"]["requests"]:
        assert request.pop("left_s") > 0
    return found


def work(daemon: RunningDaemon) -> dict[str, Any]:
    """Let agents act, so that there is state to restore; return a decision."""
    with Asker(daemon) as agent:
        read = agent.propose("r1", type="read_file", text="notes.txt", cost_usd=0.5)
        assert read["decision"] == "allow"
        agent.ask("telemetry", {"type": "outcome", "id": "r1", "ok": True, "cost_usd": 0.25})
        assert agent.propose("p1")["status"] == "pending"
    until_ = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    granted = control(
        daemon, "grant_add", agent="nightly", type="push", uses=5, until=until_, reason="at night"
    )
    assert granted["ok"], granted
    return read


def edit(daemon: RunningDaemon, file: Path, key: Path) -> None:
    """Let an agent change a file in the shop, and wait for the commit."""
    with Asker(daemon, "code", key) as agent:
        action = {"type": "edit_file", "id": "w1", "paths": [str(file)], "text": "x"}
        assert agent.ask("propose", action)["decision"] == "allow"
        file.write_text("written")
        agent.ask("telemetry", {"type": "outcome", "id": "w1", "ok": True})
    until(lambda: len(query(daemon, "commits", project="shop")["commits"]) == 2)


def started_from(daemon: RunningDaemon, data_dir: Path) -> None:
    daemon.data_dir = data_dir
    daemon.start()


def digests(data_dir: Path) -> set[str]:
    """Return state digests from the checkpoint and from replaying the audit files."""
    (saved,) = Checkpoints(data_dir / "checkpoints").load()
    assert isinstance(saved, SavedCheckpoint)
    replayed = Engine(Policy())
    replayed.replay(map(decode, lines_after(data_dir / "audit", 0)))
    return {state_digest(saved.engine), state_digest(replayed.save()())}


@pytest.mark.journey
@pytest.mark.req("S2.23")
def test_a_restored_daemon_has_the_same_state_and_continues_without_a_gap(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    daemon = start_daemon(CONFIG)
    read = work(daemon)
    before = known(daemon)
    file = tmp_path / "backup"

    made = msgspec.json.decode(told(daemon, "backup", str(file), "--json").stdout)
    assert made["ok"], made
    recorded = [event for event in events(daemon.data_dir) if isinstance(event, BackupMade)]
    assert [(event.by, event.upto, event.keys) for event in recorded] == [
        ("local", made["seq"], False)
    ]
    assert recorded[0].size == made["size"] == file.stat().st_size
    with Asker(daemon) as agent:  # after the backup
        assert agent.propose("p2", text="git push origin other")["status"] == "pending"
    daemon.kill()

    into = tmp_path / "elsewhere"
    restored = msgspec.json.decode(told(daemon, "restore", str(file), str(into), "--json").stdout)
    assert (restored["state"], restored["seq"]) == (made["state"], made["seq"])
    assert not restored["keys"]
    assert any(f"safetyd run --data-dir {into}" in step for step in restored["next"])
    assert digests(into) == {made["state"]}

    started_from(daemon, into)

    assert known(daemon) == before
    with Asker(daemon) as agent:
        again = agent.propose("r1", type="read_file", text="notes.txt", cost_usd=0.5)
        assert (again["seq"], again["decision"]) == (read["seq"], "allow")
        assert agent.propose("p3", text="git push origin third")["status"] == "pending"
    daemon.restart()
    assert len(query(daemon, "pending")["requests"]) == 2
    assert_verifies(daemon)
    seqs = [seq_of(line) for line in lines_after(into / "audit", 0)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert len(seqs) > made["seq"]


@pytest.mark.journey
@pytest.mark.req("S2.23")
def test_restored_keys_work_and_restored_commits_can_be_rolled_back_to(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    root, key, passphrase = (tmp_path / name for name in ("shop", "code.nk", "passphrase"))
    root.mkdir()
    cart = root / "cart.py"
    cart.write_text("begun")
    passphrase.write_text("correct horse battery\n")
    project = f'[projects.shop]\nroot = "{root}"\nagents = ["code"]\nhistory = "shadow"\n'
    daemon = start_daemon(f'profile = "coding"\n[bus]\nopen_agents = false\n{project}')
    assert told(daemon, "agent", "add", "code").returncode == 0
    key.write_bytes((daemon.data_dir / "keys/agents/code.nk").read_bytes())
    edit(daemon, cart, key)
    before = query(daemon, "commits", project="shop")["commits"]
    file, into = tmp_path / "backup", tmp_path / "elsewhere"

    named = {"SAFETYD_PASSPHRASE_FILE": str(passphrase)}
    said = told(daemon, "backup", str(file), "--with-keys", "--with-history", **named)
    assert said.returncode == 0, said.stderr
    assert "It is encrypted." in said.stdout
    daemon.kill()
    said = told(daemon, "restore", str(file), str(into), **named)
    assert said.returncode == 0, said.stderr
    assert "revoked after the backup" in said.stdout
    started_from(daemon, into)

    with Asker(daemon, "code", key) as agent:
        assert agent.propose("r1", type="read_file", text="notes.txt")["decision"] == "allow"
    assert query(daemon, "commits", project="shop")["commits"] == before
    back = {"commit": before[-1]["commit"], "kind": "soft", "reason": "drill", "project": "shop"}
    assert control(daemon, "rollback", **back)["ok"]
    assert cart.read_text() == "begun"


@pytest.mark.journey
@pytest.mark.req("S2.21")
def test_the_daemon_makes_a_snapshot_and_retention_lists_it(start_daemon: StartDaemon) -> None:
    daemon = start_daemon(CONFIG)
    until(lambda: any(isinstance(event, SnapshotTaken) for event in events(daemon.data_dir)))

    shown = msgspec.json.decode(told(daemon, "retention", "--json").stdout)
    (kept,) = shown["kept"]
    assert (kept["kind"], kept["stays"]) == ("snapshot", "it is the newest")
    assert shown["missing"] == []
    path = Path(kept["path"])
    assert [p.name for p in (path / "safetyd/checkpoints").iterdir()]
    assert (path / "safetyd/safetyd.toml").read_bytes() == daemon.config_path.read_bytes()
    assert not list(path.rglob("*.nk"))


@pytest.mark.journey
@pytest.mark.req("S2.21")
def test_days_without_a_snapshot_are_reported_at_the_next_start(start_daemon: StartDaemon) -> None:
    passed = datetime.now(UTC) - timedelta(hours=1)
    config = f'[history]\nsnapshot_at = "{passed:%H:%M}"\n[notifications]\ntimezone = "UTC"\n'
    daemon = start_daemon(config)
    until(lambda: any(isinstance(event, SnapshotTaken) for event in events(daemon.data_dir)))
    daemon.stop()
    (taken,) = (daemon.data_dir / "snapshots").glob("20*")
    day = date.fromisoformat(taken.name)
    taken.rename(taken.with_name((day - timedelta(days=3)).isoformat()))

    daemon.start()

    until(lambda: len(snapshot_events(daemon)) == 4)
    _, missed, gone, made = snapshot_events(daemon)
    assert isinstance(missed, SnapshotMissed)
    assert isinstance(gone, SnapshotMissed)
    assert (gone.day, gone.error.startswith(GONE)) == (day.isoformat(), True)
    assert missed.since == (day - timedelta(days=2)).isoformat()
    assert isinstance(made, SnapshotTaken)
    assert missed.day == (day - timedelta(days=1)).isoformat()
    assert (made.day, made.late) == (day.isoformat(), True)
    assert query(daemon, "status")["missing"] is None
    shown = msgspec.json.decode(told(daemon, "retention", "--json").stdout)
    assert shown["missing"] == [(day - timedelta(days=back)).isoformat() for back in (2, 1)]


def snapshot_events(daemon: RunningDaemon) -> list[Event]:
    kinds = SnapshotTaken | SnapshotMissed
    return [event for event in events(daemon.data_dir) if isinstance(event, kinds)]
