"""The accounts file of an external server follows the keys in the bucket."""

import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from safetyd.bus.bus_accounts import AccountsFile, users_in
from safetyd.bus.key_bucket import Remote
from safetyd.bus.key_entry import KeyEntry, NameKeys
from safetyd.bus.key_files import EntryName
from safetyd.bus.keyring import Keyring, OldKey, Role, new_pair, public_key
from safetyd.bus.server_config import accounts
from safetyd.bus.subjects import Subjects
from tests.bus.peer import Peer
from tests.nats_process import SERVER, NatsProcess

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = [new_pair()[1].decode() for _ in range(8)]
DAEMONS = (KEYS[0], KEYS[1])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program named nats-server that ends on SIGHUP, also under nohup."""
    shutil.copy("/bin/sleep", tmp_path / "nats-server")
    command = ["env", "--default-signal=HUP", str(tmp_path / "nats-server"), "1000"]
    process = subprocess.Popen(command)
    while Path(f"/proc/{process.pid}/comm").read_text().strip() != "nats-server":
        time.sleep(0.01)
    (tmp_path / "pid").write_text(f"{process.pid}\n")
    yield process
    process.kill()
    process.wait()


def entry(keys: NameKeys) -> Remote:
    return Remote(1, KeyEntry(version=1, by=KEYS[0], keys=keys))


def test_users_are_the_trusted_keys_of_all_entries_and_an_old_key_ends_on_time() -> None:
    ends = NOW + timedelta(hours=1)
    entries = {
        EntryName("agents", "code"): entry(NameKeys(KEYS[2], (OldKey(KEYS[3], ends),))),
        EntryName("agents", "gone"): entry(NameKeys()),
        EntryName("agents", "forged"): Remote(9, None),
        EntryName("operators", "alice"): entry(NameKeys(KEYS[4])),
        EntryName("observers", "wall"): entry(NameKeys(KEYS[5])),
        EntryName("locals", KEYS[0]): entry(NameKeys(KEYS[6], (OldKey(KEYS[7], ends),))),
        EntryName("telemetry"): Remote(9, KeyEntry(version=1, by=KEYS[0], sealed={})),
    }

    users, later = (users_in(entries, DAEMONS, at) for at in (NOW, ends))

    assert dict(users.agents) == {"code": KEYS[2]}
    assert list(users.trusted("agents")) == [("code", KEYS[2]), ("code", KEYS[3])]
    assert {("alice", KEYS[4]), ("local", KEYS[6])} < set(users.trusted("operators"))
    text = accounts(users, Subjects())
    assert all(key in text for key in KEYS)
    assert KEYS[3] not in (after := accounts(later, Subjects()))
    assert KEYS[7] not in after


def test_a_changed_file_is_tested_written_and_loaded_once(
    tmp_path: Path, server: subprocess.Popen[bytes]
) -> None:
    path = tmp_path / "accounts.conf"
    file = AccountsFile(path, tmp_path / "pid", str(SERVER))

    assert file.update("port: 4222\n")
    assert server.wait(30) == -signal.SIGHUP
    assert not file.update("port: 4222\n")
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_file_that_the_server_rejects_is_not_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "accounts.conf"
    file = AccountsFile(path, None, str(SERVER))
    file.update("port: 4222\n")
    caplog.set_level(logging.ERROR, "safetyd.accounts")

    for _ in range(2):
        assert not file.update("accounts { A { users: 1 } }\n")

    assert path.read_text() == "port: 4222\n"
    assert len(caplog.records) == 1


@pytest.mark.parametrize("pid", ["", "x", "-1", "0", str(2**22 + 1), "own"])
def test_no_other_program_is_signalled_and_the_server_is_once_it_runs(
    tmp_path: Path, server: subprocess.Popen[bytes], pid: str
) -> None:
    pid_file = tmp_path / "pid"
    pid_file.write_text(str(os.getpid()) if pid == "own" else pid)
    file = AccountsFile(tmp_path / "accounts.conf", pid_file, "")

    assert file.update("port: 4222\n")
    assert server.poll() is None
    pid_file.write_text(str(server.pid))
    assert not file.update("port: 4222\n")

    assert server.wait(30) == -signal.SIGHUP


@pytest.mark.parametrize(
    ("role", "inbox"), [("agents", "agent"), ("operators", "op"), ("observers", "op")]
)
def test_nobody_but_daemons_reaches_the_bucket(tmp_path: Path, role: Role, inbox: str) -> None:
    keyring = Keyring(tmp_path / "keys")
    keyring.make_own()
    seed = keyring.add(role, "mallory")
    entries = {EntryName(role, "mallory"): entry(NameKeys(public_key(seed)))}
    users = users_in(entries, (public_key(keyring.daemon),), NOW)
    bus = NatsProcess(tmp_path, accounts(users, Subjects()))
    forged = "$KV.SAFETY_KEYS.operators.mallory"
    subjects = (forged, "$JS.API.STREAM.PURGE.KV_SAFETY_KEYS", "safety.v1.internal.keys")

    with (
        Peer(bus.url, keyring.daemon, "_INBOX.daemon") as daemon,
        Peer(bus.url, seed, f"_INBOX.{inbox}.mallory") as mallory,
    ):
        daemon.subscribe(">")
        daemon.settle()
        for subject in subjects:
            mallory.publish(subject, b"x", f"_INBOX.{inbox}.mallory.1")
            mallory.publish(f"safety.v1.query.{subject}", b"x")
        mallory.subscribe("$KV.SAFETY_KEYS.>")
        mallory.settle()

        assert len(mallory.errors) == 2 * len(subjects) + 1
        assert daemon.settle() == []
    bus.stop()
