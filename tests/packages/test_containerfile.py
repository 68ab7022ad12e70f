"""The image runs as its user with a read-only root, and its health check says so."""

import fnmatch
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT
from tests.conftest import STOP_S
from tests.packages.image import BUILD, CONFIG, DATA, FINAL, UID, Container, short_directory
from tests.packages.image_user import can_mount
from tests.wheel_install import WheelInstall, build_wheel

HASHED: Final = "--quiet --no-deps --require-hashes --only-binary=:all: "
SOURCES: Final = "--no-binary=nkeys --no-build-isolation --wheel-dir /dist "


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    with short_directory() as root:
        install = WheelInstall(root / "opt", build_wheel(root / "dist"), "server")
        config = (ROOT / "config/container.toml").read_text().replace("port = 8787", "port = 0")
        yield Container(root / "container", install.directory / "env", config)


def ignored(path: str) -> bool:
    """Return True if the build context does not contain a file. The last matching line counts."""
    parts = Path(path).parts
    parents = ["/".join(parts[:number]) for number in range(1, len(parts) + 1)]
    found = False
    for line in (ROOT / ".containerignore").read_text().splitlines():
        rule = line.removeprefix("!")
        names = parts if rule.startswith("**/") else parents
        if any(fnmatch.fnmatch(name, rule.removeprefix("**/")) for name in names):
            found = not line.startswith("!")
    return found


def test_the_image_has_a_user_a_volume_and_commands_without_a_shell() -> None:
    assert BUILD.base == FINAL.base == "python:3.11-slim"
    assert FINAL.only("USER").value == "10001:10001"
    assert FINAL.environment["SAFETYD_DATA_DIR"] == DATA == FINAL.only("WORKDIR").value
    assert FINAL.only("STOPSIGNAL").value == "SIGTERM"
    assert FINAL.only("EXPOSE").value == "8787"
    assert FINAL.only("CMD").command == ["run", "--config", CONFIG]
    assert all(word.count("=") == 1 for word in FINAL.only("LABEL").words)
    made = [one.value for one in FINAL.every("RUN")]
    assert re.findall(r"--[ug]id (\d+)|-o (\d+) -g (\d+)", " ".join(made)) == [
        *[(str(UID), "", "")] * 3,
        ("", str(UID), str(UID)),
    ]


def test_the_image_installs_only_locked_packages_and_safetyd() -> None:
    runs = " && ".join(one.value for one in BUILD.every("RUN")).split(" && ")
    pip = [line.partition("/pip ")[2] for line in runs if "/pip " in line]

    assert pip == [
        f"install {HASHED}--requirement requirements-build.lock",
        f"wheel {HASHED}{SOURCES}--requirement requirements-server.lock",
        "install --quiet --no-deps --no-index /dist/*.whl",
        "uninstall --quiet --yes setuptools pip",
    ]


def test_everything_that_is_copied_or_built_is_in_the_build_context() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    included = re.findall(r'^"(\S+)" = "safetyd/share', project, re.MULTILINE)
    copied = [
        source
        for stage in (BUILD, FINAL)
        for one in stage.every("COPY")
        if "from" not in one.flags
        for source in one.words[:-1]
        if source != "."
    ]
    wanted = {*included, *copied, "pyproject.toml", "README.md", "LICENSE", "safetyd/host.py"}

    assert [name for name in wanted if ignored(name) or not (ROOT / name).exists()] == []
    assert [name for name in (".git", ".venv", "tests", "x.nk") if not ignored(name)] == []
    assert ignored("safetyd/__pycache__")
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()


def test_the_daemon_runs_as_the_user_of_the_image_and_is_healthy_until_it_stops(
    container: Container,
) -> None:
    with container.running() as process:
        status = Path(f"/proc/{process.pid}/status").read_text()
        healthy = container.health()
        container.safetyd("agent", "add", "code")
        blocked = container.safetyd("check", "code", "run_shell", "--text", "rm -rf /")
        doctor = container.safetyd("doctor")
        process.send_signal(getattr(signal, FINAL.only("STOPSIGNAL").value))
        code = process.wait(STOP_S)
    stopped = container.health()

    assert re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)[1] == str(container.user.uid)  # type: ignore[index]
    assert (healthy.returncode, healthy.stdout, healthy.stderr) == (0, "ok\n", "")
    assert blocked.returncode == 1
    assert (doctor.returncode, doctor.stderr) == (0, "")
    assert (code, stopped.returncode) == (0, 1)


def test_nothing_but_the_volume_and_tmp_can_be_written(container: Container) -> None:
    outside = [container.places["/opt/safetyd"], container.places[CONFIG], container.root]
    touch = " ".join(f"'{path}/new'" if path.is_dir() else f"'{path}'" for path in outside)

    tried = container.user.run("sh", "-c", f"for file in {touch}; do : >> $file && exit 9; done")
    allowed = container.user.run("sh", "-c", 'touch "$SAFETYD_DATA_DIR/new" "$TMPDIR/new"')

    assert allowed.returncode == 0
    if os.geteuid() == 0:
        assert tried.returncode != 9
        assert ("Read-only file system" in tried.stderr) == can_mount()
