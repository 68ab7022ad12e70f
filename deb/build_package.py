"""Build dist/safetyd_VERSION_ARCHITECTURE.deb: `python -m deb.build_package`.

The same checkout and the same wheels give the same file (SOURCE_DATE_EPOCH).
"""

import argparse
import gzip
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from deb import control_files
from deb.bundled_venv import PLACE, ROOT, Interpreter, build_venv, run
from safetyd.console import man_page
from safetyd.console.cli import commands
from safetyd.console.service.service_unit import SYSTEM_CONFIG, UNIT, with_program

TOOLS: Final = {"dpkg-deb": "dpkg", "dpkg-shlibdeps": "dpkg-dev"}
PROGRAM: Final = Path("/usr/bin/safetyd")
DOC: Final = Path("/usr/share/doc/safetyd")
COMPLETIONS: Final = {
    "bash": "/usr/share/bash-completion/completions/safetyd",
    "zsh": "/usr/share/zsh/vendor-completions/_safetyd",
    "fish": "/usr/share/fish/vendor_completions.d/safetyd.fish",
}
# From the checkout to the package, with the path of the program adapted.
UNITS: Final = {
    f"systemd/{UNIT}": f"/lib/systemd/system/{UNIT}",
    "systemd/user/safetyd-desktop.service": "/usr/lib/systemd/user/safetyd-desktop.service",
}
COPIES: Final = {
    "systemd/safetyd.sysusers": "/usr/lib/sysusers.d/safetyd.conf",
    "config/production.toml": str(SYSTEM_CONFIG),
    "deb/files/README.Debian": f"{DOC}/README.Debian",
    "deb/files/lintian-overrides": "/usr/share/lintian/overrides/safetyd",
}


class Staging:
    """The folder that becomes the package."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, place: str | Path, text: str, mode: int = 0o644) -> None:
        """Write a file; one that ends with .gz is compressed."""
        path = self.path / Path(place).relative_to("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
        path.chmod(mode)

    def link(self, place: Path, target: Path) -> None:
        path = self.path / place.relative_to("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(os.path.relpath(target, place.parent))

    def set_modes(self) -> None:
        """Give files and folders the modes of a package. Only programs in bin can be run."""
        for path in (self.path, *self.path.rglob("*")):
            if not path.is_symlink():
                runs = path.is_dir() or path.parent.name == "bin"
                path.chmod(0o755 if runs else 0o644)

    @property
    def size_kib(self) -> int:
        """Return the size as dpkg-gencontrol would: files are rounded up, all else is 1 KiB."""
        found = (path.lstat() for path in self.path.rglob("*"))
        return sum(-(-one.st_size // 1024) if one.st_mode & 0o100000 else 1 for one in found)


def build(output: Path, interpreter: Interpreter, made: datetime, level: int) -> Path:
    """Build the package in a folder and return its path."""
    with tempfile.TemporaryDirectory() as folder:
        scratch, staging = Path(folder), Staging(Path(folder) / "stage")
        staging.path.mkdir()
        site = build_venv(staging.path, scratch, interpreter)
        for place, text in _texts(staging, site, made):
            staging.write(place, text)
        staging.link(PROGRAM, PLACE / "bin/safetyd")
        staging.link(PLACE / "bin/python3", interpreter.path)
        staging.set_modes()
        depends = control_files.depends(staging.path, scratch, interpreter)
        control = control_files.control(depends, staging.size_kib)
        sums = control_files.md5sums(staging.path)
        staging.write("/DEBIAN/control", control)
        staging.write("/DEBIAN/conffiles", f"{SYSTEM_CONFIG}\n")
        staging.write("/DEBIAN/md5sums", sums)
        for name in control_files.SCRIPTS:
            text = (control_files.FILES / name).read_text()
            staging.write(f"/DEBIAN/{name}", text, mode=0o755)
        output.mkdir(parents=True, exist_ok=True)
        words = ("safetyd", control_files.version(), control_files.architecture())
        package = output / f"{'_'.join(words)}.deb"
        line = ["dpkg-deb", "--root-owner-group", "-Zxz", f"-z{level}", "--build"]
        run([*line, staging.path, package], SOURCE_DATE_EPOCH=str(int(made.timestamp())))
    return package


def _texts(staging: Staging, site: Path, made: datetime) -> Iterator[tuple[str, str]]:
    """Yield the places and contents of all text files outside the environment."""
    for name, place in UNITS.items():
        yield place, with_program((ROOT / name).read_text(), str(PROGRAM))
    for name, place in COPIES.items():
        yield place, (ROOT / name).read_text()
    python = staging.path / PLACE.relative_to("/") / "bin/python3"
    for shell, place in COMPLETIONS.items():
        yield place, run([python, "-m", "safetyd", "completion", shell])
    day = made.strftime("%Y-%m-%d")
    yield "/usr/share/man/man1/safetyd.1.gz", man_page.page(commands, day)
    yield "/usr/share/man/man5/safetyd.toml.5.gz", man_page.settings_page(day)
    yield f"{DOC}/changelog.gz", control_files.changelog(made)
    yield f"{DOC}/copyright", control_files.copyright_text(site)


def _made() -> datetime:
    """Return the time that the package says it was made: that of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH") or run(["git", "log", "-1", "--format=%ct"])
    return datetime.fromtimestamp(int(given), UTC)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--python", default="/usr/bin/python3", help="the system's Python")
    parser.add_argument("--level", type=int, default=6, help="of the compression, 0 to 9")
    options = parser.parse_args()
    for tool, name in TOOLS.items():
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is missing. Run: sudo apt-get install {name}")
    os.umask(0o022)
    try:
        python = Interpreter.found(options.python)
        print(build(options.output, python, _made(), options.level))
    except subprocess.CalledProcessError as exc:
        sys.exit(f"{exc.stderr.decode()}`{shlex.join(exc.cmd)[:200]}` ended with {exc.returncode}")


if __name__ == "__main__":
    main()
