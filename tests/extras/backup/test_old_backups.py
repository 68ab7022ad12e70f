import hashlib
from pathlib import Path

import pytest

from safetyd.extras.backup.restoring import BackupUnusable
from tests.checkout import ROOT
from tests.extras.backup.backup_rig import BackupRig
from tests.extras.backup.test_restoring import assert_nothing_restored, files

RECORDED = ROOT / "tests/older_version/backups"
AUDIT = "8fa182abd259580d267885b6d8cd8f9c02f439487aeff2542ef1d4fd4d0d5087"


@pytest.fixture
def rig(tmp_path: Path) -> BackupRig:
    return BackupRig(tmp_path)


@pytest.mark.parametrize("name", ["plain", "encrypted"])
def test_a_backup_of_the_version_before_is_restored(rig: BackupRig, name: str):
    facts = rig.restore(RECORDED / name)

    found = files(rig.restored)
    assert (facts.seq, facts.keys, facts.history) == (5, name == "encrypted", True)
    assert facts.state == "909589c64d8f335e25955394081d53277d18535a0b090fa39e5b14a9e7c83de0"
    assert {
        *("checkpoints/00000000000000000005.msgpack", "EMERGENCY_STOP", "transcripts/.written"),
        *("history/shop/shop-shadow.git/HEAD", "journal-id", "safetyd.toml"),
    } <= found.keys()
    assert ("keys/operator.nk" in found) == facts.keys
    audit = hashlib.sha256(found["audit/audit-00000001.jsonl"]).hexdigest()
    assert audit == AUDIT


@pytest.mark.parametrize("name", ["plain", "encrypted"])
def test_a_damaged_backup_of_the_version_before_is_refused(rig: BackupRig, name: str):
    whole, path = (RECORDED / name).read_bytes(), rig.directory / "damaged"
    for place in range(1, len(whole), len(whole) // 20):
        for damaged in (whole[:place], whole[:place] + b"?" + whole[place + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(BackupUnusable, match=r"damaged|not a backup"):
                rig.restore(path)
    assert_nothing_restored(rig)


def test_a_wrong_passphrase_opens_no_backup_of_the_version_before(rig: BackupRig):
    with pytest.raises(BackupUnusable, match="wrong passphrase"):
        rig.restore(RECORDED / "encrypted", "not the one that it was")
    assert_nothing_restored(rig)
