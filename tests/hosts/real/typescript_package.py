"""The TypeScript client in a folder of its own, built with packages from npm."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.checkout import ROOT
from tests.conftest import environment
from tests.hosts.real.host_programs import COMPLETE

SOURCE: Final = ROOT / "clients/typescript"
RUN_S: Final = 600.0
_PROGRAM: Final = re.compile(r"<!-- program -->\n```ts\n(.*?)```", re.DOTALL)


def packages() -> Path:
    """Return `node_modules` with the locked packages; install them if they are not cached yet."""
    npm = shutil.which("npm")
    assert npm is not None, "npm is needed to test the TypeScript client. Install Node.js 20."
    locked = hashlib.sha256((SOURCE / "package-lock.json").read_bytes()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "safetyd-hosts" / f"typescript-{locked}"
    if not (folder / COMPLETE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(SOURCE / name, folder)
        node(folder, npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts")
        (folder / COMPLETE).touch()
    return folder / "node_modules"


def build(folder: Path) -> Path:
    """Compile the client, its tests and the program of its README below `folder`."""
    package = folder / "clients/typescript"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (package / "node_modules").symlink_to(packages())
    (folder / "docs").symlink_to(ROOT / "docs")
    (program,) = _PROGRAM.findall((SOURCE / "README.md").read_text())
    (package / "tests/readme_program.ts").write_text(program)
    node(package, "node", "node_modules/typescript/bin/tsc")
    return package


def node(folder: Path, *command: str, **variables: str) -> str:
    """Run a command with this environment's `safetyd` and `nats-server`; return its output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        command,
        cwd=folder,
        env=environment(PATH=path, **variables),
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert ran.returncode == 0, f"{command}:\n{ran.stdout[-6000:]}\n{ran.stderr[-2000:]}"
    return ran.stdout
