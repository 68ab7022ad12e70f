"""The demonstration tells what happens when a daemon is killed."""

import subprocess
import sys

import pytest

from tests.checkout import ROOT


@pytest.mark.journey
@pytest.mark.alone
def test_demo_kills_a_daemon_and_loses_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "took over" in done.stdout
    assert "0 lost, 0 made twice" in done.stdout
