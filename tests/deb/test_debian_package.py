"""The Debian package, built, checked by lintian, installed, run and purged: `make deb-test`."""

import os
import re
import select
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from deb.control_files import debian_version
from tests.checkout import ROOT
from tests.conftest import LAST_WORD, READY_S, STOP_S
from tests.deb.overlaid_machine import OverlaidMachine, overlaid_machine

pytestmark = pytest.mark.deb

DATA: Final = "/var/lib/safetyd"
CONFIG: Final = "/etc/safetyd/safetyd.toml"
VENV: Final = "/usr/lib/safetyd"
# What dpkg, man and passwd write for every package.
OF_THE_SYSTEM: Final = ("/var/lib/dpkg/", "/var/cache/man/", "/var/log/")
PROPOSE: Final = """
from safetyd.client import SyncSafety
with SyncSafety("code") as safety:
    print(safety.propose("run_shell", text="rm -rf /").decision)
    print(safety.propose("read_file", paths=["a.py"]).decision)
"""


def build(folder: Path) -> Path:
    line = [sys.executable, "-m", "deb.build_package", "--level", "0", "--output", str(folder)]
    subprocess.run(line, cwd=ROOT, check=True, capture_output=True)
    [package] = folder.glob("safetyd_*.deb")
    return package


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("package"))


class Service:
    """The commands of the unit, run as systemd would run them."""

    def __init__(self, machine: OverlaidMachine) -> None:
        self._machine = machine
        unit = machine.path("/lib/systemd/system/safetyd.service").read_text()
        found = dict(re.findall(r"^(\w+)=(.*)$", unit, re.MULTILINE))
        self._start = shlex.split(found["ExecStart"])
        self._umask = found["UMask"]
        account = (f"--reuid={found['User']}", f"--regid={found['Group']}", "--init-groups")
        self._as_user = ("setpriv", *account, "--no-new-privs")

    def safetyd(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("safetyd", *words)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._machine.run(*self._as_user, *words, HOME=DATA, SAFETYD_DATA_DIR=DATA)

    @contextmanager
    def running(self) -> Iterator[None]:
        masked = ("sh", "-c", f'umask {self._umask}; exec "$@"', "sh")
        line = self._machine.line(
            *(*self._as_user, *masked, *self._start), HOME=DATA, STATE_DIRECTORY=DATA
        )
        with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            try:
                _wait_until_ready(process.stdout.fileno())
                yield
            finally:
                pid = self._machine.path(f"{DATA}/lock").read_text().strip()
                self._machine.must("kill", pid)
                assert process.wait(STOP_S) == 0


def _wait_until_ready(out: int) -> None:
    said = b""
    while LAST_WORD not in said:
        assert select.select([out], [], [], READY_S)[0], said
        chunk = os.read(out, 4096)
        assert chunk, said
        said += chunk


@contextmanager
def with_package(folder: Path, package: Path) -> Iterator[OverlaidMachine]:
    with overlaid_machine(folder) as machine:
        shutil.copy(package, machine.path("/tmp/safetyd.deb"))
        machine.must("dpkg", "--install", "/tmp/safetyd.deb")
        yield machine


@pytest.fixture
def machine(package: Path, tmp_path: Path) -> Iterator[OverlaidMachine]:
    with with_package(tmp_path, package) as machine:
        yield machine


@pytest.fixture(scope="module")
def shared(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OverlaidMachine]:
    """A machine on which no test changes the package."""
    with with_package(tmp_path_factory.mktemp("machine"), package) as machine:
        yield machine


def test_lintian_has_no_complaint(package: Path):
    line = ["lintian", "--allow-root", "--tag-display-limit=0", str(package)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


def test_the_same_checkout_gives_the_same_package(package: Path, tmp_path: Path):
    assert build(tmp_path).read_bytes() == package.read_bytes()


def test_installing_makes_a_user_a_directory_and_a_service_that_starts_at_boot(
    shared: OverlaidMachine,
):
    found = shared.path(DATA).stat()
    uid = int(shared.must("id", "--user", "safetyd"))
    assert (found.st_mode & 0o777, found.st_uid) == (0o750, uid)
    enabled = "/etc/systemd/system/multi-user.target.wants/safetyd.service"
    assert shared.path(enabled).is_symlink()
    version = shared.must("safetyd", "--version").split()[-1]
    shown = shared.must("dpkg-query", "--show", "safetyd").split()
    assert shown == ["safetyd", debian_version(version)]


def test_it_decides_survives_an_upgrade_and_a_purge_leaves_only_the_record(
    machine: OverlaidMachine,
):
    service = Service(machine)
    with service.running():
        assert service.safetyd("agent", "add", "code").returncode == 0
        proposed = service.run(f"{VENV}/bin/python3", "-c", PROPOSE)
        assert (proposed.stdout.split(), proposed.stderr) == (["block", "allow"], "")
        assert service.safetyd("status").returncode == 0
        doctor = service.safetyd("doctor")
        assert doctor.returncode == 0, doctor.stdout
    _check_that_running_changed_no_file(machine)

    machine.path(CONFIG).write_text(machine.path(CONFIG).read_text() + "# mine\n")
    machine.must("dpkg", "--install", "/tmp/safetyd.deb")
    assert machine.path(CONFIG).read_text().endswith("# mine\n")

    said = machine.must("dpkg", "--purge", "safetyd")
    assert f"rm -rf {DATA}" in said
    left = left_by_the_package(machine)
    assert {path for path in left if not path.startswith(DATA)} == set()
    assert any(path.startswith(f"{DATA}/audit/") for path in left)
    assert machine.run("id", "safetyd").returncode == 0

    machine.must("dpkg", "--install", "/tmp/safetyd.deb")
    with service.running():
        assert "rm -rf /" in service.safetyd("decisions", "--json").stdout


def _check_that_running_changed_no_file(machine: OverlaidMachine) -> None:
    """Neither the daemon nor root wrote bytecode or anything else into the environment."""
    listed = set(machine.must("dpkg", "--listfiles", "safetyd").splitlines())
    assert {path for path in machine.added() if path.startswith(VENV)} <= listed
    assert machine.must("dpkg", "--verify", "safetyd") == ""


def left_by_the_package(machine: OverlaidMachine) -> set[str]:
    return {path for path in machine.added() if not path.startswith(OF_THE_SYSTEM)}


def test_a_package_that_never_ran_leaves_no_file(machine: OverlaidMachine):
    said = machine.must("dpkg", "--purge", "safetyd")

    assert DATA not in said
    assert left_by_the_package(machine) == set()


def test_manual_pages_and_completions_are_found(shared: OverlaidMachine):
    assert shared.must("man", "--where", "1", "safetyd").strip().endswith("safetyd.1.gz")
    assert shared.must("man", "--where", "5", "safetyd.toml").strip().endswith(".5.gz")
    script = "source /usr/share/bash-completion/completions/safetyd && complete -p safetyd"
    assert "safetyd" in shared.must("bash", "-c", script)


def test_a_second_unit_is_refused(shared: OverlaidMachine):
    """With a stand-in for systemctl, because systemd does not run on this machine."""
    program = shared.path("/usr/local/bin/systemctl")
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    done = shared.run(
        *("safetyd", "install-service", "--system", "--json"), PATH="/usr/local/bin:/usr/bin:/bin"
    )

    assert '"packaged"' in done.stdout
    assert not shared.path("/etc/systemd/system/safetyd.service").exists()
