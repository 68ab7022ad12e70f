import re
from pathlib import Path

from safetyd.audit import verify
from safetyd.console.scenes import SCENES, SECRET
from tests.conftest import safetyd


def test_the_demo_plays_every_scene_as_expected_and_keeps_its_audit_file(tmp_path):
    said = safetyd("demo", TMPDIR=str(tmp_path), SAFETYD_URL="nats://127.0.0.1:1")

    assert said.returncode == 0, said.stdout + said.stderr
    assert all(title in said.stdout for title, _ in SCENES)
    assert "all as expected" in said.stdout
    assert "divided" not in said.stdout
    assert re.search(
        r"^The rest is removed; /.+ stays, and is yours to delete\.$", said.stdout, re.MULTILINE
    )
    audit = re.search(r"^Audit file: (.+)$", said.stdout, re.MULTILINE)
    assert audit is not None
    path = Path(audit[1])
    assert verify(path.parent).records > 0
    assert SECRET not in path.read_text()
    assert [entry.name for entry in path.parent.parent.iterdir()] == ["audit"]
