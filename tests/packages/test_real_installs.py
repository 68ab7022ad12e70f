"""Installs with packages from the index: the image, pip, uv and pipx. `make packages` runs them.

The versions are those of constraints.txt. The wheel of this checkout is used for safetyd itself.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.checkout import ROOT
from tests.conftest import environment
from tests.documents.document_blocks import noted_block
from tests.packages.image import BUILD, Container, short_directory
from tests.packages.test_containerfile import ignored
from tests.wheel_install import build_wheel

pytestmark = pytest.mark.packages

PAGE: Final = ROOT / "docs/install.md"
TOOLS: Final = ("uv", "pipx")
MB: Final = 1_000_000
TOLERANCE: Final = 0.1  # of a documented size


def base_python() -> str:
    """Return the interpreter that virtual environments are made from."""
    return str(Path(sys.base_prefix) / "bin" / "python3")


class Machine:
    """A directory with the wheel, uv and pipx, and commands of a shell that use them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.wheel = build_wheel(directory / "dist")
        self._run(base_python(), "-m", "venv", str(directory / "tools"))
        self.bin = directory / "tools" / "bin"
        self._run(str(self.bin / "pip"), "install", "--quiet", *TOOLS)

    def shell(self, line: str) -> str:
        """Run a documented command with the wheel instead of the index."""
        line = re.sub(r"safetyd(\[[\w,]+\])", rf"{self.wheel}\1", line)
        return self._run("sh", "-ec", line)

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
            env=self._environment(),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _environment(self) -> dict[str, str]:
        there = self.directory
        pinned = str(ROOT / "constraints.txt")
        path = f"{there / 'apps'}:{there / 'tools' / 'bin'}:{os.environ['PATH']}"
        return environment(
            PATH=path,
            PIPX_BIN_DIR=str(there / "apps"),
            PIPX_HOME=str(there / "pipx"),
            PIP_CONSTRAINT=pinned,
            SAFETYD_DATA_DIR=str(there / "data"),
            UV_CONSTRAINT=pinned,
            UV_PYTHON=base_python(),
            UV_TOOL_BIN_DIR=str(there / "apps"),
            UV_TOOL_DIR=str(there / "uv"),
        )


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("machine"))


@pytest.fixture
def built() -> Iterator[Container]:
    """A container of the image that the commands of the Containerfile build."""
    with short_directory() as root:
        places = {"/src": root / "src", "/opt": root / "opt", "/dist": root / "dist"}
        (root / "opt").mkdir()
        for name in _tracked():
            if not ignored(name):
                (root / "src" / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, root / "src" / name)
        for one in BUILD.every("RUN"):
            line = re.sub("|".join(places), lambda found: str(places[found[0]]), one.value)
            line = re.sub(r"^python ", f"{base_python()} ", line)
            done = subprocess.run(
                ["sh", "-ec", line], cwd=root / "src", capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        config = (ROOT / "config/container.toml").read_text().replace("port = 8787", "port = 0")
        yield Container(root / "container", root / "opt" / "safetyd", config)


def _tracked() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def test_the_commands_of_the_containerfile_build_a_daemon_that_runs(built: Container) -> None:
    installed = built.places["/opt/safetyd"]
    site = next((installed / "lib").glob("python*/site-packages"))

    with built.running():
        assert built.health().returncode == 0
        assert built.safetyd("doctor").returncode == 0

    assert built.health().returncode == 1
    left_out = ("twilio", "slack_sdk", "apprise", "textual", "pip", "setuptools", "hatchling")
    assert [name for name in left_out if (site / name).exists()] == []
    print(f"image: {_packages(site)} packages, {_size(installed)} MB with compiled modules")


@pytest.mark.parametrize("extra", ["", "[server]", "[daemon]"])
def test_the_documented_sizes_are_right(machine: Machine, extra: str) -> None:
    machine.shell(
        f"rm -rf env && uv venv -q env && uv pip install -q -p env '{machine.wheel}{extra}'"
    )
    env = machine.directory / "env"
    site = next((env / "lib").glob("python*/site-packages"))
    row = re.search(
        rf"^\| `pip install '?safetyd{re.escape(extra)}'?` \| .* \| (\d+) \| (\d+) \|$",
        PAGE.read_text(),
        re.MULTILINE,
    )
    assert row is not None

    found = _packages(site), _size(env)
    print(f"safetyd{extra}: {found[0]} packages, {found[1]} MB")
    assert found[0] == int(row[1])
    assert abs(found[1] - int(row[2])) <= TOLERANCE * int(row[2])


@pytest.mark.parametrize("note", ["uvx", "uv tool", "pipx"])
def test_the_documented_commands_install_a_daemon_that_runs(machine: Machine, note: str) -> None:
    block = noted_block(PAGE, note)
    for line in filter(None, block.splitlines()):
        machine.shell(line.partition("#")[0])

    if note != "uvx":
        safetyd = machine.directory / "apps" / "safetyd"
        said = machine.shell(f"{shlex.quote(str(safetyd))} demo --auto --scene 1")
        assert said
        machine.shell(
            "uv tool uninstall safetyd" if note == "uv tool" else "pipx uninstall safetyd"
        )
        assert not safetyd.exists()


def _packages(site: Path) -> int:
    return len(list(site.glob("*.dist-info")))


def _size(directory: Path) -> int:
    files = (path.lstat().st_size for path in directory.rglob("*") if not path.is_dir())
    return round(sum(files) / MB)
