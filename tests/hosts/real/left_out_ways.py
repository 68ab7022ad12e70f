"""Flags and files of a project that may leave the hooks of a host out."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.conftest import RunningDaemon
from tests.hosts.real.operator_commands import run_safetyd
from tests.hosts.real.real_hosts import HostHome


class Way(NamedTuple):
    """Options, files of the project, and lines that trust the project."""

    name: str
    leaves_out: bool
    options: tuple[str, ...] = ()
    files: Mapping[str, str] = {}
    trust: tuple[str, str] = ("", "")  # a text in the user's settings, and what replaces it


_OFF: Final = '{"disableAllHooks": true}'
_COPILOT: Final = {".github/copilot/settings.json": _OFF}
_CODEX: Final = {".codex/config.toml": "[features]\nhooks = false\n"}
_GEMINI: Final = {".gemini/settings.json": '{"hooksConfig": {"enabled": false}}'}
CODEX_TRUST: Final = ("# mine", '# mine\nprojects = {"@FOLDER@" = {trust_level = "trusted"}}')
GEMINI_TRUST: Final = ('"security": {', '"security": {"folderTrust": {"enabled": false}, ')

WAYS: Final = {
    "claude-code": (
        Way("settings.json", leaves_out=True, files={".claude/settings.json": _OFF}),
        Way("settings.local.json", leaves_out=True, files={".claude/settings.local.json": _OFF}),
        Way("--bare", leaves_out=True, options=("--bare",)),
        Way("--safe-mode", leaves_out=True, options=("--safe-mode",)),
        Way("--setting-sources", leaves_out=True, options=("--setting-sources", "project")),
        Way("--settings", leaves_out=True, options=("--settings", _OFF)),
    ),
    "codex": (
        Way("config.toml", leaves_out=False, files=_CODEX),
        Way("config.toml, trusted", leaves_out=True, files=_CODEX, trust=CODEX_TRUST),
        Way("-c", leaves_out=True, options=("-c", "features.hooks=false")),
        Way("--disable", leaves_out=True, options=("--disable", "hooks")),
    ),
    "gemini": (
        Way("settings.json", leaves_out=False, files=_GEMINI),
        # The hooks do not run, and the policy denies each call without their key.
        Way("settings.json, trusted", leaves_out=False, files=_GEMINI, trust=GEMINI_TRUST),
    ),
    "copilot": (
        Way("settings.json", leaves_out=False, files=_COPILOT),
        Way("--trust-folder", leaves_out=True, files=_COPILOT, options=("--trust-folder",)),
    ),
    "opencode": (
        Way(
            "opencode.json, --pure",
            leaves_out=True,
            files={"opencode.json": '{"permission": {"bas*": "allow"}}'},
            options=("--pure",),
        ),
        Way(
            "opencode.json",
            leaves_out=False,
            files={"opencode.json": '{"permission": {"bas*": "allow"}}'},
        ),
    ),
}


def trust_project(home: HostHome, way: Way) -> None:
    """Change the settings of a user who trusts the project, if the way needs that."""
    for name in home.settings() if way.trust[0] else ():
        path, (old, new) = home.home / name, way.trust
        assert old in path.read_text()
        new = new.replace("@FOLDER@", str(home.project))
        path.write_text(path.read_text().replace(old, new, 1))


def write_files(home: HostHome, way: Way) -> None:
    """Write the project's files, and nothing of other ways."""
    for other in WAYS[home.program.host]:
        for name in other.files:
            (home.project / name).unlink(missing_ok=True)
    for name, text in way.files.items():
        (home.project / name).parent.mkdir(parents=True, exist_ok=True)
        (home.project / name).write_text(text)


def protect_and_leave_out(home: HostHome, way: Way, daemon: RunningDaemon) -> None:
    """Protect a host whose user trusts the project, then write the project's files."""
    trust_project(home, way)
    run_safetyd(home, daemon, "protect", home.program.host, "--yes")
    write_files(home, way)
