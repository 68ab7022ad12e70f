"""The virtual environment in the package: the wheel of this checkout and its locked requirements.

It is built in a staging folder and then works at its final place: nothing in it names the folder.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
EXTRAS: Final = ("daemon", "mcp", "postgres")
PLACE: Final = Path("/usr/lib/safetyd")
FROM_SOURCE: Final = "nkeys"  # pure Python, and published without a wheel
PROGRAMS: Final = ("safetyd", "nats-server")

_ENTRY: Final = re.compile(r"^([\w.-]+)==.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


class Interpreter(NamedTuple):
    """The Python that the package depends on."""

    path: Path  # such as /usr/bin/python3.11

    @classmethod
    def found(cls, program: str) -> "Interpreter":
        ask = "import sys; print('{}.{}'.format(*sys.version_info))"
        version = run([program, "-c", ask]).strip()
        return cls(Path("/usr/bin") / f"python{version}")

    @property
    def package(self) -> str:
        return self.path.name

    @property
    def version(self) -> str:
        return self.path.name.removeprefix("python")


def run(command: Sequence[str | Path], **variables: str) -> str:
    """Run a command and return its output."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    environment.pop("PYTHONPATH", None)
    line = [*map(str, command)]
    done = subprocess.run(line, cwd=ROOT, env=environment, check=True, capture_output=True)
    return done.stdout.decode()


def build_venv(stage: Path, scratch: Path, interpreter: Interpreter) -> Path:
    """Build the environment for `PLACE` below `stage`; return its site-packages."""
    venv = stage / PLACE.relative_to("/")
    run([interpreter.path, "-m", "venv", "--without-pip", "--symlinks", venv])
    lock = scratch / "requirements.lock"
    lock.write_text("".join(locked()))
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin/python"), "install", "--quiet"]
    pip += ["--no-deps", "--no-compile", "--disable-pip-version-check"]
    wheels = ["--only-binary", ":all:", "--no-binary", FROM_SOURCE]
    run([*pip, "--require-hashes", *wheels, "--requirement", lock])
    run([*pip, "--no-index", _wheel(scratch)])
    site = venv / "lib" / interpreter.package / "site-packages"
    _relocate(venv, site, interpreter)
    _compile(stage, site, interpreter)
    return site


def locked() -> Iterator[str]:
    """Yield the entries of the lock that the program needs, without those that only build it."""
    names = set(_needed())
    for entry in _ENTRY.finditer((ROOT / "requirements.lock").read_text()):
        if canonicalize_name(entry[1]) in names:
            yield entry[0]


def _needed() -> Iterator[str]:
    """Yield the distributions that safetyd needs with its extras, by canonical name."""
    seen: set[tuple[str, str]] = set()
    waiting = [("safetyd", extra) for extra in ("", *EXTRAS)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for needed in map(Requirement, metadata.requires(name) or ()):
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                below = canonicalize_name(needed.name)
                waiting += [(below, one) for one in ("", *needed.extras)]
    yield from (name for name, _ in seen)


def _wheel(scratch: Path) -> Path:
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", scratch / "dist"])
    [wheel] = (scratch / "dist").glob("*.whl")
    return wheel


def _relocate(venv: Path, site: Path, interpreter: Interpreter) -> None:
    """Make the environment work at its final place."""
    programs = venv / "bin"
    for path in programs.iterdir():
        if path.name not in PROGRAMS:
            path.unlink()
    (programs / "python3").symlink_to(interpreter.path)
    (programs / "python").symlink_to("python3")
    script = programs / "safetyd"
    _, rest = script.read_text().split("\n", 1)
    script.write_text(f"#!{PLACE}/bin/python3\n{rest}")
    (venv / "pyvenv.cfg").write_text(
        f"home = {interpreter.path.parent}\n"
        "include-system-site-packages = false\n"
        f"version = {interpreter.version}\n"
    )
    for folder in ("include", "lib64"):
        path = venv / folder
        if path.is_symlink():
            path.unlink()
        elif path.exists():
            shutil.rmtree(path)
    for path in site.glob("*.dist-info/direct_url.json"):
        path.unlink()
    # RECORD has hashes of the scripts as pip wrote them, and nothing here uses it.
    for path in site.glob("*.dist-info/RECORD"):
        path.unlink()


def _compile(stage: Path, site: Path, interpreter: Interpreter) -> None:
    """Compile everything. Bytecode is never checked or written again at run time."""
    line = [str(interpreter.path), "-m", "compileall", "-q", "-f", "-s", str(stage), "-p", "/"]
    run([*line, "--invalidation-mode", "unchecked-hash", site], PYTHONHASHSEED="0")
