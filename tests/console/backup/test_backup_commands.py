from pathlib import Path
from shutil import rmtree

import msgspec
import pyrage
import pytest

from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import at_a_terminal, here, told
from tests.extras.backup.backup_rig import PASSPHRASE, BackupRig

VARIABLE = "SAFETYD_PASSPHRASE_FILE"


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


@pytest.fixture
def rig(tmp_path: Path) -> BackupRig:
    return BackupRig(tmp_path)


def test_a_backup_says_up_to_which_event_it_goes(daemon: RunningDaemon, tmp_path: Path):
    file = tmp_path / "backup"

    said = told(daemon, "backup", str(file))

    assert said.returncode == 0, said.stderr
    assert f"{file}: state up to event " in said.stdout
    assert "--with-keys" in said.stdout
    assert said.stderr == ""


def test_a_backup_says_that_commits_are_not_in_it_if_there_are_some(
    daemon: RunningDaemon, tmp_path: Path
):
    store = daemon.data_dir / "history" / "shop" / "shop-shadow.git"
    store.mkdir(parents=True)

    said = told(daemon, "backup", str(tmp_path / "without"))
    taken = told(daemon, "backup", str(tmp_path / "with"), "--with-history")
    rmtree(daemon.data_dir / "history")

    assert "--with-history" in said.stdout
    assert taken.returncode == 0, taken.stderr
    assert "--with-history" not in taken.stdout


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
    assert "--identity" in said.stderr
    said = here("restore", str(file), str(into), "--identity", str(key))
    assert said.returncode == 0, said.stderr
    assert (into / "keys/operator.nk").is_file()


def test_a_file_that_cannot_be_written_is_named(daemon: RunningDaemon, tmp_path: Path):
    file = tmp_path / "backup"
    file.write_text("mine")

    there = told(daemon, "backup", str(file))
    nowhere = told(daemon, "backup", str(tmp_path / "no" / "backup"))

    assert (there.returncode, nowhere.returncode, file.read_text()) == (1, 1, "mine")
    assert f"{file} already exists" in there.stderr
    assert f"{tmp_path}/no/backup" in nowhere.stderr


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
    assert "no audit file has event" in said.stderr


def test_without_a_daemon_there_is_no_backup(tmp_path: Path):
    said = here("backup", str(tmp_path / "backup"), "--data-dir", str(tmp_path))

    assert said.returncode == 4
    assert not (tmp_path / "backup").exists()


def test_who_restores_is_told_what_to_do_next(rig: BackupRig):
    for name in ("agents/code", "operators/alice", "observers/eve"):
        rig.write(f"keys/{name}.pub", "U")
    path, new = rig.back_up(), rig.directory / "new dir"

    said = here("restore", str(path), str(new))

    assert said.returncode == 0, said.stderr
    assert f"up to event {rig.engine.seq}, from 2026-03-02" in said.stdout
    option = f"--data-dir '{new}'"
    commands = [line.partition(": ")[2] for line in said.stdout.splitlines() if option in line]
    assert commands == [
        f"safetyd run {option}",
        f"safetyd agent add code {option}",
        f"safetyd operator add alice {option}",
        f"safetyd operator add eve --observer {option}",
    ]


def test_programs_get_json(rig: BackupRig):
    path = rig.back_up()

    said = here("restore", str(path), str(rig.restored), "--json")

    made = msgspec.json.decode(said.stdout)
    assert (made["ok"], made["seq"], made["data_dir"]) == (True, rig.engine.seq, str(rig.restored))
    assert said.stderr == ""
    photo = rig.write("photo", "x" * 100)
    for file, into, code, words in (
        (path, rig.data_dir, "not_empty", "is not empty"),
        (photo, rig.directory / "new", "unusable", f"{photo} is not a safetyd backup"),
        (rig.data_dir / "gone", rig.directory / "new", "failed", "No such file or directory"),
    ):
        said = here("restore", str(file), str(into), "--json")
        refused = msgspec.json.decode(said.stdout)
        assert (said.returncode, refused["ok"], refused["code"]) == (1, False, code)
        assert words in refused["error"]


def test_a_passphrase_is_typed_or_the_first_line_of_a_file(rig: BackupRig):
    restore = ("restore", str(rig.back_up(PASSPHRASE)))
    for content, why in (
        (None, "in a terminal, or set SAFETYD_PASSPHRASE_FILE"),
        ("\n", f"(from {VARIABLE}) is empty"),
        ("another passphrase", "wrong passphrase"),
        (f"{PASSPHRASE}\r\nand more\n", ""),
    ):
        file = {VARIABLE: str(rig.write("passphrase", content))} if content else {}
        said = here(*restore, str(rig.restored), **file)
        assert why in said.stderr
        assert (said.returncode == 0) == rig.restored.exists() == (why == "")
    assert "revoked after the backup" in said.stdout
    gone = here(*restore, str(rig.directory / "new"), **{VARIABLE: str(rig.data_dir / "gone")})
    assert f"gone (from {VARIABLE}): " in gone.stderr

    shown = at_a_terminal(
        *(*restore, str(rig.directory / "new")),
        typed=f"{PASSPHRASE}\n",
        after="Passphrase of the backup: ",
    )

    assert "up to event" in shown
    assert "Restoring" in shown
    assert PASSPHRASE not in shown
    assert (rig.directory / "new/audit").is_dir()


def test_a_short_passphrase_for_a_new_file_is_refused(rig: BackupRig):
    short = rig.write("short", "swordfish\n")

    said = here("backup", str(rig.directory / "file"), "--with-keys", **{VARIABLE: str(short)})

    assert said.returncode == 1
    assert "9 characters; use at least 12" in said.stderr
