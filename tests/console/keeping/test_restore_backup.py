from pathlib import Path

import msgspec
import pytest

from tests.console.console_rig import here
from tests.keeping.backup_rig import BackupRig


@pytest.fixture
def rig(tmp_path: Path) -> BackupRig:
    return BackupRig(tmp_path)


def test_who_restores_is_told_what_to_do_next(rig: BackupRig):
    for name in ("agents/code", "operators/alice", "observers/eve"):
        rig.write(f"keys/{name}.pub", "U")
    path, new = rig.back_up(), rig.directory / "new dir"

    said = here("restore", str(path), str(new))

    assert said.returncode == 0, said.stderr
    assert f"{new}: everything up to event {rig.engine.seq}, as of 2026-03-02" in said.stdout
    option = f"--data-dir '{new}'"
    assert said.stdout.splitlines()[2:-1] == [
        "The daemon had no configuration file, and there is none here.",
        f"Start it with: safetyd run {option}",
        "Keys were not in it: the start makes new ones for the daemon and for you.",
        f"Then: safetyd agent add code {option}",
        f"Then: safetyd operator add alice {option}",
        f"Then: safetyd operator add eve --observer {option}",
    ]


def test_programs_get_json(rig: BackupRig):
    path = rig.back_up()

    said = here("restore", str(path), str(rig.restored), "--json")

    told = msgspec.json.decode(said.stdout)
    assert (told["ok"], told["seq"], told["data_dir"]) == (True, rig.engine.seq, str(rig.restored))
    assert said.stderr == ""


def test_a_directory_that_is_not_empty_is_refused(rig: BackupRig):
    said = here("restore", str(rig.back_up()), str(rig.data_dir), "--json")

    assert said.returncode == 1
    assert msgspec.json.decode(said.stdout)["code"] == "not_empty"


def test_a_file_that_is_no_backup_is_refused(rig: BackupRig):
    file = rig.directory / "photo"
    file.write_text("x" * 100)

    said = here("restore", str(file), str(rig.restored))

    assert said.returncode == 1
    assert said.stderr == (f"safetyd: nothing is restored: {file} is not a backup of safetyd's\n")
    gone = here("restore", str(rig.directory / "gone"), str(rig.restored))
    assert "No such file or directory" in gone.stderr
