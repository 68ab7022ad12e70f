from pathlib import Path
from shutil import rmtree

import pyrage
import pytest

from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import here, told


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


def test_a_backup_says_up_to_which_event_it_goes(daemon: RunningDaemon, tmp_path: Path):
    file = tmp_path / "backup"

    said = told(daemon, "backup", str(file))

    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith(f"{file}: everything up to event ")
    assert said.stdout.endswith("Keys are not in it; --with-keys takes them along.\n")
    assert said.stderr == ""


def test_a_backup_says_that_commits_are_not_in_it_if_there_are_some(
    daemon: RunningDaemon, tmp_path: Path
):
    store = daemon.data_dir / "history" / "shop" / "shop-shadow.git"
    store.mkdir(parents=True)

    said = told(daemon, "backup", str(tmp_path / "without"))
    taken = told(daemon, "backup", str(tmp_path / "with"), "--with-history")
    rmtree(daemon.data_dir / "history")

    line = "Commits of 1 project are not in it; --with-history takes them along.\n"
    assert said.stdout.endswith(line)
    assert taken.returncode == 0, taken.stderr
    assert "Commits" not in taken.stdout


def test_a_backup_for_a_recipient_needs_no_passphrase(daemon: RunningDaemon, tmp_path: Path):
    identity = pyrage.x25519.Identity.generate()
    key, file, into = tmp_path / "key.txt", tmp_path / "backup", tmp_path / "new"
    key.write_text(f"{identity}\n")

    wrong = told(daemon, "backup", str(file), "--with-keys", "--recipient", "age1nobody")
    assert (wrong.returncode, file.exists()) == (2, False)
    assert "not an age recipient" in wrong.stderr
    said = told(
        daemon, "backup", str(file), "--with-keys", "--recipient", str(identity.to_public())
    )
    assert said.returncode == 0, said.stderr
    assert "It is encrypted." in said.stdout

    said = here("restore", str(file), str(into))
    assert (said.returncode, into.exists()) == (1, False)
    assert "needs --identity" in said.stderr
    said = here("restore", str(file), str(into), "--identity", str(key))
    assert said.returncode == 0, said.stderr
    assert (into / "keys/operator.nk").is_file()


def test_a_file_that_is_there_is_not_written_over(daemon: RunningDaemon, tmp_path: Path):
    file = tmp_path / "backup"
    file.write_text("mine")

    said = told(daemon, "backup", str(file))

    assert (said.returncode, file.read_text()) == (1, "mine")
    assert "is there already: choose another name" in said.stderr


def test_a_folder_that_is_not_there_is_named(daemon: RunningDaemon, tmp_path: Path):
    said = told(daemon, "backup", str(tmp_path / "no" / "backup"))

    assert said.returncode == 1
    assert f"{tmp_path}/no/backup is not written" in said.stderr


def test_a_daemon_whose_files_are_elsewhere_is_backed_up_there(
    daemon: RunningDaemon, tmp_path: Path
):
    hidden = daemon.data_dir.with_name("hidden")
    key = tmp_path / "key.nk"
    key.write_bytes((daemon.data_dir / "keys/operator.nk").read_bytes())
    options = ("--url", daemon.endpoint.bus, "--key-file", str(key), "--operator", "local")
    audit = daemon.data_dir / "audit"
    audit.rename(hidden)

    said = here("backup", str(tmp_path / "backup"), *options)
    hidden.rename(audit)

    assert said.returncode == 1
    assert "no backup is made: no audit file has event" in said.stderr


def test_without_a_daemon_there_is_no_backup(tmp_path: Path):
    said = here("backup", str(tmp_path / "backup"), "--data-dir", str(tmp_path))

    assert said.returncode == 4
    assert not (tmp_path / "backup").exists()
