"""The image of the Containerfile without an engine: its files, user, commands and health check.

Directories of the container are directories below one of this machine, and ports are free ones.
"""

import os
import re
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.checkout import ROOT
from tests.conftest import LAST_WORD, READY_S, STOP_S
from tests.packages.containerfile import stages
from tests.packages.image_user import ImageUser

BUILD, FINAL = stages(ROOT / "Containerfile")
UID: Final = int(FINAL.only("USER").value.partition(":")[0])
(DATA,) = FINAL.only("VOLUME").command
CONFIG: Final = "/etc/safetyd/safetyd.toml"


@contextmanager
def short_directory() -> Iterator[Path]:
    """Yield a directory that other users can enter, unlike those of pytest."""
    directory = Path(tempfile.mkdtemp(prefix="safetyd-image-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


class Container:
    """A container of the image.

    `mounts` are volumes of it by their path inside, `read_only` are those that it only reads.
    """

    def __init__(
        self,
        root: Path,
        install: Path,
        config: str = "",
        mounts: Mapping[str, Path] | None = None,
        read_only: Mapping[str, Path] | None = None,
    ) -> None:
        self.root = root
        volumes = {DATA: root / "data", **(mounts or {})}
        self.places = {
            "/opt/safetyd": install,
            CONFIG: root / "safetyd.toml",
            **volumes,
            **(read_only or {}),
            "/tmp": root / "tmp",
        }
        root.mkdir(exist_ok=True)
        data = volumes[DATA]
        variables = {name: self.here(value) for name, value in FINAL.environment.items()}
        variables |= {"HOME": str(data), "TMPDIR": str(root / "tmp")}
        # In the image, `python` and its standard library are the base image's.
        variables["PATH"] += f":{os.environ['PATH']}"
        self.user = ImageUser(UID, variables, [data, *volumes.values(), root / "tmp"])
        for inside, outside in volumes.items():  # a volume inside the data directory
            if inside.startswith(f"{DATA}/") and not (data / Path(inside).name).exists():
                (data / Path(inside).name).symlink_to(outside)
        self.places[CONFIG].write_text(self.here(config))
        self._log = root / "log"

    def here(self, text: str) -> str:
        """Replace the container's paths. The longest path counts."""
        inside = "|".join(map(re.escape, sorted(self.places, key=len, reverse=True)))
        return re.sub(inside, lambda found: str(self.places[found[0]]), text)

    def safetyd(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the entry point with other arguments, as `docker exec` would."""
        return self.user.run(*self._entry, *arguments)

    def health(self) -> subprocess.CompletedProcess[str]:
        """Run the health check of the image."""
        return self.user.run(*FINAL.only("HEALTHCHECK").command)

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run the command of the image until the block ends or the process does."""
        command = [*self._entry, *map(self.here, FINAL.only("CMD").command)]
        with self._log.open("wb") as log, self.user.start(command, log) as process:
            try:
                self._wait_until_ready(process)
                yield process
            finally:
                process.terminate()
                process.wait(STOP_S)

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def _entry(self) -> list[str]:
        return FINAL.only("ENTRYPOINT").command

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        said = b""
        while LAST_WORD not in said:
            ready, _, _ = select.select([process.stdout], [], [], READY_S)
            chunk = os.read(process.stdout.fileno(), 4096) if ready else b""
            assert chunk, self.log()
            said += chunk
