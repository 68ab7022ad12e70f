"""The examples in docs/simulate.md are as they are written."""

import re
import shutil
from pathlib import Path

from tests.checkout import ROOT
from tests.console.console_rig import here

TEXT = (ROOT / "docs/simulate.md").read_text()
[TESTS] = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
[FAILED] = re.findall(r"```text\n(.*?)```", TEXT, re.DOTALL)


def test_the_documented_tests_pass(tmp_path: Path) -> None:
    shutil.copy(ROOT / "config" / "production.toml", tmp_path)
    (tmp_path / "tests.toml").write_text(TESTS)

    said = here("test", str(tmp_path / "tests.toml"))

    assert said.returncode == 0, said.stdout
    assert said.stdout.endswith("2 passed, 0 failed.\n")


def test_a_failure_looks_as_documented(tmp_path: Path) -> None:
    (tmp_path / "tests.toml").write_text(
        '[[test]]\nname = "a push is blocked"\n'
        'proposal = { type = "push", text = "main" }\nexpect = "block"\n'
    )

    said = here("test", str(tmp_path / "tests.toml"))

    assert said.stdout.splitlines()[:-1] == FAILED.splitlines()[:-1]
