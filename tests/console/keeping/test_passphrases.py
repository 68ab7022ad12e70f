from pathlib import Path

from tests.console.console_rig import at_a_terminal, here
from tests.keeping.backup_rig import PASSPHRASE, BackupRig

VARIABLE = "SAFETYD_PASSPHRASE_FILE"


def test_without_a_terminal_a_file_must_be_named(tmp_path: Path):
    path = BackupRig(tmp_path).back_up(PASSPHRASE)

    said = here("restore", str(path), str(tmp_path / "new"))

    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr == (
        "safetyd: a passphrase is needed: type this at a terminal, or name a file in "
        "SAFETYD_PASSPHRASE_FILE\n"
    )


def test_a_passphrase_is_the_first_line_of_the_file(tmp_path: Path):
    path = BackupRig(tmp_path).back_up(PASSPHRASE)
    file = tmp_path / "passphrase"
    file.write_text(f"{PASSPHRASE}\r\nand more\n")

    said = here("restore", str(path), str(tmp_path / "new"), **{VARIABLE: str(file)})

    assert said.returncode == 0, said.stderr
    assert "Keys that were revoked since are trusted again" in said.stdout


def test_a_file_without_a_passphrase_is_named(tmp_path: Path):
    path = BackupRig(tmp_path).back_up(PASSPHRASE)
    empty = tmp_path / "empty"
    empty.write_text("\n")
    restore = ("restore", str(path), str(tmp_path / "new"))

    assert f"{empty} of {VARIABLE} has no first line" in here(*restore, **{VARIABLE: str(empty)})[2]
    gone = here(*restore, **{VARIABLE: str(tmp_path / "gone")})
    assert f"{tmp_path / 'gone'} of {VARIABLE} cannot be read" in gone.stderr


def test_a_passphrase_is_typed_at_a_terminal_and_not_shown(tmp_path: Path):
    path = BackupRig(tmp_path).back_up(PASSPHRASE)

    said = at_a_terminal(
        *("restore", str(path), str(tmp_path / "new")),
        typed=f"{PASSPHRASE}\n",
        after="Passphrase of the backup: ",
    )

    assert "everything up to event" in said
    assert "Restoring" in said
    assert PASSPHRASE not in said
    assert (tmp_path / "new/audit").is_dir()


def test_a_short_passphrase_for_a_new_file_is_refused(tmp_path: Path):
    short = tmp_path / "short"
    short.write_text("swordfish\n")

    said = here("backup", str(tmp_path / "file"), "--with-keys", **{VARIABLE: str(short)})

    assert said.returncode == 1
    assert "the passphrase has 9 characters; it needs 12" in said.stderr
