"""What `tests/run` makes of tests that fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT

FLAKY = """
from pathlib import Path

def test_passes_the_second_time():
    marker = Path({marker!r})
    seen = marker.exists()
    marker.touch()
    assert seen, "it was the first time"
"""
WRONG = """
def test_is_wrong():
    assert 1 == 2
"""


@pytest.mark.parametrize(
    ("tests", "code", "said"),
    [
        (FLAKY, 0, ("FLAKY", "::test_passes_the_second_time", "it was the first time")),
        (FLAKY + WRONG, 1, ("failed:", "::test_is_wrong")),
    ],
    ids=["flaky", "wrong"],
)
def test_only_tests_that_pass_alone_do_not_fail_the_run(
    tmp_path: Path, tests: str, code: int, said: tuple[str, ...]
) -> None:
    suite = tmp_path / "test_sample.py"
    suite.write_text(tests.format(marker=str(tmp_path / "marker")))

    run = subprocess.run(
        [sys.executable, "-m", "tests.whole_run", suite.name],
        cwd=tmp_path,
        env={**os.environ, "WORKERS": "0", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == code, run.stdout
    assert all(words in run.stdout + run.stderr for words in said)
