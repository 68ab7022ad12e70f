import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from safetyd.daemon.extras import EXTRAS
from tests.checkout import ROOT
from tests.conftest import RunningDaemon, StartDaemon, environment
from tests.journeys.agents import until
from tests.journeys.people import control

APP = ROOT / "safetyd/daemon/app.py"
HIDDEN = "import sys; sys.modules.update(dict.fromkeys({modules!r}))\n"
PACKAGES = ("psycopg", "psycopg_binary", "textual", "zstandard", "pyrage")
WANTING = """
[outlets.postgres]
dsn_file = "{dsn}"
[history]
snapshot_at = "03:00"
[projects.shop]
root = "{root}"
history = "shadow"
"""


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_app_names_no_extra() -> None:
    extras = ("safetyd.daemon.extras", "safetyd.extras")
    text = APP.read_text()

    assert [name for name in imported(APP) if name.startswith(extras)] == []
    assert [kind.__name__ for kind in EXTRAS if kind.__name__ in text] == []
    assert len(EXTRAS) >= 4


def test_every_module_of_the_folder_is_an_extra() -> None:
    modules = {path.stem for path in (ROOT / "safetyd/daemon/extras").glob("[!_]*.py")}

    assert {kind.__module__.rpartition(".")[2] for kind in EXTRAS} == modules


class ProbingDaemon(RunningDaemon):
    """A daemon with the extra of `probing_daemon.py`."""

    def launch(self) -> None:
        module = "tests.daemon.probing_daemon"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, self.config_path, self.data_dir],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(),
            )


@pytest.mark.journey
def test_an_extra_that_nothing_names_is_joined_and_ends_with_the_daemon(tmp_path: Path) -> None:
    daemon = ProbingDaemon(tmp_path)
    try:
        before = control(daemon, "checkpoint")
        daemon.safetyd("check", "code", "read_file")
        after = control(daemon, "checkpoint")
        status, doctor = daemon.safetyd("status").stdout, daemon.safetyd("doctor").stdout
    finally:
        code = daemon.stop()

    assert (code, after["file"]) == (0, "probe")
    assert after["seq"] > before["seq"] > 0
    assert (daemon.data_dir / "probe").read_text().split() == ["prepared", "running", "ended"]
    assert "UNAVAILABLE: probe: it has no needle\n  buy one\n" in status
    assert "it has no needle: buy one" in doctor
    assert daemon.log().count("probe is unavailable: it has no needle; buy one") == 1


@pytest.fixture
def poor(start_daemon: StartDaemon, tmp_path: Path) -> RunningDaemon:
    """A daemon that wants every extra, on a machine that has neither git nor their packages."""
    site, root, dsn = tmp_path / "site", tmp_path / "shop", tmp_path / "dsn"
    site.mkdir()
    root.mkdir()
    dsn.write_text("dbname=safetyd")
    (site / "sitecustomize.py").write_text(HIDDEN.format(modules=PACKAGES))
    return start_daemon(
        WANTING.format(dsn=dsn, root=root),
        variables={"PYTHONPATH": str(site), "PATH": str(tmp_path)},
    )


@pytest.mark.journey
def test_a_daemon_without_git_psycopg_or_zstandard_decides_and_says_what_to_install(
    poor: RunningDaemon,
) -> None:
    missing = (
        ("git is not in PATH", "install git 2.34 or newer"),
        ("zstandard is not installed", "run `pip install 'safetyd[daemon]'`"),
        ("psycopg is not installed", "pip install 'safetyd[postgres]'"),
    )

    assert poor.safetyd("check", "code", "read_file").returncode == 0
    assert poor.safetyd("check", "code", "run_shell", "--text", "rm -rf /").returncode == 1
    until(lambda: "psycopg" in poor.log())
    said = (poor.log(), poor.safetyd("status").stdout, poor.safetyd("doctor").stdout)
    for why, fix in missing:
        assert [text for text in said if why not in text or fix not in text] == []
    assert poor.stop() == 0


@pytest.mark.journey
def test_a_daemon_that_wants_no_extra_misses_nothing(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDDEN.format(modules=PACKAGES))
    hidden = {"PYTHONPATH": str(tmp_path), "PATH": str(tmp_path)}
    daemon = start_daemon(variables=hidden)

    assert "unavailable" not in daemon.log()
    assert "UNAVAILABLE" not in daemon.safetyd("status").stdout
    review = daemon.safetyd("review", **hidden)
    assert (review.returncode, review.stdout) == (1, "")
    assert "textual" in review.stderr
    assert "pip install" in review.stderr
