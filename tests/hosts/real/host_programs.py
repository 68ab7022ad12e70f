"""The real programs, installed from npm into a cache outside the tree."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

INSTALL_S: Final = 600.0
COMPLETE: Final = ".complete"


class Program(NamedTuple):
    """A version of a host, as npm has it."""

    host: str  # as `safetyd protect` names it
    package: str
    version: str
    binary: str

    @property
    def name(self) -> str:
        return f"{self.host}-{self.version}"


# The tested versions. Under Node 20, npm itself chooses the old Claude Code.
PROGRAMS: Final = (
    Program("claude-code", "@anthropic-ai/claude-code", "2.1.197", "claude"),
    Program("claude-code", "@anthropic-ai/claude-code", "2.1.326", "claude"),
    Program("codex", "@openai/codex", "0.169.0", "codex"),
    Program("gemini", "@google/gemini-cli", "0.61.0", "gemini"),
    Program("copilot", "@github/copilot", "1.0.102", "copilot"),
    Program("opencode", "opencode-ai", "1.18.33", "opencode"),
)


def installed(program: Program) -> Path:
    """Return the folder with a program's command; install it if it is not in the cache yet."""
    npm = shutil.which("npm")
    assert npm is not None, "npm is needed for tests with real hosts. Install Node.js 20 or newer."
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "safetyd-hosts" / program.name
    commands = folder / "node_modules" / ".bin"
    if not (folder / COMPLETE).exists():
        _install(npm, program, folder)
        assert (commands / program.binary).exists(), f"{program.package} has no {program.binary}"
        (folder / COMPLETE).touch()
    return commands


def _install(npm: str, program: Program, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # --force: the newer Claude Code asks for a newer Node.js than it needs.
    options = ["--prefix", str(folder), "--no-save", "--no-audit", "--no-fund", "--force"]
    ran = subprocess.run(
        [npm, "install", *options, f"{program.package}@{program.version}"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    assert ran.returncode == 0, f"npm cannot install {program.name}:\n{ran.stderr[-2000:]}"
