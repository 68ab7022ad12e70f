"""Every step of docs/start.md is run.

The steps with Claude Code itself run in tests/hosts/real/test_start_document.py, and the programs
of frameworks in tests/adapters/frameworks/test_frameworks_doc.py.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.documents.document_blocks import BLOCK, noted_block
from tests.locks import FRAMEWORKS

START: Final = ROOT / "docs/start.md"
README: Final = ROOT / "README.md"
WITH_CLAUDE_CODE: Final = ("protect", "harmless", "decisions", "push", "approve", "unprotect")


def bash(script: str, data_dir: Path, home: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [shutil.which("bash") or "bash", "-ec", script],
        cwd=ROOT,
        env=environment(SAFETYD_DATA_DIR=str(data_dir), HOME=str(home), PATH=path),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture(scope="module")
def daemon(
    start_module_daemon: StartDaemon, tmp_path_factory: pytest.TempPathFactory
) -> RunningDaemon:
    """A daemon with the configuration that the document's first commands write."""
    init, run = noted_block(START, "daemon").splitlines()
    assert run == "safetyd run"
    folder = tmp_path_factory.mktemp("start")
    done = bash(f"{init} --yes", folder, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return start_module_daemon((folder / "safetyd.toml").read_text())


def test_the_same_is_installed_as_in_the_readme() -> None:
    assert noted_block(START, "install").strip() in noted_block(README, "install")


def test_the_program_runs(daemon: RunningDaemon, tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(noted_block(START, "program"))

    done = bash(f"python {program}", daemon.data_dir, tmp_path)

    assert (done.returncode, done.stdout) == (0, "reading\n"), done.stderr


def test_a_stop_allows_nothing(daemon: RunningDaemon, tmp_path: Path) -> None:
    done = bash(noted_block(START, "stop"), daemon.data_dir, tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing is allowed\n" in done.stdout
    assert daemon.safetyd("check", "my-agent", "read_file").returncode == 0


def test_each_framework_has_a_row_with_a_line_of_its_program() -> None:
    rows = re.findall(r"^\| \[.*'safetyd\[(.*)\]'` \| `(.*)` \|$", START.read_text(), re.MULTILINE)

    assert tuple(framework for framework, _ in rows) == FRAMEWORKS
    for framework, line in rows:
        assert line in noted_block(ROOT / "docs/frameworks.md", f"program {framework}")


def test_no_step_is_left_out() -> None:
    here = {"install", "daemon", "program", "stop"}

    assert {block["note"] for block in BLOCK.finditer(START.read_text())} == {
        *here,
        *WITH_CLAUDE_CODE,
    }
