import stat
import subprocess
from pathlib import Path

import msgspec
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import decode
from safetyd.core.events.decision_events import Transcribed
from safetyd.core.policy import Policy
from safetyd.extras.backup.backup import NoBackup
from safetyd.journal.audit import files, verify
from safetyd.journal.audit_reading import lines_after
from safetyd.journal.checkpoints import Checkpoints, SavedCheckpoint, state_digest
from tests.console.console_rig import at_a_terminal
from tests.event_samples import one_of_each
from tests.extras.backup.backup_rig import PASSPHRASE, BackupRig, ignored
from tests.story import propose, resume


@pytest.fixture
def rig(tmp_path: Path) -> BackupRig:
    return BackupRig(tmp_path)


def names(directory: Path) -> list[str]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return sorted(str(path.relative_to(directory)) for path in found)


def run(*command: str | Path, cwd: Path | None = None) -> None:
    subprocess.run(command, check=True, cwd=cwd, capture_output=True)


def test_checkpoint_and_audit_files_of_a_backup_both_know_what_the_engine_knew(rig: BackupRig):
    known = rig.engine.save()()

    facts = rig.restore(rig.back_up())

    (saved,) = Checkpoints(rig.restored / "checkpoints").load()
    assert isinstance(saved, SavedCheckpoint)
    assert saved.engine == known
    assert (facts.seq, saved.stream_seq, saved.t) == (rig.engine.seq, 0, 50.0)
    replayed = Engine(Policy())
    replayed.replay(map(decode, lines_after(rig.restored / "audit", 0)))
    assert facts.state == state_digest(known) == state_digest(replayed.save()())


@pytest.mark.parametrize("max_bytes", [4096, 1_000_000])
def test_what_happens_while_a_backup_is_made_is_not_in_it(tmp_path: Path, max_bytes: int):
    rig = BackupRig(tmp_path, max_bytes)
    rig.live(*(propose(number, id=f"q{number}") for number in range(3, 20)))
    rig.checkpoint = rig.save()
    seq, known = rig.engine.seq, state_digest(rig.engine.save()())
    rig.live(resume(30), *(propose(number, id=f"q{number}") for number in range(31, 60)))

    facts = rig.restore(rig.back_up())

    found = verify(rig.restored / "audit")
    assert (found.last_seq, found.last_hash) == (seq, facts.head)
    assert (facts.seq, facts.state) == (seq, known)
    assert (len(files(rig.data_dir / "audit")) > found.files) == (max_bytes == 4096)


def test_a_backup_leaves_out_keys_and_what_only_this_machine_needs(rig: BackupRig):
    rig.write("keys/operator.nk", "SU")
    rig.write("keys/agents/code.pub", "U1")
    rig.write("keys/agents/code.nk", "SU1")
    rig.write("keys/observers/eve.pub", "U2")
    for name in ("nats/x", "lock", "endpoint.json", "stop.reserve", "web-sessions.json"):
        rig.write(name, "x")
    rig.write("snapshots/2026-03-01/snapshot.json", "{}")

    facts = rig.restore(rig.back_up())

    checkpoint = f"checkpoints/{rig.checkpoint.name}"
    assert names(rig.restored) == ["audit/audit-00000001.jsonl", checkpoint, "transcripts/.written"]
    assert (facts.keys, facts.settings) == (False, False)
    assert facts.names == {"agents": ("code",), "observers": ("eve",)}


def test_a_backup_has_settings_reports_templates_stops_and_the_name_of_the_journal(rig: BackupRig):
    rig.settings = rig.directory / "etc.toml"
    rig.settings.write_text("# mine")
    rig.write("reports/2026-03-01.md", "GREEN")
    rig.write("templates/sms.txt", "mine")
    rig.write("stop.unwritten", "[]")
    rig.write("journal-id", "4f2a77ab")  # by which a database knows the journal again
    (rig.data_dir / "reports/link").symlink_to(rig.settings)
    far = rig.directory / "FAR_STOP"
    far.write_text("x")
    rig.stop_files = (rig.write("EMERGENCY_STOP", "drill"), rig.data_dir / "NOT_THERE", far)

    rig.restore(rig.back_up())

    assert (rig.restored / "safetyd.toml").read_text() == "# mine"
    assert (rig.restored / "EMERGENCY_STOP").read_text() == "drill"
    assert (rig.restored / "stop.unwritten").read_text() == "[]"
    assert (rig.restored / "journal-id").read_text() == "4f2a77ab"
    assert names(rig.restored / "reports") == ["2026-03-01.md"]
    assert (rig.restored / "templates/sms.txt").read_text() == "mine"
    assert not (rig.restored / "FAR_STOP").exists()


def test_transcripts_of_later_sessions_are_left_out_and_made_anew(rig: BackupRig):
    transcript = next(e.transcript for e in one_of_each() if isinstance(e, Transcribed))
    for name, seq in (("2026-03-01-120000", 1), ("2026-03-01-130000", rig.engine.seq + 5)):
        filed = {**msgspec.to_builtins(transcript), "seq": seq}
        rig.write(f"transcripts/{name}.json", msgspec.json.encode(filed).decode())
    rig.write("transcripts/2026-03-01-110000.json", "of somebody else")
    rig.write("transcripts/.written", str(rig.engine.seq + 5))

    rig.restore(rig.back_up())

    assert names(rig.restored / "transcripts") == [
        *(".written", "2026-03-01-110000.json", "2026-03-01-120000.json")
    ]
    assert int((rig.restored / "transcripts/.written").read_text()) == rig.engine.seq


def test_a_backup_is_for_its_owner_alone(rig: BackupRig):
    path = rig.back_up()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    rig.restore(path)
    assert {stat.S_IMODE(p.stat().st_mode) for p in rig.restored.rglob("*")} == {0o600, 0o700}
    assert stat.S_IMODE(rig.restored.stat().st_mode) == 0o700


def test_keys_are_in_an_encrypted_backup_only(rig: BackupRig):
    rig.write("keys/operator.nk", "SUSECRETSEED")

    with pytest.raises(NoBackup, match="needs a passphrase or a recipient"):
        rig.prepared(keys=True).write(rig.directory / "backup", ignored)

    assert not (rig.directory / "backup").exists()


@pytest.mark.parametrize("key", ["none", "recipient", "passphrase"])
def test_other_programs_read_a_backup(rig: BackupRig, key: str):
    """`tar`, `zstd`, `sha256sum` and `age` are all that it takes."""
    rig.write("keys/operator.nk", "SUSECRETSEED")
    identity, opened, out = (rig.directory / name for name in ("key.txt", "opened", "out"))
    run("age-keygen", "-o", identity)
    out.mkdir()

    if key == "none":
        opened = rig.back_up()
    elif key == "recipient":
        recipient = identity.read_text().split("public key: ")[1].split()[0]
        run("age", "--decrypt", "-i", identity, "-o", opened, rig.back_up(recipients=[recipient]))
    else:
        decrypt = ("--decrypt", "-o", str(opened), str(rig.back_up(PASSPHRASE)))
        at_a_terminal(*decrypt, program=["age"], typed=f"{PASSPHRASE}\n", after="passphrase")

    run("zstd", "--quiet", "--test", opened)
    run("tar", "--zstd", "-xf", opened, "-C", out)
    run("sha256sum", "--check", "--quiet", "--strict", out / "SHA256SUMS", cwd=out)
    assert msgspec.json.decode((out / "backup.json").read_bytes())["seq"] == rig.engine.seq
    added = {"SHA256SUMS", "backup.json", "transcripts/.written"}
    assert {*names(out)} - added == {*names(rig.data_dir)} - (
        {"keys/operator.nk"} if key == "none" else set()
    )


def test_progress_adds_up_to_the_size(rig: BackupRig):
    heard: list[int] = []
    prepared = rig.prepared()

    prepared.write(rig.directory / "backup", heard.append)

    assert sum(heard) == prepared.size


def test_a_backup_that_fails_leaves_nothing(rig: BackupRig):
    prepared = rig.prepared()
    (file,) = files(rig.data_dir / "audit")
    file.write_bytes(b"")

    with pytest.raises(OSError, match="unexpected end of data"):
        prepared.write(rig.directory / "backup", ignored)

    assert sorted(path.name for path in rig.directory.iterdir()) == ["data"]


def test_a_checkpoint_that_is_gone_or_damaged_makes_no_backup(rig: BackupRig):
    rig.checkpoint.write_bytes(b"?")
    with pytest.raises(NoBackup):
        rig.prepared()
    rig.checkpoint.unlink()
    with pytest.raises(NoBackup, match="cannot read"):
        rig.prepared()


def test_audit_files_that_do_not_go_up_to_the_checkpoint_make_no_backup(rig: BackupRig):
    (file,) = files(rig.data_dir / "audit")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(NoBackup, match="the audit files end with event"):
        rig.prepared()
    file.unlink()
    with pytest.raises(NoBackup, match="no audit file has event"):
        rig.prepared()
